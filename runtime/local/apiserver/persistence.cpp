#include "runtime/local/apiserver/persistence.hpp"

#include "runtime/local/apiserver/persistence_record.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <functional>

namespace capstan::local {
namespace {

constexpr mode_t kFileMode = 0600;  // Secrets are in there
constexpr std::size_t kSnapshotBatchBytes = 1024 * 1024;

Result<void> make_directory(const std::string& dir) {
    struct stat info {};
    if (::mkdir(dir.c_str(), 0700) != 0 && errno != EEXIST) {
        return fail(errno_error("create " + dir));
    }
    if (::stat(dir.c_str(), &info) != 0) {
        return fail(errno_error("stat " + dir));
    }
    if (!S_ISDIR(info.st_mode)) {
        return fail(Code::unavailable, dir + ": not a directory");
    }
    return ok();
}

Result<void> sync_directory(const std::string& dir) {
    const int fd = ::open(dir.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) {
        return fail(errno_error("open " + dir));
    }
    const bool done = ::fsync(fd) == 0;
    Error error = errno_error("fsync " + dir);
    ::close(fd);
    if (!done) {
        return fail(std::move(error));
    }
    return ok();
}

// Makes or replaces a file and has it on disk; on an error nothing is left of it.
Result<void> write_file(const std::string& path, const std::function<Result<void>(int fd)>& fill) {
    const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, kFileMode);
    if (fd < 0) {
        return fail(errno_error("open " + path));
    }
    auto written = fill(fd);
    if (written && ::fsync(fd) != 0) {
        written = fail(errno_error("fsync " + path));
    }
    ::close(fd);
    if (!written) {
        ::unlink(path.c_str());
    }
    return written;
}

// The whole state as records; the last one, {"end":N,"r":R}, proves that nothing is missing.
Result<void> write_state(int fd, const Store& store, const std::string& path) {
    std::string batch;
    std::uint64_t count = 0;
    for (const std::string& resource : store.resources()) {
        for (const auto& [key, object] : store.objects(resource)) {
            append_record(
                batch,
                change_record({Change{resource, key, nullptr, object, nullptr, object->revision}}));
            ++count;
            if (batch.size() >= kSnapshotBatchBytes) {
                CAPSTAN_TRY(write_all(fd, batch, path));
                batch.clear();
            }
        }
    }
    append_record(
        batch,
        "{\"end\":" + std::to_string(count) + ",\"r\":" + std::to_string(store.revision()) + "}");
    return write_all(fd, batch, path);
}

}  // namespace

Persistence::Persistence(std::string dir, bool sync, Notice notice)
    : dir_(std::move(dir)), sync_(sync), notice_(std::move(notice)) {}

Persistence::~Persistence() {
    if (log_fd_ >= 0) {
        ::close(log_fd_);
    }
    if (lock_fd_ >= 0) {
        ::close(lock_fd_);
    }
}

Result<std::unique_ptr<Persistence>> Persistence::open(const std::string& dir,
                                                       bool sync,
                                                       Store& store,
                                                       Notice notice) {
    CAPSTAN_TRY(make_directory(dir));
    // tidy: allow new, private constructor
    std::unique_ptr<Persistence> self(new Persistence(dir, sync, std::move(notice)));
    const std::string lock = dir + "/lock";
    self->lock_fd_ = ::open(lock.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, kFileMode);
    if (self->lock_fd_ < 0) {
        return fail(errno_error("open " + lock));
    }
    if (::flock(self->lock_fd_, LOCK_EX | LOCK_NB) != 0) {
        return fail(Code::unavailable,
                    dir + ": in use by a running `capstan up`; end that one first (Ctrl-C)");
    }
    CAPSTAN_TRY(self->load(store));
    return self;
}

Result<void> Persistence::load(Store& store) {
    CAPSTAN_TRY(load_snapshot(store));
    const std::string path = dir_ + "/log";
    log_fd_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, kFileMode);
    if (log_fd_ < 0) {
        return fail(errno_error("open " + path));
    }
    CAPSTAN_TRY(load_log(store));
    return sync_directory(dir_);
}

Result<void> Persistence::load_snapshot(Store& store) {
    const std::string path = dir_ + "/snapshot";
    auto bytes = read_whole_file(path);
    if (!bytes) {
        if (bytes.error().code == Code::not_found) {
            return ok();
        }
        return fail(bytes.error());
    }
    RecordCursor cursor{bytes.value()};
    std::int64_t count = 0;
    while (!cursor.at_end()) {
        const std::uint64_t at = cursor.offset;
        const auto record = cursor.next();
        if (!record) {
            return fail(Code::invalid, path + ": damaged at offset " + std::to_string(at));
        }
        if (!cursor.at_end()) {
            if (auto replayed = replay_record(*record, store); !replayed) {
                return fail(
                    with_context(replayed.error(), path + " at offset " + std::to_string(at)));
            }
            ++count;
            continue;
        }
        CAPSTAN_TRY(const json::Value end, json::parse(*record));
        if (json::View(end)["end"].int_or(-1) != count) {
            break;
        }
        store.restore_revision(static_cast<std::uint64_t>(json::View(end)["r"].int_or(0)));
        return ok();
    }
    return fail(Code::invalid, path + ": incomplete, its end record is missing or does not match");
}

Result<void> Persistence::load_log(Store& store) {
    const std::string path = dir_ + "/log";
    CAPSTAN_TRY(const std::string bytes, read_whole_file(path));
    RecordCursor cursor{bytes};
    while (!cursor.at_end()) {
        const std::uint64_t at = cursor.offset;
        const auto record = cursor.next();
        if (!record) {
            break;
        }
        if (auto replayed = replay_record(*record, store); !replayed) {
            return fail(with_context(replayed.error(), path + " at offset " + std::to_string(at)));
        }
    }
    log_bytes_ = cursor.offset;
    if (!cursor.at_end()) {
        // A torn write is of no use to anybody; what a damaged disk cut off may be.
        const std::string kept = path + ".cut-" + std::to_string(cursor.offset);
        const std::string_view rest = std::string_view(bytes).substr(cursor.offset);
        CAPSTAN_TRY(write_file(kept, [&](int fd) { return write_all(fd, rest, kept); }));
        if (::ftruncate(log_fd_, static_cast<off_t>(cursor.offset)) != 0) {
            return fail(errno_error("truncate " + path));
        }
        if (notice_) {
            notice_(path + ": cut a torn tail of " + std::to_string(bytes.size() - cursor.offset) +
                    " bytes at offset " + std::to_string(cursor.offset) + "; it is kept in " +
                    kept);
        }
    }
    return ok();
}

Result<void> Persistence::append(const std::vector<Change>& changes) {
    const std::string path = dir_ + "/log";
    if (broken_) {
        return fail(Code::unavailable,
                    path + ": an earlier write failed and could not be undone; restart");
    }
    const std::string json = change_record(changes);
    if (json.size() > kRecordBytesMax) {
        return fail(Code::too_large,
                    "one write of " + std::to_string(json.size()) + " bytes is over the limit");
    }
    std::string record;
    append_record(record, json);
    auto written = write_all(log_fd_, record, path);
    if (written && sync_ && ::fdatasync(log_fd_) != 0) {
        written = fail(errno_error("fdatasync " + path));
    }
    if (written) {
        log_bytes_ += record.size();
        return ok();
    }
    broken_ = ::ftruncate(log_fd_, static_cast<off_t>(log_bytes_)) != 0;
    return written;
}

void Persistence::compact_if_large(const Store& store) {
    if (log_bytes_ <=
        std::max<std::uint64_t>({kLogBytesMin, 2 * store.text_bytes(), snapshot_retry_at_})) {
        return;
    }
    if (auto written = write_snapshot(store); !written) {
        snapshot_retry_at_ = log_bytes_ + kLogBytesMin;
        if (notice_) {
            notice_("snapshot not written, the log goes on: " + written.error().message);
        }
    }
}

Result<void> Persistence::write_snapshot(const Store& store) {
    const std::string temporary = dir_ + "/snapshot.tmp";
    const std::string path = dir_ + "/snapshot";
    CAPSTAN_TRY(write_file(temporary, [&](int fd) { return write_state(fd, store, temporary); }));
    if (::rename(temporary.c_str(), path.c_str()) != 0) {
        return fail(errno_error("rename " + temporary));
    }
    CAPSTAN_TRY(sync_directory(dir_));
    // The snapshot holds all of the log. A crash between rename and here replays the log onto it:
    // same end state, because each record carries whole objects.
    if (::ftruncate(log_fd_, 0) != 0) {
        return fail(errno_error("truncate " + dir_ + "/log"));
    }
    log_bytes_ = 0;
    snapshot_retry_at_ = 0;
    return ok();
}

}  // namespace capstan::local
