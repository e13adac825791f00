#include "plugins/steward-bridge/snapshot/record.hpp"

#include "plugins/steward-bridge/snapshot/owner.hpp"

#include <gtest/gtest.h>

namespace capstan::steward {
namespace {

using std::chrono::seconds;

WallTime at(std::int64_t second) {
    return WallTime(seconds(second));
}

struct KeyRow {
    const char* name;
    const char* key;
    SnapshotRecord expected;
};
class Keys : public testing::TestWithParam<KeyRow> {};

TEST_P(Keys, AreReadAndPrinted) {
    const auto record = parse_snapshot_key(GetParam().key);
    ASSERT_TRUE(record) << record.error().message;
    EXPECT_EQ(dump(to_json(record.value())), dump(to_json(GetParam().expected)));
    EXPECT_EQ(record.value(), GetParam().expected);
    EXPECT_EQ(record.value().key(), GetParam().key);
}

constexpr auto kFull = SnapshotKind::full;
constexpr auto kDelta = SnapshotKind::delta;

// clang-format off
INSTANTIATE_TEST_SUITE_P(Record, Keys, testing::Values(
    KeyRow{"full", "pfx/v2/Full-00000000-00000022-1796003148",
        {.kind = kFull, .prefix = "pfx/v2/", .name = "Full-00000000-00000022-1796003148",
            .last_revision = 22, .created = at(1796003148)}},
    KeyRow{"gzip_final", "pfx/v2/Full-00000000-00000022-1796003148.gz.final",
        {.kind = kFull, .prefix = "pfx/v2/", .name = "Full-00000000-00000022-1796003148.gz.final",
            .compression = Compression::gzip, .last_revision = 22, .created = at(1796003148),
            .final = true}},
    KeyRow{"final_without_compression", "pfx/v2/Full-00000000-00000022-1796003148.final",
        {.kind = kFull, .prefix = "pfx/v2/", .name = "Full-00000000-00000022-1796003148.final",
            .last_revision = 22, .created = at(1796003148), .final = true}},
    KeyRow{"no_prefix", "v2/Incr-00000023-00000024-1796003150.zlib",
        {.kind = kDelta, .prefix = "v2/", .name = "Incr-00000023-00000024-1796003150.zlib",
            .compression = Compression::zlib, .start_revision = 23, .last_revision = 24,
            .created = at(1796003150)}},
    KeyRow{"lzw", "a/b/v2/Incr-00000023-00000023-1796003150.Z",
        {.kind = kDelta, .prefix = "a/b/v2/", .name = "Incr-00000023-00000023-1796003150.Z",
            .compression = Compression::lzw, .start_revision = 23, .last_revision = 23,
            .created = at(1796003150)}},
    KeyRow{"part", "pfx/v2/Incr-00000023-00000024-1796003150.gz/0000000001",
        {.kind = kDelta, .prefix = "pfx/v2/",
            .name = "Incr-00000023-00000024-1796003150.gz/0000000001",
            .compression = Compression::gzip, .start_revision = 23, .last_revision = 24,
            .created = at(1796003150), .part = true}},
    KeyRow{"old_layout", "pfx/v1/Backup-1796003148/Incr-00000023-00000024-1796003150.gz",
        {.kind = kDelta, .prefix = "pfx/v1/", .dir = "Backup-1796003148",
            .name = "Incr-00000023-00000024-1796003150.gz", .compression = Compression::gzip,
            .start_revision = 23, .last_revision = 24, .created = at(1796003150)}},
    KeyRow{"old_layout_part", "v1/Backup-1/Full-00000000-00000024-1796003150/0000000012",
        {.kind = kFull, .prefix = "v1/", .dir = "Backup-1",
            .name = "Full-00000000-00000024-1796003150/0000000012", .last_revision = 24,
            .created = at(1796003150), .part = true}},
    KeyRow{"layout_names_in_the_prefix", "v1/v2/kubev1/v2/Full-00000000-00000022-1",
        {.kind = kFull, .prefix = "v1/v2/kubev1/v2/", .name = "Full-00000000-00000022-1",
            .last_revision = 22, .created = at(1)}},
    KeyRow{"prefix_ends_in_a_layout", "kubev1/v2/Full-00000000-00000022-1",
        {.kind = kFull, .prefix = "kubev1/v2/", .name = "Full-00000000-00000022-1",
            .last_revision = 22, .created = at(1)}},
    KeyRow{"not_padded", "pfx/v2/Full-0-1-2",
        {.kind = kFull, .prefix = "pfx/v2/", .name = "Full-0-1-2", .last_revision = 1,
            .created = at(2)}},
    KeyRow{"wide_numbers", "pfx/v2/Incr-9223372036854775806-9223372036854775807-7258118400",
        {.kind = kDelta, .prefix = "pfx/v2/",
            .name = "Incr-9223372036854775806-9223372036854775807-7258118400",
            .start_revision = INT64_MAX - 1, .last_revision = INT64_MAX,
            .created = at(7258118400)}},
    KeyRow{"odd_prefix", "a//b-c d/v2/Full-00000000-00000000-0",
        {.kind = kFull, .prefix = "a//b-c d/v2/", .name = "Full-00000000-00000000-0"}}),
    [](const auto& row) { return row.param.name; });

struct RefusedRow {
    const char* name;
    const char* key;
    const char* reason;
};
class RefusedKeys : public testing::TestWithParam<RefusedRow> {};

TEST_P(RefusedKeys, SayWhy) {
    const auto record = parse_snapshot_key(GetParam().key);
    ASSERT_FALSE(record);
    EXPECT_EQ(record.error().code, Code::invalid);
    EXPECT_NE(record.error().message.find(GetParam().reason),
        std::string::npos) << record.error().message;
}

INSTANTIATE_TEST_SUITE_P(Record, RefusedKeys, testing::Values(
    RefusedRow{"final_before_compression", "pfx/v2/Full-00000000-00000022-1796003148.final.gz",
        R"(its suffix ".final.gz" is none)"},
    RefusedRow{"unknown_suffix", "pfx/v2/Full-00000000-00000022-1796003148.partial",
        R"(".partial")"},
    RefusedRow{"many_suffixes", "pfx/v2/Full-00000000-00000022-1796003148.foo.bar.gz",
        R"(".foo.bar.gz")"},
    RefusedRow{"final_twice", "pfx/v2/Full-00000000-00000022-1796003148.final.final",
        R"(".final.final")"},
    RefusedRow{"dot_alone", "pfx/v2/Full-00000000-00000022-1796003148.", R"(".")"},
    RefusedRow{"below_an_object", "pfx/v2/Incr-00000023-00000024-1796003150.gz/a/b",
        "Kind-Start-Last-Second"},
    RefusedRow{"part_without_number", "pfx/v2/Incr-00000023-00000024-1796003150.gz/a",
        "Kind-Start-Last-Second"},
    RefusedRow{"prefix_ends_in_v2", "pfxv2/Full-00000000-00000022-1", "neither in a folder v2"},
    RefusedRow{"plus_signs", "pfx/v2/Full-+0-+1-+2", "no three plain numbers"},
    RefusedRow{"minus_sign", "pfx/v2/Full--1-2-3", "no three plain numbers"},
    RefusedRow{"old_layout_without_folder", "pfx/v1/Full-00000000-00000022-1",
        "v1/Backup-<second>"},
    RefusedRow{"old_layout_odd_folder", "pfx/v1/Backup-x/Full-00000000-00000022-1",
        "v1/Backup-<second>"},
    RefusedRow{"backup_folder_in_v2", "pfx/v2/Backup-1/Full-00000000-00000022-1",
        "v1/Backup-<second>"},
    RefusedRow{"no_layout", "Full-0-1-2", "neither in a folder v2"},
    RefusedRow{"slash_before_name", "/Full-0-1-2", "neither in a folder v2"},
    RefusedRow{"lower_case", "pfx/v2/full-0-1-2", "neither Full- nor Incr-"},
    RefusedRow{"chunk", "pfx/v2/Chunk-0-1-2", "neither Full- nor Incr-"},
    RefusedRow{"falling", "pfx/v2/Incr-5-4-2", "revisions 5 to 4 are no range"},
    RefusedRow{"delta_from_zero", "pfx/v2/Incr-0-4-2", "revisions 0 to 4 are no range"},
    RefusedRow{"full_from_one", "pfx/v2/Full-1-4-2", "a full begins at revision 0"},
    RefusedRow{"five_fields", "pfx/v2/Full-0-1-2-3", "no three plain numbers"},
    RefusedRow{"no_second", "pfx/v2/Full-0-1-", "no three plain numbers"},
    RefusedRow{"three_fields", "pfx/v2/Full-0-1", "Kind-Start-Last-Second"},
    RefusedRow{"too_large", "pfx/v2/Full-0-9223372036854775808-2", "no three plain numbers"},
    RefusedRow{"far_future", "pfx/v2/Full-0-1-7258118401", "beyond the year 2200"},
    RefusedRow{"number_alone", "pfx/v2/0000000001", "Kind-Start-Last-Second"},
    RefusedRow{"empty", "", "Kind-Start-Last-Second"},
    RefusedRow{"folder", "pfx/v2/", "Kind-Start-Last-Second"}),
    [](const auto& row) { return row.param.name; });
// clang-format on

TEST(Record, IsNamedByItsFacts) {
    SnapshotRecord record{.last_revision = 27,
                          .created = at(1796003195) + std::chrono::milliseconds(900)};
    EXPECT_EQ(snapshot_name(record), "Full-00000000-00000027-1796003195");
    record.compression = Compression::gzip;
    record.final = true;
    EXPECT_EQ(snapshot_name(record), "Full-00000000-00000027-1796003195.gz.final");
    record = {.kind = kDelta,
              .compression = Compression::lzw,
              .start_revision = 123456789,
              .last_revision = INT64_MAX,
              .created = at(5)};
    EXPECT_EQ(snapshot_name(record), "Incr-123456789-9223372036854775807-5.Z");
}

TEST(Record, IsCopiedUnderANameThatIsNotFinal) {
    const auto copy = [](const char* key) { return name_of_copy(parse_snapshot_key(key).value()); };
    EXPECT_EQ(copy("p/v2/Full-0-27-1796003195.gz.final"), "Full-0-27-1796003195.gz");
    EXPECT_EQ(copy("p/v2/Full-0-27-1796003195.final"), "Full-0-27-1796003195");
    EXPECT_EQ(copy("p/v1/Backup-1/Incr-00000028-00000030-2.Z"), "Incr-00000028-00000030-2.Z");
}

TEST(Record, IsShownAsClientsKnowIt) {
    SnapshotRecord record =
        parse_snapshot_key("pfx/v2/Full-00000000-00000027-1796003195.gz").value();
    EXPECT_EQ(
        dump(to_json(record)),
        R"({"createdOn":"2026-11-30T01:46:35Z","immutabilityExpriyTime":"0001-01-01T00:00:00Z",)"
        R"("versionID":null,"kind":"Full","snapDir":"",)"
        R"("snapName":"Full-00000000-00000027-1796003195.gz","prefix":"pfx/v2/",)"
        R"("compressionSuffix":".gz","startRevision":0,"lastRevision":27,)"
        R"("isChunk":false,"isFinal":false})");
    record.created += std::chrono::nanoseconds(120'000'500);
    record.immutable_until = at(1796010000);
    record.version_id = "v-1";
    const std::string text = dump(to_json(record));
    EXPECT_NE(text.find(R"("createdOn":"2026-11-30T01:46:35.1200005Z")"), std::string::npos);
    EXPECT_NE(text.find(R"("immutabilityExpriyTime":"2026-11-30T03:40:00Z","versionID":"v-1")"),
              std::string::npos);
}

TEST(Record, IsDeletableAfterItsLock) {
    SnapshotRecord record;
    EXPECT_TRUE(record.deletable(at(0)));
    record.immutable_until = at(100);
    EXPECT_FALSE(record.deletable(at(99)));
    EXPECT_FALSE(record.deletable(at(100)));
    EXPECT_TRUE(record.deletable(at(101)));
}

std::vector<ListedObject> objects(std::initializer_list<const char*> keys) {
    std::vector<ListedObject> all;
    for (const char* key : keys) {
        all.push_back({.key = key});
    }
    return all;
}

TEST(Listing, IsInTheOrderOfRevisionsAndTimes) {
    const auto listing = read_listing(objects({
        "p/v2/Full-00000000-00000100-50",
        "p/v2/Incr-00000091-00000100-50",
        "p/v2/Incr-00000101-1000000000-20",
        "p/v2/Full-00000000-00000100-40.gz",
        "p/v2/Incr-00000101-00000200-70",
        "p/v1/Backup-1/Full-00000000-00000009-90",
        "p/v2/Full-00000000-00000100-40",
    }));
    std::vector<std::string> keys;
    for (const auto& record : listing.snapshots) {
        keys.push_back(record.key());
    }
    EXPECT_EQ(keys,
              (std::vector<std::string>{
                  "p/v1/Backup-1/Full-00000000-00000009-90",
                  "p/v2/Full-00000000-00000100-40",
                  "p/v2/Full-00000000-00000100-40.gz",
                  "p/v2/Incr-00000091-00000100-50",
                  "p/v2/Full-00000000-00000100-50",
                  "p/v2/Incr-00000101-00000200-70",
                  "p/v2/Incr-00000101-1000000000-20",
              }));
    const auto part = parse_snapshot_key("p/v2/Full-0-100-1/0000000001").value();
    EXPECT_TRUE(before(listing.snapshots[4], part));
    EXPECT_FALSE(before(part, listing.snapshots[4]));
}

TEST(Listing, TellsWhatItSkips) {
    const auto listing = read_listing({
        {.key = "p/v2/Full-00000000-00000100-50",
         .bytes = 77,
         .immutable_until = at(9),
         .version_id = "3"},
        {.key = "p/v2/Full-00000000-00000100-50.tmp"},
        {.key = "p/v2/Full-00000000-00000100-50.gz/0000000001"},
        {.key = "p/notes.txt"},
        {.key = fence_key("p", 101)},
        {.key = "p/capstan/delta-x"},
        {.key = history_key("p", 100, at(80))},
        {.key = "p/capstan/history-100-20"},
        {.key = "p/capstan/history-100"},
        {.key = owner_key("p")},
    });
    ASSERT_EQ(listing.snapshots.size(), 1u);
    EXPECT_EQ(listing.snapshots[0].bytes, 77u);
    EXPECT_EQ(listing.snapshots[0].immutable_until, at(9));
    EXPECT_EQ(listing.snapshots[0].version_id, "3");
    EXPECT_EQ(listing.parts.size(), 1u);
    ASSERT_EQ(listing.fences.size(), 1u);
    EXPECT_EQ(listing.fences[0].key, "p/capstan/delta-101");
    EXPECT_EQ(listing.fences[0].start_revision, 101);
    ASSERT_EQ(listing.marks.size(), 2u);
    EXPECT_EQ(listing.marks[0].since, at(20));
    EXPECT_EQ(listing.marks[1].key, "p/capstan/history-100-80");
    EXPECT_EQ(listing.marks[1].name(), "history-100-80");
    EXPECT_EQ(listing.marks[1].revision, 100);
    ASSERT_EQ(listing.skipped.size(), 4u);
    EXPECT_EQ(listing.skipped[0].key, "p/v2/Full-00000000-00000100-50.tmp");
    EXPECT_NE(listing.skipped[0].reason.find(".tmp"), std::string::npos);
    EXPECT_EQ(fence_key("", 5), "capstan/delta-5");
    EXPECT_EQ(fence_key("a/", 5), "a/capstan/delta-5");
}

}  // namespace
}  // namespace capstan::steward
