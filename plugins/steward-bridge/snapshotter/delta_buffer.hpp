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
inline constexpr std::uint64_t kPackedBytesMax = 16u * 1024 * 1024;

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
    static Result<std::unique_ptr<DeltaBuffer>> create(std::int64_t start,
                                                       Compression compression,
                                                       Digests& digests,
                                                       LeaseTtl lease_ttl);

    // Changes that were there already are skipped. Errors: invalid (a revision is missing, or the
    // message makes no sense): the buffer is of no use any more.
    Result<void> add(const WatchMessage& message, WallTime now);

    bool empty() const { return writer_->events() == 0; }
    // It could be sealed now: it does not end inside a revision.
    bool settled() const { return writer_->settled(); }
    std::uint64_t payload_bytes() const { return writer_->bytes(); }
    std::uint64_t packed_bytes() const { return packed_->size(); }
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
    Compression compression_{Compression::none};
    std::shared_ptr<PackedBytes> packed_;  // also the sink's, which the writer's end finishes
    std::unique_ptr<Sink> sink_;
    std::unique_ptr<DeltaWriter> writer_;
    std::set<std::int64_t> leases_;  // said in this object
    std::int64_t reached_{0};
};

}  // namespace capstan::steward
