#include "plugins/steward-bridge/snapshot/retention.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace capstan::steward {
namespace {

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;

WallTime at(std::string_view text) {
    return parse_rfc3339(text).value();
}
const WallTime kNow = at("2026-11-30T10:20:00Z");

SnapshotRecord full(std::int64_t revision, WallTime created) {
    SnapshotRecord record{.last_revision = revision, .created = created};
    record.prefix = "v2/";
    record.name = snapshot_name(record);
    return record;
}
SnapshotRecord delta(std::int64_t start, std::int64_t last, WallTime created) {
    SnapshotRecord record{.kind = SnapshotKind::delta,
                          .start_revision = start,
                          .last_revision = last,
                          .created = created};
    record.prefix = "v2/";
    record.name = snapshot_name(record);
    return record;
}

SnapshotListing listing(std::vector<SnapshotRecord> snapshots) {
    std::sort(snapshots.begin(), snapshots.end(), before);
    SnapshotListing out;
    out.snapshots = std::move(snapshots);
    return out;
}

// "newest+ daily-": rules in the order of the listing, + for keep.
std::string shown(const std::vector<RetentionVerdict>& verdicts) {
    std::string text;
    for (const RetentionVerdict& verdict : verdicts) {
        EXPECT_FALSE(verdict.reason.empty());
        text += text.empty() ? "" : " ";
        text += std::string(verdict.rule) + (verdict.keep ? "+" : "-");
    }
    return text;
}

constexpr RetentionOptions kLimit{.policy = RetentionPolicy::limit_based, .max_backups = 2};

// A full every half hour for five weeks leaves four weekly ones, seven daily ones, one for each
// hour of today and all of the present hour.
TEST(Retention, ThinsOutExponentially) {
    std::vector<SnapshotRecord> fulls;
    for (int i = 35 * 48; i >= 0; --i) {
        fulls.push_back(full(10'000 - i, kNow - minutes(30) * i));
    }
    const SnapshotListing all = listing(fulls);
    std::vector<std::string> kept;
    for (const RetentionVerdict& verdict : decide_retention(all, kNow, {})) {
        if (verdict.keep) {
            kept.push_back(std::string(verdict.rule) + " " + to_rfc3339(verdict.record->created));
        }
    }
    EXPECT_EQ(kept,
              (std::vector<std::string>{
                  "weekly 2026-11-01T23:50:00Z", "weekly 2026-11-08T23:50:00Z",
                  "weekly 2026-11-15T23:50:00Z", "weekly 2026-11-22T23:50:00Z",
                  "daily 2026-11-23T23:50:00Z",  "daily 2026-11-24T23:50:00Z",
                  "daily 2026-11-25T23:50:00Z",  "daily 2026-11-26T23:50:00Z",
                  "daily 2026-11-27T23:50:00Z",  "daily 2026-11-28T23:50:00Z",
                  "daily 2026-11-29T23:50:00Z",  "hourly 2026-11-30T00:50:00Z",
                  "hourly 2026-11-30T01:50:00Z", "hourly 2026-11-30T02:50:00Z",
                  "hourly 2026-11-30T03:50:00Z", "hourly 2026-11-30T04:50:00Z",
                  "hourly 2026-11-30T05:50:00Z", "hourly 2026-11-30T06:50:00Z",
                  "hourly 2026-11-30T07:50:00Z", "hourly 2026-11-30T08:50:00Z",
                  "hourly 2026-11-30T09:50:00Z", "newest 2026-11-30T10:20:00Z",
              }));
}

TEST(Retention, KeepsAllOfThePresentHour) {
    const auto all = listing({full(1, kNow - minutes(110)),
                              full(2, kNow - minutes(100)),
                              full(3, kNow - minutes(19)),
                              full(4, kNow - minutes(10)),
                              full(5, kNow)});
    EXPECT_EQ(shown(decide_retention(all, kNow, {})),
              "hourly- hourly+ this-hour+ this-hour+ newest+");
}

// 300 lists of fulls, minutes to days apart, as an independent program decides them.
TEST(Retention, DecidesAsTheAlgorithmIsWritten) {
    std::uint32_t x = 1, digest = 2166136261u;
    const auto next = [&] { return x = x * 1664525u + 1013904223u; };
    const auto mix = [&](char c) { digest = (digest ^ static_cast<unsigned char>(c)) * 16777619u; };
    for (int round = 0; round < 300; ++round) {
        const std::uint32_t count = 2 + (x >> 24) % 60;
        next();
        WallTime time = kNow - seconds((x >> 8) % (40 * 86400));
        std::vector<SnapshotRecord> fulls;
        for (std::uint32_t i = 0; i < count; ++i) {
            const std::uint32_t steps[] = {600, 7200, 86400, 400000};
            time += seconds((next() >> 8) % steps[round % 4]);
            fulls.push_back(full(i, time));
        }
        const SnapshotListing all = listing(fulls);
        if (round > 0) {
            mix('|');
        }
        for (const RetentionVerdict& verdict : decide_retention(all, kNow, {})) {
            mix(verdict.keep ? '1' : '0');
        }
    }
    EXPECT_EQ(digest, 3502757045u);
}

TEST(Retention, CountsFullsWithALimit) {
    const auto all = listing({full(10, kNow - hours(40)),
                              delta(11, 12, kNow - hours(39)),
                              full(20, kNow - hours(30)),
                              delta(21, 22, kNow - hours(29)),
                              full(30, kNow - hours(20)),
                              delta(31, 32, kNow - hours(19)),
                              delta(33, 34, kNow)});
    const auto verdicts = decide_retention(all, kNow, kLimit);
    EXPECT_EQ(shown(verdicts), "limit- superseded- limit+ superseded- newest+ newest+ newest+");
    EXPECT_EQ(verdicts[0].reason, "it is number 3 from the newest full, and 2 are kept");
    EXPECT_EQ(verdicts[0].set, verdicts[1].set);
    EXPECT_NE(verdicts[1].set, verdicts[2].set);
    EXPECT_EQ(verdicts[0].record, &all.snapshots[0]);
}

TEST(Retention, NeverDeletesTheNewestSet) {
    for (const RetentionPolicy policy :
         {RetentionPolicy::exponential, RetentionPolicy::limit_based}) {
        const RetentionOptions options{.policy = policy, .max_backups = 0};
        const WallTime long_ago = kNow - hours(24 * 400);
        EXPECT_EQ(shown(decide_retention(
                      listing({full(1, long_ago), delta(2, 3, long_ago)}), kNow, options)),
                  "newest+ newest+");
        // Deltas alone are all there is.
        EXPECT_EQ(shown(decide_retention(listing({delta(2, 3, long_ago)}), kNow, options)),
                  "newest+");
        EXPECT_TRUE(decide_retention({}, kNow, options).empty());
    }
}

// After a restore to an older revision, new fulls have lower revisions than stale ones.
TEST(Retention, NeverDeletesTheFullTakenLast) {
    const auto all = listing({full(5, kNow - hours(60)),
                              full(10, kNow - hours(2)),
                              delta(11, 12, kNow - hours(1)),
                              full(900, kNow - hours(50)),
                              full(950, kNow - hours(49)),
                              full(990, kNow - hours(48))});
    EXPECT_EQ(shown(decide_retention(all, kNow, kLimit)),
              "limit- newest+ newest+ limit- limit+ newest+");
}

HistoryMark mark(std::int64_t revision, WallTime since) {
    return {history_key("", revision, since), revision, since};
}

// Set back from 950 to 10, two hours ago.
TEST(Retention, GoesByHistories) {
    SnapshotListing all = listing({full(5, kNow - hours(60)),
                                   full(10, kNow - hours(2)),
                                   delta(11, 12, kNow - hours(1)),
                                   full(900, kNow - hours(50)),
                                   delta(901, 920, kNow - hours(49)),
                                   full(930, kNow - hours(48)),
                                   delta(931, 950, kNow - hours(47))});
    all.marks = {mark(10, kNow - hours(2))};
    const auto verdicts = decide_retention(all, kNow, kLimit);
    EXPECT_EQ(shown(verdicts), "limit- newest+ newest+ limit- superseded- abandoned+ abandoned+");
    EXPECT_EQ(verdicts[5].set, verdicts[6].set);
    EXPECT_EQ(verdicts[5].reason, "the history before a rollback ended with it");
    // With one more full the limit is reached, and a history that is over goes whole.
    all.snapshots.push_back(full(15, kNow));
    std::sort(all.snapshots.begin(), all.snapshots.end(), before);
    EXPECT_EQ(shown(decide_retention(all, kNow, kLimit)),
              "limit- limit+ superseded- newest+ limit- superseded- limit- superseded-");
    // By age it stays for as long as anything does.
    EXPECT_EQ(shown(decide_retention(all, kNow + hours(24 * 30), {})),
              "weekly- weekly- superseded- newest+ weekly- superseded- abandoned+ abandoned+");
    EXPECT_EQ(shown(decide_retention(all, kNow + hours(24 * 40), {})),
              "too-old- too-old- superseded- newest+ too-old- superseded- too-old- superseded-");
}

TEST(Retention, BeforeTheFullOfANewHistoryKeepsWhatIsThere) {
    SnapshotListing all = listing(
        {full(900, kNow - hours(50)), delta(901, 920, kNow - hours(49)), delta(11, 12, kNow)});
    all.marks = {mark(10, kNow - hours(2))};
    EXPECT_EQ(shown(decide_retention(all, kNow + hours(1), kLimit)), "newest+ newest+ newest+");
}

TEST(Retention, DropsMarksWithNothingBeforeThem) {
    SnapshotListing all = listing({full(20, kNow), full(10, kNow - hours(5))});
    all.marks = {mark(1, kNow - hours(9)), mark(2, kNow - hours(3)), mark(3, kNow - hours(1))};
    const auto superfluous = marks_to_delete(all);
    ASSERT_EQ(superfluous.size(), 1u);
    EXPECT_EQ(superfluous[0].revision, 1);
    all.snapshots.erase(all.snapshots.begin());
    EXPECT_EQ(marks_to_delete(all).size(), 2u) << "the newest one stays";
}

TEST(Retention, FencesAreThoseOfThePresentHistory) {
    SnapshotListing all = listing({full(90, kNow - hours(5)), full(20, kNow)});
    all.marks = {mark(20, kNow)};
    all.fences = {{fence_key("p", 20), 20}, {fence_key("p", 21), 21}};
    ASSERT_EQ(fences_to_delete(all).size(), 1u);
    EXPECT_EQ(fences_to_delete(all)[0].start_revision, 20);
}

TEST(Retention, TreatsDeltasWithoutAFullAsOld) {
    const auto all = listing({delta(1, 5, kNow - hours(50)),
                              delta(6, 9, kNow - hours(49)),
                              full(10, kNow - hours(40)),
                              full(20, kNow - hours(30))});
    EXPECT_EQ(shown(decide_retention(all, kNow, kLimit)), "superseded- superseded- limit+ newest+");
    EXPECT_EQ(
        shown(decide_retention(
            all, kNow, {.policy = RetentionPolicy::limit_based, .delta_retention = hours(49)})),
        "superseded- delta-retention+ limit+ newest+");
}

// A delta is of no use without its full.
TEST(Retention, KeepsDeltasForATimeAndTheirFullWithThem) {
    const auto all = listing({full(10, kNow - hours(40)),
                              delta(11, 12, kNow - hours(39)),
                              full(20, kNow - hours(30)),
                              delta(21, 22, kNow - hours(25)),
                              delta(23, 24, kNow - hours(23)),
                              full(30, kNow - hours(20)),
                              full(40, kNow - hours(10)),
                              full(50, kNow)});
    RetentionOptions options = kLimit;
    options.delta_retention = hours(24);
    EXPECT_EQ(shown(decide_retention(all, kNow, options)),
              "limit- superseded- delta-retention+ superseded- delta-retention+ limit- limit+ "
              "newest+");
    options.delta_retention = hours(23);  // exactly as old is not older
    EXPECT_EQ(shown(decide_retention(all, kNow, options)),
              "limit- superseded- delta-retention+ superseded- delta-retention+ limit- limit+ "
              "newest+");
    options.delta_retention = hours(22);
    EXPECT_EQ(shown(decide_retention(all, kNow, options)),
              "limit- superseded- limit- superseded- superseded- limit- limit+ newest+");
}

TEST(Retention, RespectsLocks) {
    auto locked = full(10, kNow - hours(40));
    locked.immutable_until = kNow + seconds(1);
    auto over = full(15, kNow - hours(35));
    over.immutable_until = kNow - seconds(1);
    auto locked_delta = delta(16, 17, kNow - hours(34));
    locked_delta.immutable_until = kNow;
    const auto all = listing({locked, over, locked_delta, full(20, kNow), full(30, kNow)});
    const auto verdicts = decide_retention(all, kNow, kLimit);
    EXPECT_EQ(shown(verdicts), "immutable+ limit- immutable+ limit+ newest+");
    EXPECT_EQ(verdicts[0].reason, "it is locked until 2026-11-30T10:20:01Z");
}

TEST(Retention, DeletesPartsOfUploadsThatAreOver) {
    SnapshotListing all = listing({full(20, kNow)});
    for (SnapshotRecord part : {full(20, kNow),
                                delta(15, 18, kNow),
                                delta(21, 25, kNow),
                                full(30, kNow),
                                delta(16, 18, kNow)}) {
        part.part = true;
        all.parts.push_back(part);
    }
    all.parts.back().immutable_until = kNow + hours(1);
    RetentionOptions options = kLimit;
    EXPECT_EQ(shown(decide_retention(all, kNow, options)),
              "newest+ upload+ upload+ upload+ upload+ upload+");
    options.stored_revision = 20;
    EXPECT_EQ(shown(decide_retention(all, kNow, options)),
              "newest+ upload- upload- upload+ upload+ immutable+");
}

TEST(Retention, DropsFencesTheNewestFullCovers) {
    SnapshotListing all = listing({full(20, kNow), delta(21, 30, kNow), full(40, kNow)});
    for (const std::int64_t start : {21, 40, 41}) {
        all.fences.push_back({fence_key("p", start), start});
    }
    const auto fences = fences_to_delete(all);
    ASSERT_EQ(fences.size(), 2u);
    EXPECT_EQ(fences[1].key, "p/capstan/delta-40");
    EXPECT_TRUE(fences_to_delete({.fences = all.fences}).empty());
}

}  // namespace
}  // namespace capstan::steward
