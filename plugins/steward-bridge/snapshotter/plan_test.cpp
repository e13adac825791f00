#include "plugins/steward-bridge/snapshotter/plan.hpp"

#include <gtest/gtest.h>

namespace capstan::steward {
namespace {

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;

const WallTime kNow{seconds(1'800'000'000)};  // on the full hour, 08:00:00
const Moment kStart{hours(1), kNow};

Moment after(std::chrono::nanoseconds time, Moment from = kStart) {
    return {from.mono + time, from.wall + time};
}

SnapshotRecord full(std::int64_t last, WallTime created) {
    SnapshotRecord record;
    record.prefix = "p/v2/";
    record.last_revision = last;
    record.created = created;
    record.name = snapshot_name(record);
    return record;
}

SnapshotRecord delta(std::int64_t start, std::int64_t last, WallTime created) {
    SnapshotRecord record = full(last, created);
    record.kind = SnapshotKind::delta;
    record.start_revision = start;
    record.name = snapshot_name(record);
    return record;
}

StoredChain chain_of(std::vector<SnapshotRecord> records,
                     std::vector<SkippedKey> skipped = {},
                     std::vector<HistoryMark> marks = {}) {
    SnapshotListing listing;
    listing.marks = std::move(marks);
    listing.snapshots = std::move(records);
    std::sort(listing.snapshots.begin(), listing.snapshots.end(), before);
    listing.skipped = std::move(skipped);
    return stored_chain(listing);
}

Schedule hourly() {
    return Schedule::parse("0 */1 * * *").value();
}

SnapshotPlan plan_of(const SnapshotterConfig& config = {}) {
    return SnapshotPlan(config, Schedule::parse(config.schedule).value(), kStart);
}

// A plan that has looked and found a chain that reaches revision 20, one minute old.
SnapshotPlan steady(const SnapshotterConfig& config = {}) {
    SnapshotPlan plan = plan_of(config);
    plan.looked(chain_of({full(10, kNow), delta(11, 20, kNow)}), 20, kStart, 0);
    plan.collected(kStart);
    return plan;
}

TEST(StoredChain, IsTheNewestFullAndWhatContinuesIt) {
    const StoredChain chain = chain_of({full(5, kNow - hours(2)),
                                        delta(6, 9, kNow - hours(1)),
                                        full(10, kNow - minutes(50)),
                                        delta(11, 15, kNow - minutes(40)),
                                        delta(14, 20, kNow - minutes(30))});
    EXPECT_EQ(chain.full->last_revision, 10);
    EXPECT_EQ(chain.deltas.size(), 2u);
    EXPECT_EQ(chain.reaches, 20);
    EXPECT_FALSE(chain.gap);
}

HistoryMark mark(std::int64_t revision, WallTime since) {
    return {history_key("p", revision, since), revision, since};
}

TEST(StoredChain, AfterARollbackIsThatOfTheHistoryAfterIt) {
    const StoredChain chain = chain_of({full(100, kNow - hours(3)),
                                        delta(101, 150, kNow - minutes(3)),
                                        full(80, kNow - minutes(2)),
                                        delta(81, 90, kNow - minutes(1))},
                                       {},
                                       {mark(80, kNow - minutes(2))});
    EXPECT_EQ(chain.full->last_revision, 80);
    EXPECT_EQ(chain.reaches, 90);
    EXPECT_EQ(chain.end, 90);
    EXPECT_FALSE(chain.gap);
    EXPECT_EQ(chain.history, mark(80, kNow - minutes(2)).name());
    EXPECT_EQ(not_before(chain, kNow), kNow - minutes(1));
}

// Nothing is stored yet, so nothing of before is continued either.
TEST(StoredChain, OfANewHistoryIsEmpty) {
    const StoredChain chain =
        chain_of({full(100, kNow - hours(3))}, {}, {mark(80, kNow + seconds(5))});
    EXPECT_FALSE(chain.full);
    EXPECT_EQ(chain.end, 0);
    EXPECT_EQ(not_before(chain, kNow), kNow + seconds(5));
    EXPECT_EQ(why_full(chain, 80, kNow, Schedule::parse("0 */1 * * *").value()),
              FullReason::no_full);
}

// Names of another tool alone: as full as possible, and why_full looks at etcd's revision.
TEST(StoredChain, WithContradictingNamesNeedsAFull) {
    const StoredChain chain = chain_of(
        {full(100, kNow - hours(3)), delta(101, 150, kNow - hours(2)), full(120, kNow - hours(1))});
    EXPECT_TRUE(chain.gap);
    EXPECT_EQ(chain.end, 150);
}

TEST(StoredChain, TimesRiseAlthoughClocksDiffer) {
    const StoredChain chain = chain_of({full(10, kNow + minutes(5)), delta(11, 20, kNow)});
    EXPECT_EQ(not_before(chain, kNow), kNow + minutes(5) + seconds(1));
    EXPECT_EQ(not_before(chain_of({full(10, kNow + hours(999))}), kNow), WallTime())
        << "that is no clock";
}

TEST(StoredChain, OfASlowClockStillCounts) {
    const StoredChain chain = chain_of({full(10, kNow), delta(11, 20, kNow - minutes(3))});
    EXPECT_EQ(chain.reaches, 20);
}

TEST(StoredChain, KnowsAGapAndWhatNobodyCanRead) {
    EXPECT_TRUE(chain_of({full(10, kNow), delta(12, 20, kNow)}).gap);
    EXPECT_TRUE(chain_of({full(10, kNow)}, {{"p/v2/Incr-11-20-1.zst", "suffix", 20, kNow}}).gap);
    EXPECT_FALSE(chain_of({full(10, kNow)}, {{"p/v2/Incr-3-9-1.zst", "suffix", 9, kNow}}).gap);
}

struct ReasonRow {
    const char* name;
    StoredChain chain;
    std::int64_t head;
    FullReason want;
};

class WhyFull : public testing::TestWithParam<ReasonRow> {};

TEST_P(WhyFull, IsTheFirstThingThatIsWrong) {
    EXPECT_EQ(to_string(why_full(GetParam().chain, GetParam().head, kNow, hourly())),
              to_string(GetParam().want));
}

SnapshotRecord final_full() {
    SnapshotRecord record = full(10, kNow);
    record.final = true;
    return record;
}

INSTANTIATE_TEST_SUITE_P(
    Rows,
    WhyFull,
    testing::Values(
        ReasonRow{"nothing_stored", chain_of({}), 1, FullReason::no_full},
        ReasonRow{"only_deltas", chain_of({delta(2, 3, kNow)}), 9, FullReason::no_full},
        ReasonRow{"final", chain_of({final_full()}), 10, FullReason::after_final},
        ReasonRow{"etcd_behind", chain_of({full(10, kNow)}), 9, FullReason::rolled_back},
        ReasonRow{"etcd_behind_a_final_full", chain_of({final_full()}), 9, FullReason::rolled_back},
        ReasonRow{
            "etcd_behind_deltas_alone", chain_of({delta(2, 10, kNow)}), 9, FullReason::rolled_back},
        ReasonRow{"etcd_behind_what_lies_behind_a_gap",
                  chain_of({full(10, kNow), delta(12, 30, kNow)}),
                  20,
                  FullReason::rolled_back},
        ReasonRow{"gap", chain_of({full(10, kNow), delta(12, 13, kNow)}), 20, FullReason::gap},
        ReasonRow{"contradicting_names",
                  chain_of({full(30, kNow - hours(1)), full(20, kNow)}),
                  40,
                  FullReason::gap},
        // 07:00 has one, 08:00 is now
        ReasonRow{"overdue", chain_of({full(10, kNow - hours(1))}), 10, FullReason::overdue},
        ReasonRow{"in_time", chain_of({full(10, kNow)}), 10, FullReason::none},
        ReasonRow{"changes_to_come",
                  chain_of({full(10, kNow), delta(11, 12, kNow)}),
                  50,
                  FullReason::none}),
    [](const auto& row) { return row.param.name; });

// Etcd has gone on past what is stored before anybody looked, but it was restored to less.
TEST(WhyFull, KnowsTheHistoryThatARestorationLeft) {
    const StoredChain chain = chain_of({full(10, kNow)});
    EXPECT_EQ(why_full(chain, 20, kNow, hourly(), "first"), FullReason::rolled_back);
    EXPECT_EQ(why_full(chain, 20, kNow, hourly(), "history-9-1"), FullReason::none);
    EXPECT_EQ(why_full(chain_of({}), 20, kNow, hourly(), "first"), FullReason::no_full);
}

TEST(SnapshotPlan, LooksFirstThenTakesWhatIsMissing) {
    SnapshotPlan plan = plan_of();
    EXPECT_EQ(plan.next(kStart).step, Step::look);
    EXPECT_EQ(plan.looked(chain_of({}), 1, kStart, 0), FullReason::no_full);
    EXPECT_EQ(plan.next(kStart).step, Step::full);
    EXPECT_EQ(plan.next(kStart).reason, FullReason::no_full);
    plan.full_taken(kStart, 0);
    EXPECT_EQ(plan.next(kStart).step, Step::watch);
    plan.watch_opened(kStart);
    EXPECT_EQ(plan.next(kStart).step, Step::collect);
    plan.collected(kStart);
    const Action idle = plan.next(kStart);
    EXPECT_EQ(idle.step, Step::wait);
    EXPECT_EQ(idle.until, kStart.mono + seconds(20));
}

TEST(SnapshotPlan, GoesOnWhereTheChainEndsWithoutANewFull) {
    SnapshotPlan plan = steady();
    EXPECT_EQ(plan.next(kStart).step, Step::watch);
}

TEST(SnapshotPlan, FlushesEachPeriodAndAtOnceWhenAsked) {
    SnapshotPlan plan = steady();
    plan.watch_opened(kStart);
    EXPECT_EQ(plan.next(after(seconds(19))).step, Step::wait);
    EXPECT_EQ(plan.next(after(seconds(20))).step, Step::flush);
    plan.flushed(after(seconds(20)));
    EXPECT_EQ(plan.next(after(seconds(21))).step, Step::wait);
    plan.flush_soon();
    EXPECT_EQ(plan.next(after(seconds(21))).step, Step::flush);
}

TEST(SnapshotPlan, TakesAFullWhenTheScheduleSaysSo) {
    SnapshotterConfig config;
    config.jitter = minutes(10);
    SnapshotPlan plan = plan_of(config);
    plan.looked(chain_of({full(10, kNow)}), 10, kStart, 0.5);
    EXPECT_EQ(plan.next_full(), kNow + hours(1) + minutes(5));
    plan.watch_opened(kStart);
    plan.collected(after(minutes(64)));
    plan.flushed(after(minutes(64)));
    plan.heard(after(minutes(64)));
    EXPECT_NE(plan.next(after(minutes(64))).step, Step::full);
    EXPECT_EQ(plan.next(after(minutes(65))).step, Step::full);
    EXPECT_EQ(plan.next(after(minutes(65))).reason, FullReason::scheduled);
}

TEST(SnapshotPlan, AClockThatIsSetBackDoesNotPutOffTheNextFull) {
    SnapshotPlan plan = steady();
    plan.follow_clock({after(minutes(1)).mono, kNow - seconds(30)}, 0);  // adjusted
    EXPECT_EQ(plan.next_full(), kNow + hours(1));
    plan.follow_clock({after(minutes(1)).mono, kNow - hours(24)}, 0);
    EXPECT_EQ(plan.next_full(), kNow - hours(24) + hours(1));
}

TEST(SnapshotPlan, WithoutDeltasOnlyWaitsForFulls) {
    SnapshotterConfig config;
    config.delta_period = {};
    SnapshotPlan plan = steady(config);
    EXPECT_EQ(plan.next(kStart).step, Step::wait);
    EXPECT_EQ(plan.next(after(seconds(59))).until, kStart.mono + minutes(1));  // retention
    EXPECT_EQ(plan.next(after(hours(1))).step, Step::full);
}

TEST(SnapshotPlan, ChecksAWatchThatIsSilentForTwoPeriods) {
    SnapshotPlan plan = steady();
    plan.watch_opened(kStart);
    plan.flushed(after(seconds(39)));
    EXPECT_EQ(plan.next(after(seconds(39))).step, Step::wait);
    EXPECT_EQ(plan.next(after(seconds(40))).step, Step::check_watch);
    plan.heard(after(seconds(40)));
    EXPECT_EQ(plan.next(after(seconds(41))).step, Step::wait);
}

TEST(SnapshotPlan, DoublesItsPausesUpToALimitAndEndsThemWithSuccess) {
    SnapshotPlan plan = plan_of();
    const int want[] = {1, 2, 4, 8, 16, 32, 64, 128, 128};
    Moment now = kStart;
    for (const int pause : want) {
        plan.failed(now, 0);
        EXPECT_EQ(plan.next(now).step, Step::wait);
        EXPECT_EQ(plan.next(now).until, now.mono + seconds(pause));
        now = after(seconds(pause), now);
        EXPECT_EQ(plan.next(now).step, Step::look);
    }
    plan.failed(now, 1);
    EXPECT_EQ(plan.next(now).until, now.mono + seconds(64));  // half of it by chance
    plan.hurry();
    EXPECT_EQ(plan.next(now).step, Step::look);
    plan.looked(chain_of({full(10, kNow)}), 10, now, 0);
    EXPECT_EQ(plan.failures(), 0);
}

TEST(SnapshotPlan, AFullThatFailsDoesNotStopTheDeltas) {
    SnapshotPlan plan = steady();
    plan.want_full(FullReason::asked);
    EXPECT_EQ(plan.next(kStart).step, Step::full);
    plan.full_failed(kStart, 0);
    EXPECT_EQ(plan.next(kStart).step, Step::watch);
    plan.watch_opened(kStart);
    EXPECT_EQ(plan.next(kStart).until, kStart.mono + seconds(1));
    EXPECT_EQ(plan.next(after(seconds(1))).step, Step::full);
}

TEST(SnapshotPlan, DeltasOfABrokenChainWaitForTheFull) {
    SnapshotPlan plan = steady();
    plan.want_full(FullReason::compacted);
    plan.full_failed(kStart, 0);
    EXPECT_EQ(plan.next(kStart).step, Step::wait);
    EXPECT_EQ(plan.next(after(seconds(1))).reason, FullReason::compacted);
    plan.want_full(FullReason::asked);  // does not make the chain whole
    EXPECT_EQ(plan.next(after(seconds(1))).reason, FullReason::compacted);
}

TEST(SnapshotPlan, WithoutCollectionNeverCollects) {
    SnapshotterConfig config;
    config.collect_period = seconds(1);
    SnapshotPlan plan = plan_of(config);
    plan.looked(chain_of({full(10, kNow)}), 10, kStart, 0);
    plan.watch_opened(kStart);
    EXPECT_EQ(plan.next(kStart).step, Step::wait);
}

}  // namespace
}  // namespace capstan::steward
