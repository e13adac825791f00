#include "plugins/steward-bridge/snapshot/payload.hpp"

#include "plugins/steward-bridge/snapshot/compression.hpp"
#include "plugins/steward-bridge/snapshot/delta_reader.hpp"
#include "plugins/steward-bridge/snapshot/trailer.hpp"

#include <vector>

namespace capstan::steward {
namespace {

constexpr std::size_t kBufferBytes = std::size_t{64} * 1024;

class PayloadSource final : public Source {
public:
    PayloadSource(std::unique_ptr<Source> stored,
                  std::unique_ptr<Source> unpacked,
                  std::unique_ptr<Hasher> sha256,
                  const SnapshotRecord& record)
        : stored_(std::move(stored)),
          unpacked_(std::move(unpacked)),
          payload_(*unpacked_,
                   std::move(sha256),
                   record.key(),
                   {.database = record.kind == SnapshotKind::full}) {}
    Result<std::size_t> read(std::span<std::uint8_t> into) override { return payload_.read(into); }

private:
    // each reads from the one before
    const std::unique_ptr<Source> stored_;
    const std::unique_ptr<Source> unpacked_;
    TrailerSource payload_;
};

class DeltaSink final : public Sink {
public:
    DeltaSink(std::unique_ptr<Sink> stored,
              std::unique_ptr<Sink> packed,
              std::unique_ptr<Hasher> sha256)
        : stored_(std::move(stored)),
          packed_(std::move(packed)),
          payload_(*packed_, std::move(sha256)) {}
    Result<void> write(std::span<const std::uint8_t> bytes) override {
        return payload_.write(bytes);
    }
    Result<void> finish() override { return payload_.finish(); }

private:
    // each writes into the one before
    const std::unique_ptr<Sink> stored_;
    const std::unique_ptr<Sink> packed_;
    TrailerSink payload_;
};

// Counts what goes through.
class CountingSource final : public Source {
public:
    explicit CountingSource(Source& from) : from_(from) {}
    Result<std::size_t> read(std::span<std::uint8_t> into) override {
        CAPSTAN_TRY(const std::size_t count, from_.read(into));
        bytes_ += count;
        return count;
    }
    std::uint64_t bytes() const { return bytes_; }

private:
    Source& from_;
    std::uint64_t bytes_{0};
};

}  // namespace

Result<std::unique_ptr<Source>> open_payload(std::unique_ptr<Source> stored,
                                             const SnapshotRecord& record,
                                             Digests& digests) {
    CAPSTAN_TRY(auto unpacked, decompress(record.compression, *stored, record.key()));
    CAPSTAN_TRY(auto sha256, digests.sha256());
    return std::unique_ptr<Source>(std::make_unique<PayloadSource>(
        std::move(stored), std::move(unpacked), std::move(sha256), record));
}

Result<std::unique_ptr<Sink>> create_delta(std::unique_ptr<Sink> stored,
                                           Compression compression,
                                           Digests& digests) {
    CAPSTAN_TRY(auto packed, compress(compression, *stored));
    CAPSTAN_TRY(auto sha256, digests.sha256());
    return std::unique_ptr<Sink>(
        std::make_unique<DeltaSink>(std::move(stored), std::move(packed), std::move(sha256)));
}

Result<VerifiedSnapshot> verify_snapshot(std::unique_ptr<Source> stored,
                                         const SnapshotRecord& record,
                                         Digests& digests) {
    CAPSTAN_TRY(const auto payload, open_payload(std::move(stored), record, digests));
    CountingSource counted(*payload);
    VerifiedSnapshot verified;
    if (record.kind == SnapshotKind::delta) {
        DeltaReader reader(counted, record.key(), {record.start_revision, record.last_revision});
        DeltaEvent event;
        bool more = true;
        while (more) {
            CAPSTAN_TRY(more, reader.next(event));
        }
        verified.events = reader.events();
    } else {
        std::vector<std::uint8_t> buffer(kBufferBytes);
        std::size_t count = 1;
        while (count > 0) {
            CAPSTAN_TRY(count, counted.read(buffer));
        }
    }
    verified.payload_bytes = counted.bytes();
    return verified;
}

}  // namespace capstan::steward
