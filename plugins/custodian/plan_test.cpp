#include "plugins/custodian/plan.hpp"

#include <gtest/gtest.h>

namespace capstan::custodian {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;

const WallTime kNow = *parse_rfc3339("2026-01-01T12:00:00Z");
constexpr const char* kEarlier = "2026-01-01T11:00:00Z";

// A cluster of three that is entirely well.
World healthy() {
    World world;
    world.now = kNow;
    world.etcd.metadata.name = "main";
    world.etcd.metadata.ns = "shop";
    world.etcd.spec.replicas = 3;
    for (int i = 0; i < 3; ++i) {
        const std::string name = "main-" + std::to_string(i);
        world.leases[name] = {std::to_string(i) + "a:c1:" + (i == 0 ? "Leader" : "Member"),
                              kNow - seconds{5}};
        world.pods[name] = {true, true, true};
        api::EtcdMember& member = world.members[name];
        member.metadata.uid = "uid-" + std::to_string(i);
        member.status.emplace();
        member.status->transitions.emplace_back();
        member.status->transitions.back().state = api::MemberState::started;
    }
    world.set = StatefulSet{1, 1, 3, 3, 3, "r1", "r1"};
    return world;
}

std::string condition(const Plan& plan, std::string_view type) {
    for (const json::Value& one : json::View(plan.wanted)["conditions"].array()) {
        const json::View view(one);
        if (view["type"].string_or("") == type) {
            return std::string(view["status"].string_or("")) + "/" +
                   std::string(view["reason"].string_or(""));
        }
    }
    return "absent";
}

std::string member(const Plan& plan, std::size_t index) {
    const json::View view = json::View(plan.wanted)["members"][index];
    return std::string(view["status"].string_or("")) + "/" +
           std::string(view["reason"].string_or(""));
}

// The status as the API server would hold it after the plan was carried out.
void carry_out(World& world, const Plan& plan) {
    api::EtcdStatus status;
    auto decoded = api::decode(json::View(plan.wanted), status);
    ASSERT_TRUE(decoded) << decoded.error().message;
    world.etcd.status = status;
}

TEST(Custodian, ReportsAHealthyClusterWhole) {
    const Plan plan = make_plan(healthy(), {});
    const json::View status(plan.wanted);
    EXPECT_EQ(condition(plan, "Ready"), "True/Quorate");
    EXPECT_EQ(condition(plan, "AllMembersReady"), "True/AllMembersReady");
    EXPECT_EQ(condition(plan, "AllMembersUpdated"), "True/AllMembersUpdated");
    EXPECT_EQ(condition(plan, "ClusterIDMismatch"), "False/NoClusterIDMismatchDetected");
    EXPECT_TRUE(status["ready"].bool_or(false));
    EXPECT_EQ(status["readyReplicas"].int_or(0), 3);
    EXPECT_EQ(status["members"][0]["role"].string_or(""), "Leader");
    EXPECT_EQ(status["members"][0]["id"].string_or(""), "0a");
    EXPECT_EQ(status["memberRefs"][2]["uid"].string_or(""), "uid-2");
}

TEST(Custodian, WritesNothingWhenNothingChanged) {
    World world = healthy();
    carry_out(world, make_plan(world, {}));
    world.now += minutes{3};
    for (auto& [name, lease] : world.leases) {
        lease.renewed = world.now;
    }
    const Plan again = make_plan(world, {});
    EXPECT_EQ(again.present, again.wanted);
}

TEST(Custodian, LeavesConditionsOfOthersAlone) {
    World world = healthy();
    world.etcd.status.emplace();
    world.etcd.status->conditions.push_back(
        {kEarlier, kEarlier, "", "TLSNotSupported", "False", "SpecSupported"});
    const Plan plan = make_plan(world, {});
    EXPECT_EQ(condition(plan, "SpecSupported"), "absent");
    EXPECT_TRUE(json::View(plan.present).object().empty());
}

TEST(Custodian, MovesTransitionTimesOnlyWithTheStatus) {
    World world = healthy();
    carry_out(world, make_plan(world, {}));
    const std::string first = to_rfc3339(world.now);
    world.now += seconds{30};
    world.leases["main-2"].renewed.reset();  // never renewed: the member has no entry
    world.leases["main-1"].renewed = world.now - minutes{7};
    for (const char* fresh : {"main-0"}) {
        world.leases[fresh].renewed = world.now;
    }
    const Plan plan = make_plan(world, {});
    const json::View members = json::View(plan.wanted)["members"];
    EXPECT_EQ(members[0]["lastTransitionTime"].string_or(""), first);
    EXPECT_EQ(members[1]["lastTransitionTime"].string_or(""), to_rfc3339(world.now));
    EXPECT_EQ(members.array().size(), 2u);
}

constexpr Pod kUp{true, true, true}, kDown{}, kEtcdUp{false, false, true};

struct AgeRow {
    const char* name;
    std::chrono::seconds age;
    Pod pod;
    const char* want;
};

class MemberAge : public testing::TestWithParam<AgeRow> {};

TEST_P(MemberAge, DecidesTheStanding) {
    World world = healthy();
    world.leases["main-1"].renewed = kNow - GetParam().age;
    world.pods["main-1"] = GetParam().pod;
    EXPECT_EQ(member(make_plan(world, {}), 1), GetParam().want);
}

INSTANTIATE_TEST_SUITE_P(
    Rows,
    MemberAge,
    testing::Values(
        AgeRow{"fresh", seconds{60}, kUp, "Ready/LeaseSucceeded"},
        AgeRow{"fresh_and_down", seconds{5}, kDown, "NotReady/ContainersNotReady"},
        AgeRow{"fresh_without_the_sidecar", seconds{5}, kEtcdUp, "Ready/LeaseSucceeded"},
        AgeRow{"stale_and_running", seconds{61}, kUp, "Unknown/LeaseExpired"},
        AgeRow{"stale_and_down", seconds{61}, kDown, "NotReady/ContainersNotReady"},
        AgeRow{"stale_without_the_sidecar", seconds{61}, kEtcdUp, "NotReady/ContainersNotReady"},
        AgeRow{"long_gone", seconds{361}, kUp, "NotReady/UnknownGracePeriodExceeded"},
        AgeRow{"ahead_of_our_clock", seconds{-30}, kUp, "Ready/LeaseSucceeded"}),
    [](const auto& row) { return row.param.name; });

struct QuorumRow {
    const char* name;
    int unknown;  // members whose lease is stale while their pod runs
    int down;     // members whose pod is down as well
    const char* ready;
    const char* all;
};

class Quorum : public testing::TestWithParam<QuorumRow> {};

TEST_P(Quorum, CountsOnlyWhatIsKnownToBeReady) {
    World world = healthy();
    int index = 0;
    for (auto& [name, lease] : world.leases) {
        if (index < GetParam().unknown + GetParam().down) {
            lease.renewed = kNow - minutes{2};
            world.pods[name].containers_ready = index < GetParam().unknown;
        }
        ++index;
    }
    const Plan plan = make_plan(world, {});
    EXPECT_EQ(condition(plan, "Ready"), GetParam().ready);
    EXPECT_EQ(condition(plan, "AllMembersReady"), GetParam().all);
}

INSTANTIATE_TEST_SUITE_P(
    Rows,
    Quorum,
    testing::Values(
        QuorumRow{"one_down", 0, 1, "True/Quorate", "False/NotAllMembersReady"},
        QuorumRow{"two_down", 0, 2, "False/QuorumLost", "False/NotAllMembersReady"},
        QuorumRow{"one_unknown", 1, 0, "True/Quorate", "False/NotAllMembersReady"},
        QuorumRow{"two_unknown", 2, 0, "Unknown/MembersUnknown", "False/NotAllMembersReady"},
        QuorumRow{
            "one_unknown_one_down", 1, 1, "Unknown/MembersUnknown", "False/NotAllMembersReady"},
        QuorumRow{"all_unknown", 3, 0, "Unknown/MembersUnknown", "False/NotAllMembersReady"}),
    [](const auto& row) { return row.param.name; });

// Before any lease has grown old.
TEST(Custodian, LostPodsCountAtOnce) {
    World world = healthy();
    world.pods.erase("main-1");
    EXPECT_EQ(condition(make_plan(world, {}), "Ready"), "True/Quorate");
    EXPECT_EQ(condition(make_plan(world, {}), "AllMembersReady"), "False/NotAllMembersReady");
    world.pods["main-2"] = kDown;
    const Plan plan = make_plan(world, {});
    EXPECT_EQ(condition(plan, "Ready"), "False/QuorumLost");
    EXPECT_EQ(member(plan, 0), "Ready/LeaseSucceeded");
    EXPECT_EQ(member(plan, 1), "NotReady/ContainersNotReady");
    EXPECT_EQ(member(plan, 2), "NotReady/ContainersNotReady");
    world.set.reset();  // whose pods these are is not known
    EXPECT_EQ(condition(make_plan(world, {}), "Ready"), "True/Quorate");
}

TEST(Custodian, QuorumIsCountedFromTheSpec) {
    World world = healthy();
    world.leases.erase("main-1");
    // one entry, ready: a majority of the entries, not of the members
    world.leases.erase("main-2");
    EXPECT_EQ(condition(make_plan(world, {}), "Ready"), "False/QuorumLost");
}

TEST(Custodian, AMemberThatStartsAgainIsNotReadyAtOnce) {
    World world = healthy();
    world.members["main-0"].status->transitions.back().state = api::MemberState::initializing;
    EXPECT_EQ(member(make_plan(world, {}), 0), "NotReady/MemberNotStarted");
}

TEST(Custodian, NoMemberHasReported) {
    World world = healthy();
    for (auto& [name, lease] : world.leases) {
        lease = {};
    }
    const Plan plan = make_plan(world, {});
    EXPECT_EQ(condition(plan, "Ready"), "Unknown/NoMembersInStatus");
    EXPECT_EQ(condition(plan, "ClusterIDMismatch"), "Unknown/NoClusterIDDetected");
    EXPECT_EQ(plan.next_look, kNever);
}

TEST(Custodian, TwoClustersAreNamed) {
    World world = healthy();
    world.leases["main-2"].holder = "2a:c2:Leader";
    EXPECT_EQ(condition(make_plan(world, {}), "ClusterIDMismatch"),
              "True/MultipleClusterIDsDetected");
}

TEST(Custodian, ReadyFollowsThePods) {
    World world = healthy();
    world.pods["main-1"].ready = false;
    const Plan plan = make_plan(world, {});
    EXPECT_FALSE(json::View(plan.wanted)["ready"].bool_or(true));
    EXPECT_EQ(json::View(plan.wanted)["readyReplicas"].int_or(0), 2);
    EXPECT_EQ(condition(plan, "Ready"), "True/Quorate");
}

TEST(Custodian, ScaledDownKeepsWhatWasKnown) {
    World world = healthy();
    carry_out(world, make_plan(world, {}));
    world.etcd.spec.replicas = 0;
    world.pods.clear();
    const Plan plan = make_plan(world, {});
    EXPECT_EQ(condition(plan, "Ready"), "True/NotChecked");
    EXPECT_TRUE(json::View(plan.wanted)["members"].array().empty());
}

TEST(Custodian, LooksAgainWhenTheFirstLeaseGrowsOld) {
    World world = healthy();
    world.leases["main-1"].renewed = kNow - seconds{20};
    const auto wait = make_plan(world, {}).next_look;
    EXPECT_GT(wait, seconds{40});
    EXPECT_LT(wait, seconds{41});
    world.leases["main-1"].renewed = kNow - minutes{2};  // already old: its return wakes nobody
    EXPECT_EQ(make_plan(world, {}).next_look, seconds{10});
}

TEST(Custodian, JudgesBackupsWhereTheyAreAskedFor) {
    World world = healthy();
    world.etcd.spec.backup.store.emplace();
    world.etcd.spec.backup.store->provider = "Local";
    EXPECT_EQ(condition(make_plan(world, {}), "BackupReady"), "Unknown/Unknown");
    EXPECT_EQ(make_plan(world, {}).next_look, seconds{10});
    api::Snapshots& snapshots = world.members["main-0"].status->snapshots.emplace();
    snapshots.last_full.emplace().timestamp = kEarlier;
    snapshots.observed_at = to_rfc3339(world.now);
    const Plan plan = make_plan(world, {});
    EXPECT_EQ(condition(plan, "BackupReady"), "True/BackupSucceeded");
    EXPECT_EQ(plan.next_look, seconds{40});  // two periods of 20 s, before any lease grows old
    carry_out(world, plan);
    world.etcd.spec.backup.store.reset();
    EXPECT_EQ(condition(make_plan(world, {}), "BackupReady"), "absent");
    EXPECT_FALSE(make_plan(world, {}).present == make_plan(world, {}).wanted);
}

TEST(Custodian, AConditionBeginsAnewAfterTheSleep) {
    World world = healthy();
    carry_out(world, make_plan(world, {}));
    world.etcd.spec.replicas = 0;
    world.now += minutes{5};
    carry_out(world, make_plan(world, {}));
    const json::Value asleep = make_plan(world, {}).wanted;
    EXPECT_EQ(json::View(asleep)["conditions"][0]["lastTransitionTime"].string_or(""),
              to_rfc3339(kNow));
    world.etcd.spec.replicas = 3;
    const json::Value awake = make_plan(world, {}).wanted;
    EXPECT_EQ(json::View(awake)["conditions"][0]["lastTransitionTime"].string_or(""),
              to_rfc3339(world.now));
}

TEST(Custodian, MemberNamesCarryThePrefix) {
    World world = healthy();
    world.etcd.spec.member_name_prefix = "blue";
    EXPECT_EQ(member_names(world.etcd).front(), "blue-main-0");
}

TEST(Custodian, RefusesAThresholdThatIsNone) {
    const json::Value config = {{"etcdMember", {{"unknownThreshold", "soon"}}}};
    auto got = read_thresholds(config);
    ASSERT_FALSE(got);
    EXPECT_EQ(got.error().message,
              "/etcdMember/unknownThreshold: expected a positive duration such as 1m");
}

}  // namespace
}  // namespace capstan::custodian
