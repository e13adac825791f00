#include "plugins/steward-bridge/data/data_owner.hpp"

#include "plugins/steward-bridge/files.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <system_error>

namespace capstan::steward {
namespace {

namespace fs = std::filesystem;

std::string note_path(const std::string& data_directory) {
    return data_directory + "/member/capstan-member";
}

std::string beside(const std::string& data_directory, std::string_view name) {
    return (fs::path(data_directory).parent_path() / name).string();
}

// "" when there is none.
Result<std::string> read_trimmed(const std::string& path) {
    auto text = read_file(path);
    if (!text) {
        return text.error().code == Code::not_found ? Result<std::string>(std::string())
                                                    : Result<std::string>(text.error());
    }
    std::string& value = text.value();
    value.resize(std::min(value.find_last_not_of(" \r\n\t") + 1, value.size()));
    return text;
}

std::string name_of(const ObjectKey& me) {
    return me.ns + "/" + me.name;
}

OwnerVerdict foreign(std::string volume_id, std::string message) {
    return {DataOwner::foreign, std::move(volume_id), std::move(message)};
}

// By the answer of the running cluster; it is the best witness there is.
OwnerVerdict by_list(const DataDirectory& data, const OwnerFacts& facts, bool noted) {
    const std::string ids = data.cluster_id + ":" + data.member_id;
    if (data.cluster_id == facts.cluster_id) {
        if (data.member_id == facts.own_id) {
            return {DataOwner::mine, {}, {}};
        }
        const auto& others = facts.other_ids;
        if (std::find(others.begin(), others.end(), data.member_id) != others.end()) {
            return foreign(ids, "the data is of another member of this cluster, " + data.member_id);
        }
        return {DataOwner::earlier_life, {}, {}};
    }
    const bool recorded =
        facts.record_id == data.member_id && facts.record_cluster == data.cluster_id;
    if (noted || recorded || (facts.own_id.empty() && facts.record_id.empty())) {
        return {DataOwner::earlier_life, {}, {}};
    }
    return foreign(ids,
                   "the data is of cluster " + data.cluster_id +
                       ", this member belongs to cluster " + facts.cluster_id);
}

OwnerVerdict by_record(const DataDirectory& data, const OwnerFacts& facts) {
    if (facts.record_id.empty() || facts.record_cluster.empty()) {
        return {};
    }
    if (facts.record_id == data.member_id && facts.record_cluster == data.cluster_id) {
        return {DataOwner::mine, {}, {}};
    }
    return foreign(data.cluster_id + ":" + data.member_id,
                   "the data is of member " + data.member_id + " of cluster " + data.cluster_id +
                       ", the record says member " + facts.record_id + " of cluster " +
                       facts.record_cluster);
}

}  // namespace

OwnerVerdict judge_owner(const DataDirectory& data, const OwnerFacts& facts, const ObjectKey& me) {
    if (data.state == DataDirectory::State::missing) {
        return {};
    }
    if (!facts.note.empty() && facts.note != name_of(me)) {
        return foreign(facts.note, "the volume is that of member " + facts.note);
    }
    if (!facts.safe_guard.empty() && facts.safe_guard != me.ns) {
        return foreign(facts.safe_guard, "the volume is one of namespace " + facts.safe_guard);
    }
    const bool noted = !facts.note.empty();
    if (data.member_id.empty()) {
        return {noted ? DataOwner::mine : DataOwner::unknown, {}, {}};
    }
    if (facts.list_known) {
        return by_list(data, facts, noted);
    }
    // Alone with a note of its own the ids may be newer than the record: a member that came back
    // under a new id, or was restored, and died before it could say so.
    return noted ? OwnerVerdict{DataOwner::mine, {}, {}} : by_record(data, facts);
}

Result<OwnerNotes> read_owner_notes(const std::string& data_directory) {
    OwnerNotes notes;
    CAPSTAN_TRY(notes.note, read_trimmed(note_path(data_directory)));
    CAPSTAN_TRY(notes.safe_guard, read_trimmed(beside(data_directory, "safe_guard")));
    return notes;
}

Result<void> write_owner_notes(const std::string& data_directory, const ObjectKey& me) {
    CAPSTAN_TRY(const OwnerNotes present, read_owner_notes(data_directory));
    if (present.note != name_of(me)) {
        std::error_code error;
        fs::create_directories(data_directory + "/member", error);
        if (error) {
            return fail(Code::unavailable, data_directory + "/member: " + error.message());
        }
        // etcd wants its directories for itself alone
        fs::permissions(data_directory, fs::perms::owner_all, error);
        fs::permissions(data_directory + "/member", fs::perms::owner_all, error);
        CAPSTAN_TRY(write_file(note_path(data_directory), name_of(me) + "\n"));
    }
    if (present.safe_guard.empty()) {
        CAPSTAN_TRY(write_file(beside(data_directory, "safe_guard"), me.ns));
    }
    return ok();
}

Result<void> check_writable(const std::string& data_directory) {
    const std::string path = beside(data_directory, ".capstan-write-test");
    const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0) {
        return fail(errno == EROFS || errno == EACCES ? Code::forbidden : Code::unavailable,
                    std::string(std::strerror(errno)) + ": " + path);
    }
    const bool written = ::write(fd, "x", 1) == 1;
    const int error = errno;
    ::close(fd);
    ::unlink(path.c_str());
    if (!written) {
        return fail(error == EROFS ? Code::forbidden : Code::unavailable,
                    std::string(std::strerror(error)) + ": " + path);
    }
    return ok();
}

}  // namespace capstan::steward
