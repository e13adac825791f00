// The filters together, on whole objects.
#include "plugins/steward-bridge/snapshot/payload.hpp"

#include "plugins/steward-bridge/snapshot/compression.hpp"
#include "plugins/steward-bridge/snapshot/delta_writer.hpp"
#include "plugins/steward-bridge/snapshot/trailer.hpp"
#include "plugins/steward-bridge/stream/testing_digest.hpp"
#include "plugins/steward-bridge/stream/testing_streams.hpp"

#include <gtest/gtest.h>

namespace capstan::steward {
namespace {

// Passes on to a sink that the test keeps.
class SharedSink final : public Sink {
public:
    explicit SharedSink(TextSink& to) : to_(to) {}
    Result<void> write(std::span<const std::uint8_t> bytes) override { return to_.write(bytes); }
    Result<void> finish() override { return to_.finish(); }

private:
    TextSink& to_;
};

SnapshotRecord record_of(std::string_view name) {
    return parse_snapshot_key("p/v2/" + std::string(name)).value();
}

std::string stored_delta(const SnapshotRecord& record, std::int64_t last) {
    TestingDigests digests;
    TextSink kept;
    auto sink =
        create_delta(std::make_unique<SharedSink>(kept), record.compression, digests).value();
    DeltaWriter writer(*sink, record.start_revision);
    for (std::int64_t revision = record.start_revision; revision <= last; ++revision) {
        EXPECT_TRUE(writer.add({.key = "k",
                                .value = "v",
                                .create_revision = 1,
                                .mod_revision = revision,
                                .version = revision}));
    }
    writer.settle();
    EXPECT_TRUE(writer.finish());
    EXPECT_TRUE(kept.finished);
    return kept.text;
}

std::string stored_full(const SnapshotRecord& record, const std::string& database) {
    TestingDigests digests;
    TextSink kept;
    auto packed = compress(record.compression, kept).value();
    TrailerSink sink(*packed, digests.sha256().value());
    EXPECT_TRUE(sink.write(bytes_of(database)));
    EXPECT_TRUE(sink.finish());
    return kept.text;
}

Result<VerifiedSnapshot> verify(const std::string& bytes, const SnapshotRecord& record) {
    TestingDigests digests;
    return verify_snapshot(std::make_unique<TextSource>(bytes, 1000), record, digests);
}

TEST(Payload, OfEveryCompressionIsVerified) {
    for (const char* suffix : {"", ".gz", ".zlib", ".Z"}) {
        const auto delta = record_of(std::string("Incr-5-90-1") + suffix);
        const auto events = verify(stored_delta(delta, 90), delta);
        ASSERT_TRUE(events) << events.error().message;
        EXPECT_EQ(events.value().events, 86u);
        EXPECT_GT(events.value().payload_bytes, 86u * 100);
        const auto full = record_of(std::string("Full-0-90-1") + suffix);
        const auto bytes = verify(stored_full(full, noise(8192, 4)), full);
        ASSERT_TRUE(bytes) << bytes.error().message;
        EXPECT_EQ(bytes.value().payload_bytes, 8192u);
    }
}

TEST(Payload, IsWhatWasWritten) {
    TestingDigests digests;
    const auto full = record_of("Full-0-90-1.gz");
    auto payload =
        open_payload(std::make_unique<TextSource>(stored_full(full, noise(4096, 4))), full, digests)
            .value();
    EXPECT_EQ(read_all(*payload).value(), noise(4096, 4));
}

void expect_damaged(const std::string& bytes, const SnapshotRecord& record, const char* what) {
    const auto verified = verify(bytes, record);
    ASSERT_FALSE(verified) << what;
    EXPECT_EQ(verified.error().code, Code::invalid);
    const std::string& message = verified.error().message;
    EXPECT_TRUE(message.starts_with(record.key() + " is damaged: ")) << message;
    EXPECT_NE(message.find(what), std::string::npos) << message;
}

TEST(Payload, ThatIsDamagedIsNamed) {
    const auto delta = record_of("Incr-5-90-1.gz");
    const std::string bytes = stored_delta(delta, 90);
    expect_damaged("", delta, "empty (0 bytes)");
    expect_damaged(bytes.substr(0, bytes.size() / 2), delta, "gzip stream ends too early");
    expect_damaged(bytes + "x", delta, "gzip");
    expect_damaged(stored_delta(delta, 88), delta, "its last revision is 88, not 90");
    const auto plain = record_of("Incr-5-90-1");
    std::string other = stored_delta(plain, 90);
    other[200] = other[200] == '1' ? '2' : '1';
    EXPECT_FALSE(verify(other, plain));
    other = stored_delta(plain, 90);
    other.back() = static_cast<char>(other.back() ^ 1);
    expect_damaged(other, plain, "SHA-256");
    const auto full = record_of("Full-0-90-1.gz");
    expect_damaged(stored_full(full, noise(1000, 4)), full, "size mod 512");
    expect_damaged(stored_full(record_of("Full-0-90-1.zlib"), noise(512, 4)), full, "gzip");
}

}  // namespace
}  // namespace capstan::steward
