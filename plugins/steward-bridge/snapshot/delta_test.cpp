// Writer and reader of deltas together: the same bytes as other writers, and back.
#include "plugins/steward-bridge/snapshot/delta_reader.hpp"
#include "plugins/steward-bridge/snapshot/delta_writer.hpp"
#include "plugins/steward-bridge/snapshot/trailer.hpp"
#include "plugins/steward-bridge/stream/base64.hpp"
#include "plugins/steward-bridge/stream/testing_digest.hpp"
#include "plugins/steward-bridge/stream/testing_streams.hpp"

#include <gtest/gtest.h>

namespace capstan::steward {
namespace {

WallTime at(std::string_view text) {
    return parse_rfc3339(text).value();
}

DeltaChange put(std::int64_t revision, std::string_view key, std::string_view value) {
    return {.key = key,
            .value = value,
            .create_revision = revision,
            .mod_revision = revision,
            .version = 1};
}

std::vector<DeltaEvent> read_events(std::string_view payload, DeltaRange range = {}) {
    TextSource source{std::string(payload)};
    DeltaReader reader(source, "Incr", range);
    std::vector<DeltaEvent> events;
    DeltaEvent event;
    while (true) {
        const auto more = reader.next(event);
        EXPECT_TRUE(more) << more.error().message;
        if (!more || !more.value()) {
            return events;
        }
        events.push_back(event);
    }
}

constexpr const char* kPutAndDelete =
    R"([{"etcdEvent":{"kv":{"key":"Zm9v","create_revision":23,"mod_revision":23,"version":1,)"
    R"("value":"YmFy"}},"time":"2026-11-30T01:45:50.749569261Z"},)"
    R"({"etcdEvent":{"type":1,"kv":{"key":"Zm9v","mod_revision":24}},)"
    R"("time":"2026-11-30T01:45:50.766108588Z"}])";
constexpr const char* kPutAndDeleteDigest =
    "0d9f547afbe0c17ae0912f5ab7b5904e9d6b26bc20dd2ac777eedaa9011c769d";
constexpr const char* kOddKey =
    R"([{"etcdEvent":{"kv":{"key":"YTwmPg==","create_revision":25,"mod_revision":25,"version":1,)"
    R"("value":"eyJ4IjoxfQ=="}},"time":"2026-11-30T01:45:55.793740962Z"}])";
constexpr const char* kOddKeyDigest =
    "1be066e27a5282c3f55cdf10918cfd0ba9ad8c3a51fa12876bb8f9e8df2baa98";

TEST(Delta, IsWrittenByteForByte) {
    for (const bool base64 : {false, true}) {
        TestingDigests digests;
        TextSink sink;
        TrailerSink trailer(sink, digests.sha256().value());
        DeltaWriter writer(trailer, 23);
        DeltaChange change = put(23, base64 ? "Zm9v" : "foo", base64 ? "YmFy" : "bar");
        change.base64 = base64;
        change.time = at("2026-11-30T01:45:50.749569261Z");
        ASSERT_TRUE(writer.add(change));
        change = {.deleted = true, .base64 = base64, .key = change.key, .mod_revision = 24};
        change.time = at("2026-11-30T01:45:50.766108588Z");
        ASSERT_TRUE(writer.add(change));
        EXPECT_EQ(writer.bytes(), 245u);
        writer.settle();
        ASSERT_TRUE(writer.finish());
        EXPECT_EQ(sink.text, kPutAndDelete + from_hex(kPutAndDeleteDigest));
        EXPECT_EQ(sink.text.size(), 278u);
        EXPECT_EQ(writer.bytes(), 246u);
    }
}

TEST(Delta, IsWrittenByteForByteWithOddKeys) {
    TestingDigests digests;
    TextSink sink;
    TrailerSink trailer(sink, digests.sha256().value());
    DeltaWriter writer(trailer, 25);
    DeltaChange change = put(25, "a<&>", R"({"x":1})");
    change.time = at("2026-11-30T01:45:55.793740962Z");
    ASSERT_TRUE(writer.add(change));
    writer.settle();
    ASSERT_TRUE(writer.finish());
    EXPECT_EQ(sink.text, kOddKey + from_hex(kOddKeyDigest));
}

TEST(Delta, IsRead) {
    const auto events = read_events(kPutAndDelete, {23, 24});
    ASSERT_EQ(events.size(), 2u);
    EXPECT_EQ(events[0],
              (DeltaEvent{.key = "foo",
                          .value = "bar",
                          .create_revision = 23,
                          .mod_revision = 23,
                          .version = 1}));
    EXPECT_EQ(events[1], (DeltaEvent{.deleted = true, .key = "foo", .mod_revision = 24}));
    EXPECT_EQ(read_events(kOddKey).at(0).key, "a<&>");
}

// Everything the format can hold, in pieces of every size.
TEST(Delta, GivesBackWhatWasWritten) {
    const std::vector<DeltaLease> leases{{7587892412345678901, 60}, {-2, 5}};
    const std::string big = noise(300'000, 9);
    std::vector<DeltaEvent> written;
    TextSink sink;
    DeltaWriter writer(sink, 5);
    for (std::int64_t i = 0; i < 40; ++i) {
        const std::int64_t revision = 5 + i / 2;
        const std::string key = noise(1 + static_cast<std::size_t>(i), 1);
        const std::string value =
            i == 17 ? big : std::string(static_cast<std::size_t>(i % 7), '\xff');
        DeltaChange change{.deleted = i % 5 == 4, .key = key, .mod_revision = revision};
        if (!change.deleted) {
            change.value = value;
            change.create_revision = 1;
            change.version = i + 1;
            change.lease = i == 3 ? INT64_MIN : i == 8 ? INT64_MAX : 0;
            change.leases = i == 8 ? &leases : nullptr;
        }
        change.time = WallTime(std::chrono::nanoseconds(1'796'003'150'000'000'000 + i * 10));
        ASSERT_TRUE(writer.add(change));
        written.push_back({change.deleted,
                           key,
                           std::string(change.value),
                           change.create_revision,
                           revision,
                           change.version,
                           change.lease,
                           i == 8 ? leases : std::vector<DeltaLease>{}});
    }
    writer.settle();
    EXPECT_EQ(writer.last_revision(), 24);
    EXPECT_EQ(writer.events(), 40u);
    ASSERT_TRUE(writer.finish());
    EXPECT_EQ(writer.bytes(), sink.text.size());
    for (const std::size_t piece : {0, 1, 3, 1000, 131'072}) {
        TextSource source(sink.text, piece);
        DeltaReader reader(source, "Incr", {5, 24});
        DeltaEvent event;
        for (const DeltaEvent& expected : written) {
            const auto more = reader.next(event);
            ASSERT_TRUE(more) << more.error().message;
            ASSERT_TRUE(more.value());
            ASSERT_TRUE(event == expected) << event.mod_revision;
        }
        EXPECT_FALSE(reader.next(event).value());
        EXPECT_FALSE(reader.next(event).value());
        EXPECT_EQ(reader.events(), 40u);
        EXPECT_EQ(reader.last_revision(), 24);
    }
}

TEST(Delta, LeasesStandBehindTheTime) {
    const std::vector<DeltaLease> leases{{7, 60}, {8, 90}};
    TextSink sink;
    DeltaWriter writer(sink, 2);
    DeltaChange change = put(2, "k", "");
    change.lease = 7;
    change.leases = &leases;
    ASSERT_TRUE(writer.add(change));
    writer.settle();
    ASSERT_TRUE(writer.finish());
    EXPECT_EQ(sink.text,
              R"([{"etcdEvent":{"kv":{"key":"aw==","create_revision":2,"mod_revision":2,)"
              R"("version":1,"lease":7}},"time":"1970-01-01T00:00:00Z",)"
              R"("leases":[{"ID":7,"TTL":60},{"ID":8,"TTL":90}]}])");
}

// An object that ended inside a revision would restore a transaction in part.
TEST(DeltaWriter, NeverEndsInsideARevision) {
    TextSink sink;
    DeltaWriter writer(sink, 10);
    EXPECT_FALSE(writer.finish());
    ASSERT_TRUE(writer.add(put(10, "a", "1")));
    EXPECT_FALSE(writer.settled());
    const auto early = writer.finish();
    ASSERT_FALSE(early);
    EXPECT_NE(early.error().message.find("revision 10 is not complete"), std::string::npos);
    EXPECT_FALSE(sink.finished);
    ASSERT_TRUE(writer.add(put(10, "b", "1")));
    ASSERT_TRUE(writer.add(put(11, "a", "1")));
    EXPECT_FALSE(writer.finish());
    writer.settle();
    EXPECT_TRUE(writer.settled());
    EXPECT_FALSE(writer.add(put(11, "c", "1")));
    ASSERT_TRUE(writer.finish());
    EXPECT_EQ(read_events(sink.text, {10, 11}).size(), 3u);
    EXPECT_FALSE(writer.add(put(12, "c", "1")));
}

TEST(DeltaWriter, RefusesWhatNoOneCouldRestore) {
    TextSink sink;
    DeltaWriter writer(sink, 10);
    EXPECT_FALSE(writer.add(put(11, "a", "1")));  // 10 is missing
    EXPECT_FALSE(writer.add(put(9, "a", "1")));
    EXPECT_FALSE(writer.add(put(10, "", "1")));
    DeltaChange change = put(10, "YQ==", R"(","x":")");
    change.base64 = true;
    EXPECT_FALSE(writer.add(change));
    EXPECT_EQ(writer.bytes(), 0u);
    change.value = "YQ==";
    ASSERT_TRUE(writer.add(change));
    EXPECT_FALSE(writer.add(put(12, "a", "1")));
    EXPECT_FALSE(writer.add(put(9, "a", "1")));
    writer.settle();
    ASSERT_TRUE(writer.finish());
    EXPECT_EQ(read_events(sink.text, {10, 10}).size(), 1u);
}

TEST(DeltaWriter, GoesOnInsideTheRevisionThatBrokeOff) {
    TextSink sink;
    DeltaWriter writer(sink, 10);
    EXPECT_EQ(writer.resume_revision(), 10);
    ASSERT_TRUE(writer.add(put(10, "a", "1")));
    ASSERT_TRUE(writer.add(put(11, "a", "1")));
    ASSERT_TRUE(writer.add(put(11, "b", "1")));
    EXPECT_EQ(writer.resume_revision(), 11);  // the watch broke off
    EXPECT_FALSE(writer.add(put(12, "z", "1")));
    EXPECT_FALSE(writer.finish());
    ASSERT_TRUE(writer.add(put(11, "a", "1")));
    EXPECT_EQ(writer.resume_revision(), 11);  // again
    for (const char* key : {"a", "b", "c"}) {
        ASSERT_TRUE(writer.add(put(11, key, "1")));
    }
    writer.settle();
    EXPECT_EQ(writer.resume_revision(), 12);
    ASSERT_TRUE(writer.finish());
    const auto events = read_events(sink.text, {10, 11});
    ASSERT_EQ(events.size(), 4u);
    EXPECT_EQ(events[3].key, "c");
}

TEST(DeltaWriter, TellsWhatOtherToolsCannotRestore) {
    TextSink sink;
    DeltaWriter many(sink, 1);
    for (std::uint64_t i = 0; i < kOthersOperationsMax; ++i) {
        ASSERT_TRUE(many.add({.deleted = true, .key = "k", .mod_revision = 1}));
    }
    ASSERT_TRUE(many.add({.deleted = true, .key = "k", .mod_revision = 2}));
    EXPECT_FALSE(many.beyond_other_tools());
    for (std::uint64_t i = 0; i < kOthersOperationsMax; ++i) {
        ASSERT_TRUE(many.add({.deleted = true, .key = "k", .mod_revision = 2}));
    }
    EXPECT_TRUE(many.beyond_other_tools());
    ASSERT_TRUE(many.add({.deleted = true, .key = "k", .mod_revision = 3}));
    EXPECT_TRUE(many.beyond_other_tools());

    const std::string value(kOthersRevisionBytesMax - 1, 'v');
    DeltaWriter large(sink, 1);
    ASSERT_TRUE(large.add(put(1, "k", value)));
    ASSERT_TRUE(large.add(put(2, "k", value)));
    EXPECT_FALSE(large.beyond_other_tools());
    ASSERT_TRUE(large.add(put(2, "l", "")));
    EXPECT_TRUE(large.beyond_other_tools());
}

TEST(DeltaWriter, FlushesLongBeforeTheEnd) {
    TextSink sink;
    DeltaWriter writer(sink, 1);
    const std::string value(1'000'000, 'v');
    ASSERT_TRUE(writer.add(put(1, "a", value)));
    EXPECT_GT(sink.text.size(), 1'200'000u);
}

TEST(Base64, IsCheckedAndWritten) {
    std::string text;
    append_base64(text, "");
    EXPECT_EQ(text, "");
    for (const auto& [bytes, expected] :
         {std::pair("f", "Zg=="), std::pair("fo", "Zm8="), std::pair("foob", "Zm9vYg==")}) {
        text.clear();
        append_base64(text, bytes);
        EXPECT_EQ(text, expected);
        EXPECT_TRUE(is_base64(expected));
    }
    for (const char* wrong :
         {"Z", "Zg=", "Z===", "====", "Zg==Zg==", "Zm9v\n", "Zm9-", "\"\"\"\""}) {
        EXPECT_FALSE(is_base64(wrong)) << wrong;
    }
    EXPECT_TRUE(is_base64(""));
}

}  // namespace
}  // namespace capstan::steward
