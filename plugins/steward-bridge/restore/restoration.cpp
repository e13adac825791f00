#include "plugins/steward-bridge/restore/restoration.hpp"

#include "plugins/steward-bridge/bolt/new_file.hpp"
#include "plugins/steward-bridge/files.hpp"
#include "plugins/steward-bridge/restore/chain_reader.hpp"
#include "plugins/steward-bridge/restore/raft_files.hpp"
#include "plugins/steward-bridge/snapshot/trailer.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

namespace capstan::steward {
namespace {

namespace fs = std::filesystem;

// Removed when it goes out of scope, unless it was kept.
class Scratch {
public:
    explicit Scratch(std::string path) : path_(std::move(path)) {}
    ~Scratch() {
        if (!kept_) {
            std::error_code ignored;
            fs::remove_all(path_, ignored);
        }
    }
    Scratch(const Scratch&) = delete;
    Scratch& operator=(const Scratch&) = delete;

    void keep() { kept_ = true; }
    const std::string& path() const { return path_; }

private:
    const std::string path_;
    bool kept_{false};
};

auto disk_error(const std::string& what, const std::error_code& error) {
    return fail(bolt::code_of_errno(error.value()), what + ": " + error.message());
}

Result<void> make_directories(const std::string& path) {
    for (const char* part : {"", "/member", "/member/snap", "/member/wal"}) {
        const std::string directory = path + part;
        if (::mkdir(directory.c_str(), 0700) != 0) {
            return fail(bolt::code_of_errno(errno),
                        "cannot make " + directory + ": " + std::strerror(errno));
        }
    }
    return ok();
}

// `but`: the name of what may be in it.
Result<void> check_absent(const std::string& data_directory, std::string_view but) {
    std::error_code error;
    for (fs::directory_iterator at(data_directory, error), end; !error && at != end;
         at.increment(error)) {
        if (at->path().filename() != but) {
            return fail(Code::exists,
                        data_directory + " is not empty; move it aside before restoring there");
        }
    }
    if (error && error != std::errc::no_such_file_or_directory) {
        return disk_error("cannot look into " + data_directory, error);
    }
    return ok();
}

// What D9 calls a database near its quota becomes smaller, without the revisions that are history
// to the newest delta as well.
Result<void> shrink(const std::string& database,
                    const SnapshotListing& listing,
                    const RestoreOptions& options,
                    RestoreReport& report) {
    if (options.quota_bytes == 0 || report.database_bytes <= options.quota_bytes / 5 * 4) {
        return ok();
    }
    std::int64_t compact_to = report.revision;
    for (const SnapshotRecord& each : listing.snapshots) {
        if (!report.deltas.empty() && each.key() == report.deltas.back()) {
            compact_to = each.start_revision - 1;
        }
    }
    const std::string whole = database + ".whole";
    std::error_code error;
    fs::rename(database, whole, error);
    if (error) {
        return disk_error("cannot rename " + database, error);
    }
    CAPSTAN_TRY(const CompactionResult compacted,
                compact_database(whole, database, compact_to, options.compaction_memory_bytes));
    fs::remove(whole, error);
    report.compacted_to = compact_to;
    report.warnings.push_back("the database of " + std::to_string(report.database_bytes) +
                              " bytes is near the quota of " + std::to_string(options.quota_bytes) +
                              ", so revisions superseded before " + std::to_string(compact_to) +
                              " were dropped; " + std::to_string(compacted.bytes) +
                              " bytes are left");
    report.database_bytes = compacted.bytes;
    return ok();
}

Result<void> publish(const std::string& from, const std::string& data_directory) {
    std::error_code error;
    fs::remove(data_directory, error);  // an empty one
    fs::rename(from, data_directory, error);
    if (error) {
        return disk_error("cannot rename " + from + " to " + data_directory, error);
    }
    const fs::path parent = fs::path(data_directory).parent_path();
    return bolt::sync_directory(parent.empty() ? "." : parent.string());
}

// Beside the data, so that it goes where the data goes; etcd does not look at it.
std::string left_history_path(const std::string& data_directory) {
    return data_directory + "/member/capstan-left-history";
}

Result<void> note_left_history(const std::string& data_directory, const std::string& leaves) {
    if (leaves.empty()) {
        return ok();
    }
    return write_file(left_history_path(data_directory), leaves + "\n");
}

// A file as a stream.
class FileSource final : public Source {
public:
    explicit FileSource(int fd) : fd_(fd) {}
    ~FileSource() override { ::close(fd_); }
    FileSource(const FileSource&) = delete;
    FileSource& operator=(const FileSource&) = delete;

    Result<std::size_t> read(std::span<std::uint8_t> into) override {
        while (true) {
            const ssize_t n = ::read(fd_, into.data(), into.size());
            if (n >= 0) {
                return static_cast<std::size_t>(n);
            }
            if (errno != EINTR) {
                return fail(Code::unavailable,
                            std::string("cannot read the new database: ") + std::strerror(errno));
            }
        }
    }

private:
    const int fd_;
};

}  // namespace

Result<RestoreReport> restore(const SnapshotListing& listing,
                              SnapshotObjects& objects,
                              Digests& digests,
                              const NewCluster& cluster,
                              const std::string& directory,
                              const RestoreOptions& options) {
    // What is made stands beside it until it is whole: "data/" is "data".
    const std::string data_directory = directory.substr(0, directory.find_last_not_of('/') + 1);
    if (data_directory.empty()) {
        return fail(Code::invalid, "\"" + directory + "\" cannot be a data directory");
    }
    CAPSTAN_TRY(check_absent(data_directory, options.before_publishing ? "member" : ""));
    Scratch part(data_directory + ".part");
    std::error_code error;
    fs::remove_all(part.path(), error);  // of a run that was killed
    CAPSTAN_TRY(make_directories(part.path()));
    const std::string database = part.path() + "/member/snap/db";
    ChainReader reader(listing, objects, digests, options);
    CAPSTAN_TRY(RestoreReport report, reader.run(database, &cluster));
    CAPSTAN_TRY(shrink(database, listing, options, report));
    CAPSTAN_TRY(write_raft_files(part.path() + "/member", cluster));
    CAPSTAN_TRY(note_left_history(part.path(), report.leaves));
    CAPSTAN_TRY(bolt::sync_directory(part.path() + "/member"));
    CAPSTAN_TRY(bolt::sync_directory(part.path()));
    if (options.before_publishing) {
        CAPSTAN_TRY(options.before_publishing(part.path()));
        CAPSTAN_TRY(check_absent(data_directory, {}));
    }
    CAPSTAN_TRY(publish(part.path(), data_directory));
    part.keep();
    return report;
}

Result<std::string> left_history(const std::string& data_directory) {
    auto text = read_file(left_history_path(data_directory));
    if (!text) {
        return text.error().code == Code::not_found ? Result<std::string>(std::string())
                                                    : Result<std::string>(text.error());
    }
    std::string& name = text.value();
    name.resize(std::min(name.find('\n'), name.size()));
    return text;
}

void forget_left_history(const std::string& data_directory) {
    std::error_code ignored;
    fs::remove(left_history_path(data_directory), ignored);
}

Result<RestoreReport> verify(const SnapshotListing& listing,
                             SnapshotObjects& objects,
                             Digests& digests,
                             const RestoreOptions& options) {
    ChainReader reader(listing, objects, digests, options);
    return reader.run({}, nullptr);
}

Result<RestoreReport> compact(const SnapshotListing& listing,
                              SnapshotObjects& objects,
                              Digests& digests,
                              Sink& to,
                              const RestoreOptions& options) {
    const Scratch whole(options.work_directory + ".whole.db");
    const Scratch compacted(options.work_directory + ".compacted.db");
    std::error_code error;
    fs::remove(whole.path(), error);  // of a run that was killed
    fs::remove(compacted.path(), error);
    RestoreReport report;
    {
        ChainReader reader(listing, objects, digests, options);
        CAPSTAN_TRY(report, reader.run(whole.path(), nullptr));
    }
    CAPSTAN_TRY(
        const CompactionResult result,
        compact_database(
            whole.path(), compacted.path(), report.revision, options.compaction_memory_bytes));
    report.compacted_to = report.revision;
    report.database_bytes = result.bytes;
    if (options.before_writing) {
        CAPSTAN_TRY(options.before_writing(report));
    }
    const int fd = ::open(compacted.path().c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return fail(Code::unavailable,
                    "cannot read " + compacted.path() + ": " + std::strerror(errno));
    }
    FileSource source(fd);
    CAPSTAN_TRY(auto sha256, digests.sha256());
    TrailerSink trailer(to, std::move(sha256));
    CAPSTAN_TRY(copy(source, trailer));
    CAPSTAN_TRY(trailer.finish());
    return report;
}

}  // namespace capstan::steward
