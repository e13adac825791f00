// State on disk: one snapshot file and one append-only log, both made of records of
// length, CRC-32 and JSON.
//
// Layout below the directory: `lock` (flock), `snapshot` (replaced atomically), `log`. A record is
// 4 bytes length and 4 bytes CRC-32 (IEEE, of the JSON), both little endian, then the JSON. The
// last record of a snapshot says how many came before it. A log whose tail is torn is cut at the
// last whole record. Thread: the server's; calls block on disk.
#pragma once

#include "runtime/local/apiserver/store.hpp"

#include "capstan/error.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace capstan::local {

// no new snapshot below this log size
inline constexpr std::uint64_t kLogBytesMin = 4u * 1024 * 1024;
inline constexpr std::uint32_t kRecordBytesMax = 64u * 1024 * 1024;

class Persistence {
public:
    using Notice = std::function<void(const std::string&)>;

    // Takes the lock and loads the state into `store`. Errors: unavailable (locked, I/O),
    // invalid (damaged snapshot).
    static Result<std::unique_ptr<Persistence>> open(const std::string& dir,
                                                     bool sync,
                                                     Store& store,
                                                     Notice notice);
    ~Persistence();
    Persistence(const Persistence&) = delete;
    Persistence& operator=(const Persistence&) = delete;

    // Appends one record with all changes. Errors: unavailable (ENOSPC and others); the
    // log is as before then.
    Result<void> append(const std::vector<Change>& changes);

    // Rewrites the snapshot when the log is above max(kLogBytesMin, 2 x state). A failure is a
    // notice: the log goes on.
    void compact_if_large(const Store& store);
    // Errors: unavailable; the old snapshot and log stay.
    Result<void> write_snapshot(const Store& store);

    std::uint64_t log_bytes() const noexcept { return log_bytes_; }

private:
    Persistence(std::string dir, bool sync, Notice notice);
    Result<void> load(Store& store);
    Result<void> load_snapshot(Store& store);
    Result<void> load_log(Store& store);

    std::string dir_;
    bool sync_;
    Notice notice_;
    int lock_fd_{-1};
    int log_fd_{-1};
    std::uint64_t log_bytes_{0};
    bool broken_{false};  // the log could not be cut back after a failed write: refuse everything
    std::uint64_t snapshot_retry_at_{0};  // log size at which a failed snapshot is tried again
};

}  // namespace capstan::local
