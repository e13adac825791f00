#include "plugins/steward-bridge/member_status.hpp"

#include <gtest/gtest.h>

namespace capstan::steward {
namespace {

using api::MemberState;
using api::MemberSubState;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

const WallTime kStart{std::chrono::seconds(1'800'000'000)};
const MonotonicTime kBegin{std::chrono::seconds(1'000)};

EtcdStatus answer(bool leader, std::int64_t size = 20'480) {
    EtcdStatus status;
    status.member_id = "a1";
    status.cluster_id = "c1";
    status.version = "3.4.23";
    status.leader = leader;
    status.has_leader = true;
    status.db_size = size;
    status.db_size_in_use = size;
    return status;
}

TEST(MemberStatus, EntersStartedWithItsRoleAfterValidation) {
    MemberStatus status;
    status.enter(MemberState::initializing,
                 MemberSubState::db_validation_full,
                 "DetectedPreviousUncleanExit",
                 {},
                 kStart);
    status.observe(answer(false), {"h", "http://a:2379"}, kStart);
    ASSERT_EQ(status.get().transitions.size(), 2U);
    EXPECT_EQ(status.get().transitions[1].reason, "DBValidationSucceeded");
    EXPECT_EQ(status.sub_state(), MemberSubState::follower);
    status.observe(answer(true), {"h", "http://a:2379"}, kStart);
    EXPECT_EQ(status.get().transitions.back().reason, "GainedClusterLeadership");
    status.observe(answer(false), {"h", "http://a:2379"}, kStart);
    EXPECT_EQ(status.get().transitions.back().reason, "LostClusterLeadership");
}

TEST(MemberStatus, KeepsItsRoleWhileThereIsNoLeader) {
    MemberStatus status;
    status.observe(answer(true), {"h", "http://a:2379"}, kStart);
    EtcdStatus none = answer(false);
    none.has_leader = false;
    status.observe(none, {"h", "http://a:2379"}, kStart);
    EXPECT_EQ(status.sub_state(), MemberSubState::leader);
    EXPECT_EQ(status.get().transitions.size(), 1U);
}

TEST(MemberStatus, RepeatsNoTransitionAndKeepsTheNewestTen) {
    MemberStatus status;
    status.enter(MemberState::new_, std::nullopt, "NewClusterCreated", {}, kStart);
    status.enter(MemberState::new_, std::nullopt, "NewClusterCreated", {}, kStart + seconds(5));
    EXPECT_EQ(status.get().transitions.size(), 1U);
    for (int i = 0; i < 30; ++i) {
        status.observe(answer(i % 2 == 0), {"h", "http://a:2379"}, kStart + seconds(i));
    }
    EXPECT_EQ(status.get().transitions.size(), kTransitionsMax);
    EXPECT_EQ(status.get().transitions.back().transition_time, to_rfc3339(kStart + seconds(29)));
}

TEST(MemberStatus, WritesAConditionAtOnceAndAnotherMessageOfItNot) {
    MemberStatus status;
    status.condition("Initialized", "StoreUnreachable", "until 12:00:00", kStart);
    ASSERT_TRUE(status.due(kBegin));
    status.written(kBegin);
    status.condition("Initialized", "StoreUnreachable", "until 12:00:01", kStart);
    EXPECT_FALSE(status.due(kBegin + seconds(1)));
    EXPECT_TRUE(status.due(kBegin + kWriteGapMin));
    status.condition("Initialized", "NoBackups", "until 12:00:01", kStart);
    EXPECT_TRUE(status.due(kBegin + seconds(1)));
}

TEST(MemberStatus, AsksAnApiThatRefusesLessAndLess) {
    MemberStatus status;
    status.condition("Initialized", "NoBackups", "", kStart);
    MonotonicTime now = kBegin;
    int tries = 0;
    for (; now < kBegin + minutes(10); now += milliseconds(250)) {
        if (status.due(now)) {
            ++tries;
            status.refused(now, now);
        }
    }
    EXPECT_LT(tries, 15);
    EXPECT_GT(tries, 5);
    now += kRefusedMax;
    ASSERT_TRUE(status.due(now));
    status.written(now);
    status.condition("Initialized", "DataLost", "", kStart);
    EXPECT_TRUE(status.due(now)) << "it answers again";
    // One that does not answer holds the caller up a fifth of the time at most.
    status.refused(now, now + seconds(20));
    EXPECT_FALSE(status.due(now + seconds(99)));
    EXPECT_TRUE(status.due(now + seconds(100)));
}

TEST(MemberStatus, WritesTransitionsAtOnceAndSizesAtMostEveryFiveSeconds) {
    MemberStatus status;
    status.observe(answer(true), {"h", "http://a:2379"}, kStart);
    ASSERT_TRUE(status.due(kBegin));
    status.written(kBegin);
    status.observe(answer(true, 40'960), {"h", "http://a:2379"}, kStart + seconds(1));
    EXPECT_FALSE(status.due(kBegin + seconds(1)));
    EXPECT_TRUE(status.due(kBegin + kWriteGapMin));
    status.observe(answer(false, 40'960), {"h", "http://a:2379"}, kStart + seconds(2));
    EXPECT_TRUE(status.due(kBegin + seconds(2)));
}

TEST(MemberStatus, AtRestOnlyConfirmsAfterHalfOfTheAgeLimit) {
    MemberStatus status;
    status.observe(answer(true), {"h", "http://a:2379"}, kStart);
    status.written(kBegin);
    for (int second = 1; second < 300; ++second) {
        status.observe(answer(true), {"h", "http://a:2379"}, kStart + seconds(second));
        ASSERT_FALSE(status.due(kBegin + seconds(second))) << second;
    }
    status.observe(answer(true), {"h", "http://a:2379"}, kStart + minutes(5));
    EXPECT_TRUE(status.due(kBegin + minutes(5)));
}

TEST(MemberStatus, WritesAllAgainWhenTheObjectHasLostIt) {
    MemberStatus status;
    EXPECT_FALSE(status.reported());
    status.observe(answer(false), {"h", "http://a:2379"}, kStart);
    status.written(kBegin);
    EXPECT_TRUE(status.reported());
    EXPECT_FALSE(status.due(kBegin + seconds(1)));
    status.lost();
    EXPECT_FALSE(status.reported());
    const auto again = status.due(kBegin + seconds(1));
    ASSERT_TRUE(again);
    EXPECT_EQ(json::View(*again)["id"].string_or(""), "a1");
}

TEST(MemberStatus, IsAnObjectWhenTheOnlyThingSaidIsNoLongerTrue) {
    MemberStatus status;
    status.condition("SnapshotsTaken", "ConfigurationUnreadable", "not synced", kStart);
    ASSERT_TRUE(status.due(kBegin));
    status.written(kBegin);
    status.condition("SnapshotsTaken", "", "", kStart + seconds(5));
    const auto empty = status.due(kBegin + seconds(5));
    ASSERT_TRUE(empty);
    EXPECT_EQ(*empty, json::object());
}

TEST(MemberStatus, TakesOverWhatAnEarlierProcessReported) {
    api::EtcdMemberStatus known;
    known.id = "a1";
    known.transitions.push_back({std::nullopt,
                                 "GainedClusterLeadership",
                                 MemberState::started,
                                 MemberSubState::leader,
                                 to_rfc3339(kStart)});
    MemberStatus status(known);
    EXPECT_TRUE(status.has_record());
    EXPECT_FALSE(status.due(kBegin + minutes(30)));  // nothing observed yet: nothing to say
    status.observe(answer(true), {}, kStart + minutes(30));
    EXPECT_TRUE(status.due(kBegin + minutes(30)));
    EXPECT_EQ(status.get().transitions.size(), 1U);
}

// A learner's way, and the one of a learner that restarts on it.
TEST(MemberStatus, NamesTheStepsOfALearner) {
    MemberStatus status;
    EtcdStatus learner = answer(false);
    learner.learner = true;
    status.enter(MemberState::starting,
                 MemberSubState::pending_learner,
                 "WaitingToJoinAsLearner",
                 {},
                 kStart);
    status.observe(learner, {"h", "e"}, kStart);
    EXPECT_EQ(status.get().transitions.back().reason, "JoinedAsLearner");
    status.observe(learner, {"h", "e"}, kStart);
    EXPECT_EQ(status.get().transitions.size(), 2U);
    status.enter(MemberState::initializing,
                 MemberSubState::db_validation_full,
                 "DetectedPreviousUncleanExit",
                 {},
                 kStart);
    status.observe(learner, {"h", "e"}, kStart);
    EXPECT_EQ(status.get().transitions.back().reason, "LearnerRestarted");
    status.observe(answer(false), {"h", "e"}, kStart);
    EXPECT_EQ(status.get().transitions.back().reason, "PromotedAsVotingMember");
    EXPECT_EQ(status.sub_state(), MemberSubState::follower);
}

TEST(MemberStatus, TellsARestorationFromItsBeginningToItsEnd) {
    MemberStatus status;
    status.restoration_ends(true, {}, kStart);
    EXPECT_FALSE(status.get().last_restoration);
    status.written(kBegin);
    status.enter(MemberState::initializing, MemberSubState::restoration, "DataMissing", {}, kStart);
    status.restoration_begins(api::RestorationType::from_snapshot, "DataMissing", kStart);
    EXPECT_TRUE(status.restoring());
    EXPECT_TRUE(status.due(kBegin));
    status.written(kBegin);
    status.restoration_begins(
        api::RestorationType::from_snapshot, "DataMissing", kStart + seconds(9));
    EXPECT_EQ(status.get().last_restoration->start_time, to_rfc3339(kStart));
    status.observe(answer(true), {"h", "e"}, kStart + seconds(10));
    EXPECT_EQ(status.get().last_restoration->status, api::TaskStatus::succeeded);
    EXPECT_EQ(status.get().last_restoration->end_time, to_rfc3339(kStart + seconds(10)));
    EXPECT_EQ(status.get().transitions.back().reason, "RestorationSucceeded");
    EXPECT_TRUE(status.due(kBegin + seconds(10)));
}

TEST(MemberStatus, CountsRestartsOnAForeignVolumeAndSaysWhenItIsRight) {
    MemberStatus status;
    status.volume_mismatch("c:2", "run-1", kStart);
    EXPECT_TRUE(status.due(kBegin));
    status.written(kBegin);
    status.volume_mismatch("c:2", "run-1", kStart + seconds(5));
    EXPECT_FALSE(status.due(kBegin + seconds(5)));
    status.volume_mismatch("c:2", "run-2", kStart + seconds(9));
    ASSERT_EQ(status.get().volume_mismatches.size(), 1U);
    EXPECT_EQ(status.get().volume_mismatches[0].num_restarts, 1);
    EXPECT_TRUE(status.due(kBegin + seconds(9)));
    status.volume_matches(kStart + seconds(20));
    EXPECT_EQ(status.get().volume_mismatches[0].fixed_at, to_rfc3339(kStart + seconds(20)));
    status.volume_mismatch("c:2", "run-3", kStart + seconds(30));
    EXPECT_FALSE(status.get().volume_mismatches[0].fixed_at);
    for (int i = 0; i < 20; ++i) {
        status.volume_mismatch("v" + std::to_string(i), "run-4", kStart);
    }
    EXPECT_EQ(status.get().volume_mismatches.size(), kMismatchesMax);
}

TEST(MemberStatus, ConditionsComeAndGo) {
    MemberStatus status;
    status.condition("Initialized", "DataLost", "gone", kStart);
    ASSERT_EQ(status.get().conditions.size(), 1U);
    EXPECT_TRUE(status.due(kBegin));
    status.written(kBegin);
    status.condition("Initialized", "DataLost", "gone", kStart + seconds(9));
    EXPECT_FALSE(status.due(kBegin + seconds(9)));
    status.condition("Initialized", {}, {}, kStart + seconds(9));
    EXPECT_TRUE(status.get().conditions.empty());
    EXPECT_TRUE(status.due(kBegin + seconds(9)));
}

TEST(MemberStatus, ConfirmsWhatIsBackedUpAlsoWhenNothingChanged) {
    MemberStatus status;
    status.observe(answer(true), {"h", "http://a:2379"}, kStart);
    api::Snapshots snapshots;
    snapshots.last_full.emplace().name = "Full";
    snapshots.observed_at = "2027-01-15T08:00:00Z";
    status.backups(snapshots);
    ASSERT_TRUE(status.due(kBegin));
    status.written(kBegin);
    EXPECT_FALSE(status.due(kBegin + seconds(6)));
    snapshots.observed_at = "2027-01-15T08:00:20Z";
    status.backups(snapshots);
    EXPECT_FALSE(status.due(kBegin + seconds(4)));  // not so soon
    const auto written = status.due(kBegin + seconds(6));
    ASSERT_TRUE(written);
    EXPECT_EQ(json::View(*written)["snapshots"]["observedAt"].string_or(""),
              "2027-01-15T08:00:20Z");
    status.backups(std::nullopt);  // this steward no longer leads: what it said stays
    EXPECT_TRUE(status.get().snapshots);
}

api::Defragmentation defragmentation(api::TaskStatus task) {
    api::Defragmentation work;
    work.start_time = to_rfc3339(kStart);
    work.status = task;
    return work;
}

TEST(MemberStatus, DefragmentationIsReportedAtOnce) {
    MemberStatus status;
    status.observe(answer(true), {}, kStart);
    status.written(kBegin);
    status.defragmentation(defragmentation(api::TaskStatus::in_progress), kStart);
    ASSERT_TRUE(status.due(kBegin + seconds(1)));
    status.written(kBegin + seconds(1));
    status.defragmentation(defragmentation(api::TaskStatus::in_progress), kStart);
    EXPECT_FALSE(status.due(kBegin + seconds(2)));
    status.defragmentation(defragmentation(api::TaskStatus::succeeded), kStart);
    const auto due = status.due(kBegin + seconds(2));
    ASSERT_TRUE(due);
    EXPECT_EQ(json::View(*due)["lastDefragmentation"]["status"].string_or(""), "Succeeded");
}

TEST(MemberStatus, DefragmentationOfAStewardThatDiedIsNotInProgressForEver) {
    api::EtcdMemberStatus known;
    known.last_defragmentation = defragmentation(api::TaskStatus::in_progress);
    MemberStatus status(known);
    status.defragmentation(std::nullopt, kStart + minutes(3));
    EXPECT_EQ(status.get().last_defragmentation->status, api::TaskStatus::failed);
    EXPECT_EQ(status.get().last_defragmentation->reason, "Interrupted");
    EXPECT_TRUE(status.due(kBegin + minutes(3)));
    known.last_defragmentation = defragmentation(api::TaskStatus::succeeded);
    MemberStatus done(known);
    done.defragmentation(std::nullopt, kStart);
    EXPECT_EQ(done.get().last_defragmentation->status, api::TaskStatus::succeeded);
}

TEST(MemberStatus, AlarmsOfThisMemberAreConditions) {
    MemberStatus status;
    status.alarms({{"a1", "NOSPACE"}}, kStart);
    EXPECT_TRUE(status.get().conditions.empty()) << "its own id is not known yet";
    status.observe(answer(true), {}, kStart);
    status.alarms({{"a1", "NOSPACE"}, {"b2", "CORRUPT"}}, kStart);
    ASSERT_EQ(status.get().conditions.size(), 1U);
    EXPECT_EQ(status.get().conditions[0].type, "SpaceAvailable");
    EXPECT_EQ(status.get().conditions[0].reason, "NoSpaceAlarm");
    EXPECT_EQ(status.get().conditions[0].status, api::ConditionStatus::false_);
    EXPECT_TRUE(status.due(kBegin));
    status.alarms({{"a1", "CORRUPT"}}, kStart);
    ASSERT_EQ(status.get().conditions.size(), 1U);
    EXPECT_EQ(status.get().conditions[0].type, "DataIntact");
    status.alarms({}, kStart);
    EXPECT_TRUE(status.get().conditions.empty());
}

}  // namespace
}  // namespace capstan::steward
