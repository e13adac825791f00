#include "plugins/steward-bridge/snapshotter/delta_buffer.hpp"

#include <algorithm>
#include <utility>

namespace capstan::steward {
namespace {

constexpr std::size_t kPieceBytes = 256 * 1024;

class PackedSink final : public Sink {
public:
    explicit PackedSink(std::shared_ptr<PackedBytes> to) : to_(std::move(to)) {}
    Result<void> write(std::span<const std::uint8_t> bytes) override {
        to_->append(bytes);
        return ok();
    }
    Result<void> finish() override { return ok(); }

private:
    const std::shared_ptr<PackedBytes> to_;
};

}  // namespace

void PackedBytes::append(std::span<const std::uint8_t> bytes) {
    size_ += bytes.size();
    while (!bytes.empty()) {
        if (pieces_.empty() || pieces_.back().size() == kPieceBytes) {
            pieces_.emplace_back();
        }
        std::string& last = pieces_.back();
        const std::size_t count = std::min(bytes.size(), kPieceBytes - last.size());
        last.append(reinterpret_cast<const char*>(bytes.data()), count);
        bytes = bytes.subspan(count);
    }
}

Result<std::unique_ptr<DeltaBuffer>> DeltaBuffer::create(std::int64_t start,
                                                         const Options& options,
                                                         Digests& digests,
                                                         LeaseTtl lease_ttl) {
    std::unique_ptr<DeltaBuffer> out(new DeltaBuffer);  // its constructor is private
    out->lease_ttl_ = std::move(lease_ttl);
    out->options_ = options;
    out->packed_ = std::make_shared<PackedBytes>();
    CAPSTAN_TRY(
        out->sink_,
        create_delta(std::make_unique<PackedSink>(out->packed_), options.compression, digests));
    out->writer_ = std::make_unique<DeltaWriter>(*out->sink_, start);
    out->reached_ = start - 1;
    return out;
}

Result<void> DeltaBuffer::add_change(DeltaChange change, WallTime now) {
    change.time = now;
    std::vector<DeltaLease> learned;
    if (change.lease != 0 && !leases_.contains(change.lease)) {
        if (const auto ttl = lease_ttl_(change.lease)) {
            learned.push_back({change.lease, *ttl});
            change.leases = &learned;
            leases_.insert(change.lease);
        }
    }
    return writer_->add(change);
}

Result<void> DeltaBuffer::add(const WatchMessage& message, std::size_t& at, WallTime now) {
    for (; at < message.changes.size(); ++at) {
        const DeltaChange& change = message.changes[at];
        // An answer may hold a thousand revisions: what comes after one says that it is complete.
        if (change.mod_revision > writer_->last_revision() && !empty() && full()) {
            writer_->settle();
            reached_ = std::max(reached_, writer_->last_revision());
            return ok();
        }
        CAPSTAN_TRY(add_change(change, now));
    }
    if (!message.changes.empty() && !message.more) {
        writer_->settle();
        reached_ = std::max(reached_, writer_->last_revision());
    }
    // Progress: a message of its own, or the first answer, says nothing about what is to come.
    if (message.changes.empty() && !message.created && !message.more && writer_->settled()) {
        reached_ = std::max(reached_, message.revision);
    }
    return ok();
}

Result<SealedDelta> DeltaBuffer::seal(WallTime now) {
    CAPSTAN_TRY(writer_->finish());
    SealedDelta sealed;
    sealed.record.kind = SnapshotKind::delta;
    sealed.record.compression = options_.compression;
    sealed.record.start_revision = writer_->start_revision();
    sealed.record.last_revision = writer_->last_revision();
    sealed.record.created = std::chrono::floor<std::chrono::seconds>(now);
    sealed.record.name = snapshot_name(sealed.record);
    sealed.record.bytes = packed_->size();
    sealed.payload_bytes = writer_->bytes();
    sealed.events = writer_->events();
    sealed.beyond_other_tools = writer_->beyond_other_tools();
    sealed.bytes = std::move(*packed_);
    return sealed;
}

}  // namespace capstan::steward
