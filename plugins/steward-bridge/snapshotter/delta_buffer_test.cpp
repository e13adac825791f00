#include "plugins/steward-bridge/snapshotter/delta_buffer.hpp"

#include "plugins/steward-bridge/snapshot/payload.hpp"
#include "plugins/steward-bridge/snapshotter/testing_changes.hpp"
#include "plugins/steward-bridge/stream/testing_digest.hpp"
#include "plugins/steward-bridge/stream/testing_streams.hpp"

#include <gtest/gtest.h>

namespace capstan::steward {
namespace {

const WallTime kNow{std::chrono::seconds(1'800'000'000)};

WatchMessage message(const std::vector<std::int64_t>& revisions,
                     bool more = false,
                     std::int64_t header = 0) {
    WatchMessage out;
    out.more = more;
    out.revision = header;
    for (const std::int64_t revision : revisions) {
        out.changes.push_back(first_write("key", "value", revision));
    }
    return out;
}

std::unique_ptr<DeltaBuffer> buffer_from(std::int64_t start, Digests& digests) {
    return DeltaBuffer::create(start, {}, digests, [](auto) { return std::nullopt; }).value();
}

Result<void> take(DeltaBuffer& buffer, const WatchMessage& message) {
    std::size_t at = 0;
    CAPSTAN_TRY(buffer.add(message, at, kNow));
    EXPECT_EQ(at, message.changes.size());
    return ok();
}

TEST(DeltaBuffer, StopsBetweenRevisionsWhenItIsFull) {
    TestingDigests digests;
    auto buffer = DeltaBuffer::create(5, {Compression::none, 150}, digests, [](auto) {
                      return std::nullopt;
                  }).value();
    const WatchMessage large = message({5, 6, 6, 6, 7, 8}, true);
    std::size_t at = 0;
    ASSERT_TRUE(buffer->add(large, at, kNow));
    EXPECT_EQ(at, 4u);  // 5 is not enough, 6 is not cut
    EXPECT_TRUE(buffer->settled());
    EXPECT_EQ(buffer->reached(), 6);
    EXPECT_EQ(buffer->seal(kNow).value().record.last_revision, 6);
}

TEST(DeltaBuffer, SealsWhatReadersVerify) {
    TestingDigests digests;
    auto buffer = buffer_from(5, digests);
    ASSERT_TRUE(take(*buffer, message({5, 6, 6})));
    ASSERT_TRUE(take(*buffer, message({7})));
    const SealedDelta sealed = buffer->seal(kNow).value();
    EXPECT_EQ(sealed.record.name, "Incr-00000005-00000007-1800000000.gz");
    EXPECT_EQ(sealed.events, 4u);
    std::string all;
    for (const std::string& piece : sealed.bytes.pieces()) {
        all += piece;
    }
    EXPECT_EQ(all.size(), sealed.bytes.size());
    const auto verified =
        verify_snapshot(std::make_unique<TextSource>(all), sealed.record, digests);
    ASSERT_TRUE(verified) << verified.error().message;
    EXPECT_EQ(verified.value().events, 4u);
    EXPECT_EQ(verified.value().payload_bytes, sealed.payload_bytes);
}

TEST(DeltaBuffer, IsNotSettledInsideAnAnswerInPieces) {
    TestingDigests digests;
    auto buffer = buffer_from(5, digests);
    ASSERT_TRUE(take(*buffer, message({5, 6}, true)));
    EXPECT_FALSE(buffer->settled());
    EXPECT_EQ(buffer->reached(), 4);
    EXPECT_FALSE(buffer->seal(kNow));
    ASSERT_TRUE(take(*buffer, message({6})));
    EXPECT_TRUE(buffer->settled());
    EXPECT_EQ(buffer->reached(), 6);
}

TEST(DeltaBuffer, ABrokenAnswerIsContinuedWithoutRepeating) {
    TestingDigests digests;
    auto buffer = buffer_from(5, digests);
    ASSERT_TRUE(take(*buffer, message({5, 6, 6}, true)));
    EXPECT_EQ(buffer->resume_revision(), 6);
    ASSERT_TRUE(take(*buffer, message({6, 6, 6})));
    EXPECT_EQ(buffer->seal(kNow).value().events, 4u);
}

TEST(DeltaBuffer, KnowsFromProgressWhatNeedsNoDelta) {
    TestingDigests digests;
    auto buffer = buffer_from(5, digests);
    WatchMessage created = message({}, false, 9);
    created.created = true;
    ASSERT_TRUE(take(*buffer, created));
    EXPECT_EQ(buffer->reached(), 4);  // says nothing yet
    ASSERT_TRUE(take(*buffer, message({}, false, 9)));
    EXPECT_EQ(buffer->reached(), 9);
}

TEST(DeltaBuffer, RefusesAHistoryWithAHole) {
    TestingDigests digests;
    auto buffer = buffer_from(5, digests);
    EXPECT_EQ(take(*buffer, message({6})).error().code, Code::invalid);
}

TEST(DeltaBuffer, KeepsLargeObjectsInPieces) {
    TestingDigests digests;
    auto buffer = DeltaBuffer::create(1, {Compression::none}, digests, [](auto) {
                      return std::nullopt;
                  }).value();
    const std::string value = noise(700'000, 9);
    WatchMessage large = message({1});
    large.changes[0].value = value;
    ASSERT_TRUE(take(*buffer, large));
    const SealedDelta sealed = buffer->seal(kNow).value();
    EXPECT_GT(sealed.bytes.pieces().size(), 3u);
    EXPECT_EQ(sealed.bytes.size(), sealed.payload_bytes + 32);
}

}  // namespace
}  // namespace capstan::steward
