#include "plugins/steward-bridge/data/data_directory.hpp"

#include "plugins/steward-bridge/bolt/reader.hpp"
#include "plugins/steward-bridge/data/wal.hpp"
#include "plugins/steward-bridge/restore/base.hpp"
#include "plugins/steward-bridge/restore/cluster.hpp"
#include "plugins/steward-bridge/restore/mvcc.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <limits>
#include <system_error>
#include <vector>

namespace capstan::steward {
namespace {

namespace fs = std::filesystem;
using State = DataDirectory::State;

std::string hex_id(std::uint64_t id) {
    NewMember member;
    member.id = id;
    return member.hex_id();
}

struct Parts {
    std::string wal, snap, database;
    bool has_wal{false}, has_database{false};
};

Result<bool> is_there(const std::string& path) {
    std::error_code error;
    const bool there = fs::exists(path, error);
    if (error) {
        return fail(Code::unavailable, path + ": " + error.message());
    }
    return there;
}

Result<Parts> find_parts(const std::string& path) {
    const std::string member = path + "/member";
    Parts parts{member + "/wal", member + "/snap", member + "/snap/db", false, false};
    const auto files = list_wal(parts.wal);
    if (!files && files.error().code != Code::not_found) {
        return fail(files.error());
    }
    parts.has_wal = files && !files.value().empty();
    CAPSTAN_TRY(parts.has_database, is_there(parts.database));
    return parts;
}

// bbolt locks the file as long as it is open for writing.
Result<bool> is_locked(const std::string& path) {
    const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return fail(Code::unavailable, path + ": " + std::strerror(errno));
    }
    const int error = ::flock(fd, LOCK_SH | LOCK_NB) != 0 ? errno : 0;
    ::close(fd);
    if (error != 0 && error != EWOULDBLOCK) {
        return fail(Code::unavailable, path + ": cannot be locked: " + std::strerror(error));
    }
    return error != 0;
}

struct DatabaseFacts {
    std::int64_t revision{0};
    std::uint64_t consistent_index{0};
};

// An entry of the bucket `key` is a revision, and its value says the same one.
Result<void> check_entry(bolt::Bytes key, bolt::Bytes value) {
    const auto revision = mvcc::decode_revision(bolt::text(key));
    if (!revision) {
        return fail(Code::invalid, "a key that is no revision");
    }
    CAPSTAN_TRY(const auto pair, mvcc::decode_key_value(bolt::text(value)));
    // A tombstone's value holds nothing but the key.
    if (!revision->tombstone && pair.mod_revision != revision->main) {
        return fail(Code::invalid,
                    "revision " + std::to_string(revision->main) + " holds a value of revision " +
                        std::to_string(pair.mod_revision));
    }
    return ok();
}

Result<DatabaseFacts> read_database(const std::string& path, Depth depth) {
    CAPSTAN_TRY(const auto reader, bolt::Reader::open(path));
    CAPSTAN_TRY(const auto buckets, reader->buckets());
    if (buckets.empty()) {
        return DatabaseFacts{};  // etcd died before its first transaction
    }
    CAPSTAN_TRY(const BaseFacts base, read_base(*reader));
    if (depth == Depth::full) {
        CAPSTAN_TRY(
            reader->check([](const bolt::Bucket& bucket, bolt::Bytes key, bolt::Bytes value) {
                return bucket.name == mvcc::kKeyBucket ? check_entry(key, value)
                                                       : Result<void>(ok());
            }));
    }
    DatabaseFacts facts;
    facts.revision = base.revision;
    const auto index = base.meta.find(std::string(mvcc::kConsistentIndex));
    if (index != base.meta.end()) {
        facts.consistent_index = mvcc::decode_number(index->second).value_or(0);
    }
    return facts;
}

struct Log {
    WalMark snap;  // where etcd begins to replay; index 0: at the beginning
    WalFacts wal;
};

Result<Log> read_log(const Parts& parts, Depth depth, const WalFacts& tail) {
    CAPSTAN_TRY(const auto snaps, list_snaps(parts.snap));
    std::string problem;
    for (const SnapFile& file : snaps) {
        const Result<void> whole = check_snap(parts.snap, file);
        if (!whole && whole.error().code != Code::invalid) {
            return fail(whole.error());
        }
        if (!whole) {
            problem = problem.empty() ? whole.error().message : problem;
            continue;
        }
        if (depth == Depth::sanity) {
            return Log{file.mark, tail};
        }
        CAPSTAN_TRY(auto wal, read_wal(parts.wal, file.mark.index));
        // The file comes before its mark in the log: a crash may leave one without.
        if (std::find(wal.marks.begin(), wal.marks.end(), file.mark) != wal.marks.end()) {
            return Log{file.mark, std::move(wal)};
        }
        problem = parts.snap + "/" + file.name + ": the log knows nothing of it";
    }
    auto wal = read_wal(parts.wal, 0);
    if (!wal) {
        const bool judged = wal.error().code == Code::invalid && !problem.empty();
        return fail(judged ? Error{Code::invalid, problem, {}} : wal.error());
    }
    return Log{WalMark{}, std::move(wal).value()};
}

// Log, snapshot and database are of one life of one member, as etcd itself demands when it starts;
// what it would notice only later, or never, is looked for as well.
Result<void> check_fit(const Parts& parts, const Log& log, const DatabaseFacts& database) {
    if (database.consistent_index < log.snap.index) {
        char name[32];
        std::snprintf(
            name, sizeof name, "%016llx.snap.db", static_cast<unsigned long long>(log.snap.index));
        CAPSTAN_TRY(const bool sent, is_there(parts.snap + "/" + name));
        if (!sent) {
            return fail(Code::invalid,
                        parts.database + ": has applied entry " +
                            std::to_string(database.consistent_index) +
                            ", the newest snapshot is of entry " + std::to_string(log.snap.index));
        }
    }
    if (database.consistent_index > log.wal.last_index) {
        return fail(Code::invalid,
                    parts.database + ": has applied entry " +
                        std::to_string(database.consistent_index) + ", the log ends at entry " +
                        std::to_string(log.wal.last_index));
    }
    return ok();
}

Result<void> inspect_parts(const Parts& parts, Depth depth, DataDirectory& found) {
    constexpr std::uint64_t kLastFileOnly = std::numeric_limits<std::uint64_t>::max();
    // Whose it is comes first: also of what is damaged.
    CAPSTAN_TRY(const WalFacts tail, read_wal(parts.wal, kLastFileOnly));
    found.member_id = hex_id(tail.member_id);
    found.cluster_id = hex_id(tail.cluster_id);
    CAPSTAN_TRY(const Log log, read_log(parts, depth, tail));
    const auto database = read_database(parts.database, depth);
    if (!database) {
        return fail(with_context(database.error(), parts.database));
    }
    found.revision = database.value().revision;
    return check_fit(parts, log, database.value());
}

// Nothing was ever stored: etcd makes the database before the log.
Result<bool> is_unused(const std::string& database) {
    struct stat info {};
    if (::stat(database.c_str(), &info) == 0 && info.st_size == 0) {
        return true;
    }
    const auto facts = read_database(database, Depth::sanity);
    if (!facts && facts.error().code != Code::invalid) {
        return fail(with_context(facts.error(), database));
    }
    return facts && facts.value().revision <= 1 && facts.value().consistent_index == 0;
}

// Errors: what could not be read. `found` holds what was learned until then.
Result<State> inspect(const std::string& path, Depth depth, DataDirectory& found) {
    CAPSTAN_TRY(const Parts parts, find_parts(path));
    if (!parts.has_wal && !parts.has_database) {
        // etcd makes the directories before anything else: a process that died there has stored
        // nothing.
        return State::missing;
    }
    if (!parts.has_wal) {
        CAPSTAN_TRY(const bool unused, is_unused(parts.database));
        found.reason = unused ? "" : parts.wal + ": holds no write-ahead log";
        return unused ? State::missing : State::invalid;
    }
    if (!parts.has_database) {
        found.reason = parts.database + ": missing";
        return State::invalid;
    }
    CAPSTAN_TRY(const bool locked, is_locked(parts.database));
    if (locked) {
        found.reason = parts.database + ": another process has it open";
        return State::in_use;
    }
    const Result<void> whole = inspect_parts(parts, depth, found);
    if (!whole && whole.error().code != Code::invalid) {
        return fail(whole.error());
    }
    if (!whole) {
        found.damaged = true;
        found.reason = whole.error().message;
    }
    return whole ? State::valid : State::invalid;
}

}  // namespace

DataDirectory inspect_data_directory(const std::string& path, Depth depth) {
    DataDirectory found;
    const Result<State> state = inspect(path, depth, found);
    found.state = state ? state.value() : State::unreadable;
    if (!state) {
        found.reason = "cannot be read: " + state.error().message;
    }
    return found;
}

Result<bool> is_in_use(const std::string& path) {
    const std::string database = path + "/member/snap/db";
    CAPSTAN_TRY(const bool there, is_there(database));
    return there ? is_locked(database) : Result<bool>(false);
}

std::string fingerprint_of(const std::string& path) {
    std::string text;
    const auto add = [&text](const fs::path& file) {
        struct stat info {};
        if (::stat(file.c_str(), &info) == 0) {
            text += file.filename().string() + ":" + std::to_string(info.st_ino) + ":" +
                    std::to_string(info.st_size) + ":" + std::to_string(info.st_mtim.tv_sec) + "." +
                    std::to_string(info.st_mtim.tv_nsec) + ";";
        }
    };
    for (const char* part : {"/member/snap", "/member/wal"}) {
        std::vector<fs::path> files;
        std::error_code error;
        for (fs::directory_iterator at(path + part, error), end; !error && at != end;
             at.increment(error)) {
            files.push_back(at->path());
        }
        std::sort(files.begin(), files.end());
        std::for_each(files.begin(), files.end(), add);
    }
    return text;
}

}  // namespace capstan::steward
