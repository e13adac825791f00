// What the watch has told since the last snapshot: packed in memory as it arrives, until it is
// stored.
//
// Memory: the packed bytes, of one revision more than the limits allow.
#pragma once

#include "plugins/steward-bridge/snapshot/delta_writer.hpp"
#include "plugins/steward-bridge/snapshot/payload.hpp"
#include "plugins/steward-bridge/snapshotter/etcd_client.hpp"

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace capstan::steward {

// The host process stays below this whatever the configured limit (of unpacked bytes) says.
inline constexpr std::uint64_t kPackedBytesMax = 8u * 1024 * 1024;

// Stored bytes in memory.
class PackedBytes {
public:
    const std::vector<std::string>& pieces() const { return pieces_; }
    std::uint64_t size() const { return size_; }
    void append(std::span<const std::uint8_t> bytes);

private:
    std::vector<std::string> pieces_;
    std::uint64_t size_{0};
};

// Complete and ready to be stored, as often as it takes.
struct SealedDelta {
    SnapshotRecord record;  // without prefix
    PackedBytes bytes;
    std::uint64_t payload_bytes{0};
    std::uint64_t events{0};
    bool beyond_other_tools{false};
};

class DeltaBuffer {
public:
    // `start`: the first revision it shall hold. `lease_ttl` tells what a lease was granted;
    // nullopt: not known.
    using LeaseTtl = std::function<std::optional<std::int64_t>(std::int64_t id)>;
    struct Options {
        Compression compression{Compression::gzip};
        std::uint64_t payload_bytes_max{10'485'760};  // and one revision more
    };
    static Result<std::unique_ptr<DeltaBuffer>> create(std::int64_t start,
                                                       const Options& options,
                                                       Digests& digests,
                                                       LeaseTtl lease_ttl);

    // Takes in the changes from `at` on and moves it behind the last one taken. Stops before the
    // end when the buffer is full and a revision complete: it is to be sealed first. What an answer
    // in pieces repeats of a revision is skipped. Errors: invalid (a revision is missing, or the
    // message makes no sense): the buffer is of no use any more.
    Result<void> add(const WatchMessage& message, std::size_t& at, WallTime now);

    bool empty() const { return writer_->events() == 0; }
    // It could be sealed now: it does not end inside a revision.
    bool settled() const { return writer_->settled(); }
    bool full() const {
        return writer_->bytes() >= options_.payload_bytes_max || packed_->size() >= kPackedBytesMax;
    }
    std::int64_t last_revision() const { return writer_->last_revision(); }
    // Up to here nothing is missing, also where no key was changed.
    std::int64_t reached() const { return reached_; }
    // Where a watch that broke off starts again.
    std::int64_t resume_revision() { return writer_->resume_revision(); }

    // Requires: not empty, settled. The buffer is of no use after it.
    Result<SealedDelta> seal(WallTime now);

private:
    DeltaBuffer() = default;
    Result<void> add_change(DeltaChange change, WallTime now);

    LeaseTtl lease_ttl_;
    Options options_;
    std::shared_ptr<PackedBytes> packed_;  // also the sink's, which the writer's end finishes
    std::unique_ptr<Sink> sink_;
    std::unique_ptr<DeltaWriter> writer_;
    std::set<std::int64_t> leases_;  // said in this object
    std::int64_t reached_{0};
};

}  // namespace capstan::steward
