#include "plugins/custodian/backup.hpp"

#include <gtest/gtest.h>

namespace capstan::custodian {
namespace {

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::nanoseconds;
using std::chrono::seconds;

const WallTime kNow = *parse_rfc3339("2026-01-07T12:00:00Z");  // a Wednesday
constexpr minutes kPeriod{5};

// An Etcd with deltas every 5 minutes and the fulls of the reference, nothing stored yet.
World world_with_store() {
    World world;
    world.now = kNow;
    world.etcd.metadata.name = "main";
    world.etcd.spec.replicas = 3;
    world.etcd.spec.backup.store.emplace();
    world.etcd.spec.backup.store->provider = "S3";
    world.etcd.spec.backup.delta_snapshot_period = "5m";
    return world;
}

api::EtcdMember member_with(nanoseconds full_age, nanoseconds confirmed_age) {
    api::EtcdMember member;
    member.status.emplace();
    api::Snapshots& snapshots = member.status->snapshots.emplace();
    snapshots.last_full.emplace().timestamp = to_rfc3339(kNow - full_age);
    snapshots.observed_at = to_rfc3339(kNow - confirmed_age);
    return member;
}

api::Condition before(std::string status, nanoseconds since, std::string reason = "Unknown") {
    api::Condition condition;
    condition.type = kBackupReady;
    condition.status = std::move(status);
    condition.reason = std::move(reason);
    condition.last_transition_time = to_rfc3339(kNow - since);
    return condition;
}

std::string judged(const World& world, const api::Condition* condition = nullptr) {
    const auto verdict = judge_backups(world, condition);
    return verdict ? std::string(verdict->status) + "/" + std::string(verdict->reason) : "absent";
}

TEST(BackupReady, IsAbsentWithoutAStore) {
    World world = world_with_store();
    world.etcd.spec.backup.store->provider = "";
    EXPECT_EQ(judged(world), "absent");
    world.etcd.spec.backup.store.reset();
    EXPECT_EQ(judged(world), "absent");
}

struct AgeRow {
    const char* name;
    nanoseconds full, confirmed;
    const char* schedule;  // nullptr: none
    const char* previous;  // status, nullptr: no condition yet; it lasts since an hour
    const char* want;
};

class BackupAge : public testing::TestWithParam<AgeRow> {};

// By EtcdMember and by the two leases alike.
TEST_P(BackupAge, DecidesTheStatus) {
    const AgeRow& row = GetParam();
    World world = world_with_store();
    if (row.schedule != nullptr) {
        world.etcd.spec.backup.full_snapshot_schedule = row.schedule;
    }
    const auto previous =
        row.previous ? std::optional(before(row.previous, hours{1})) : std::nullopt;
    World by_leases = world;
    world.members["main-1"] = member_with(row.full, row.confirmed);
    EXPECT_EQ(judged(world, previous ? &*previous : nullptr), row.want);
    by_leases.leases["main-full-snap"] = {"7", kNow - row.full, kNow - hours{1000}};
    by_leases.leases["main-delta-snap"] = {"9", kNow - row.confirmed, kNow - hours{1000}};
    EXPECT_EQ(judged(by_leases, previous ? &*previous : nullptr), row.want);
}

constexpr const char* kTrue = "True/BackupSucceeded";
constexpr const char* kFalse = "False/BackupFailed";
constexpr const char* kUnknown = "Unknown/Unknown";

INSTANTIATE_TEST_SUITE_P(
    Rows,
    BackupAge,
    testing::Values(
        AgeRow{"fresh", hours{1}, minutes{1}, nullptr, nullptr, kTrue},
        AgeRow{"ahead_of_our_clock", -hours{1}, -minutes{1}, nullptr, nullptr, kTrue},
        AgeRow{"just_within", hours{1}, minutes{10} - seconds{1}, nullptr, "True", kTrue},
        AgeRow{"two_periods", hours{1}, minutes{10}, nullptr, "True", kUnknown},
        AgeRow{"three_periods", hours{1}, minutes{15}, nullptr, "Unknown", kUnknown},
        AgeRow{"longer", hours{1}, minutes{15} + seconds{1}, nullptr, "Unknown", kFalse},
        AgeRow{"longer_and_failed", hours{1}, minutes{16}, nullptr, "False", kFalse},
        AgeRow{"true_never_fails_at_once", hours{1}, hours{2}, nullptr, "True", kUnknown},
        AgeRow{"nor_does_the_first_look", hours{1}, hours{2}, nullptr, nullptr, kUnknown},
        AgeRow{"recovered", hours{1}, minutes{1}, nullptr, "False", kTrue},
        AgeRow{"a_full_that_takes_its_time", hours{24}, minutes{1}, nullptr, "True", kTrue},
        AgeRow{"no_deltas_while_it_does", hours{24}, minutes{16}, nullptr, "Unknown", kUnknown},
        AgeRow{"full_overdue", hours{24} + minutes{15}, minutes{1}, nullptr, "True", kUnknown},
        AgeRow{"weekly_on_saturday", hours{4 * 24}, minutes{1}, "0 1 * * 6", nullptr, kTrue},
        AgeRow{"weekly_missed", hours{6 * 24}, minutes{1}, "0 1 * * 6", nullptr, kUnknown},
        AgeRow{"every_other_hour", hours{5}, minutes{1}, "0 */2 * * *", nullptr, kUnknown},
        AgeRow{"every_other_hour_now", minutes{1}, minutes{1}, "0 */2 * * *", nullptr, kTrue},
        AgeRow{"by_a_clock_that_is_behind",
               hours{2} + seconds{5},
               minutes{1},
               "0 10 * * *",
               nullptr,
               kTrue}),
    [](const auto& row) { return row.param.name; });

TEST(BackupReady, TakesTheNewerOfLeaseAndMember) {
    World world = world_with_store();
    world.leases["main-full-snap"] = {"7", kNow - hours{30}, kNow - hours{1000}};
    world.leases["main-delta-snap"] = {"9", kNow - hours{2}, kNow - hours{1000}};
    world.members["main-0"] = member_with(hours{40}, hours{20});  // led before
    world.members["main-1"] = member_with(hours{1}, minutes{1});
    EXPECT_EQ(judged(world), kTrue);
    world.members.erase("main-1");
    world.leases["main-full-snap"].renewed = kNow - hours{1};
    world.leases["main-delta-snap"].renewed = kNow - minutes{1};
    EXPECT_EQ(judged(world), kTrue);
}

TEST(BackupReady, OnlyDeltasAreGoodForTheAgeOfTheLease) {
    World world = world_with_store();
    world.leases["main-full-snap"] = {"", std::nullopt, kNow - hours{2}};
    world.leases["main-delta-snap"] = {"9", kNow - minutes{1}, kNow - hours{2}};
    EXPECT_EQ(judged(world), kTrue);
    world.leases["main-full-snap"].created = kNow - hours{25};
    EXPECT_EQ(judged(world), kUnknown);
}

TEST(BackupReady, OnlyAFullAwaitsTheFirstDelta) {
    World world = world_with_store();
    world.leases["main-full-snap"] = {"7", kNow - minutes{1}, kNow - hours{2}};
    world.leases["main-delta-snap"] = {"", std::nullopt, kNow - hours{2}};
    EXPECT_EQ(judge_backups(world, nullptr)->message, "The first delta snapshot is awaited");
    world.leases["main-full-snap"].renewed = kNow - minutes{26};
    EXPECT_EQ(judge_backups(world, nullptr)->message, "Periodic delta snapshots have not started");
    EXPECT_EQ(judged(world), kUnknown);
}

TEST(BackupReady, WithoutDeltasTheFullDecides) {
    World world = world_with_store();
    world.etcd.spec.backup.delta_snapshot_period = "0s";
    world.members["main-0"] = member_with(hours{23}, hours{23});
    EXPECT_EQ(judged(world), kTrue);
    world.members["main-0"] = member_with(hours{25}, hours{25});
    const api::Condition unknown = before("Unknown", hours{1});
    EXPECT_EQ(judged(world, &unknown), kFalse);
}

TEST(BackupReady, SaysWhatTheMemberLacks) {
    World world = world_with_store();
    api::EtcdMember& member = world.members["main-0"];
    member.status.emplace().conditions.push_back({to_rfc3339(kNow),
                                                  "the store refuses the key",
                                                  "StoreRefused",
                                                  api::ConditionStatus::false_,
                                                  "Initialized"});
    EXPECT_EQ(judged(world), kUnknown);
    EXPECT_EQ(judge_backups(world, nullptr)->message,
              "No backup has been reported yet; main-0: StoreRefused: the store refuses the key");
    std::string umlauts;
    for (int i = 0; i < 2000; ++i) {
        umlauts += "ä";
    }
    world.members["main-1"].status.emplace().conditions.push_back({to_rfc3339(kNow),
                                                                   umlauts,
                                                                   "SnapshotFailed",
                                                                   api::ConditionStatus::false_,
                                                                   "SnapshotsTaken"});
    const json::Value message(judge_backups(world, nullptr)->message);
    EXPECT_NE(json::dump(message).find("main-1: SnapshotFailed"), std::string::npos);
    EXPECT_LT(json::dump(message).size(), 600u);
    EXPECT_TRUE(json::parse(json::dump(message)));  // no half characters
}

// Woken from replicas 0, with what was stored before: time for a first snapshot.
TEST(BackupReady, AWokenClusterIsNotJudgedByItsSleep) {
    World world = world_with_store();
    world.leases["main-full-snap"] = {"7", kNow - hours{3}, kNow - hours{1000}};
    world.leases["main-delta-snap"] = {"9", kNow - hours{2}, kNow - hours{1000}};
    api::Condition condition = before("Unknown", hours{9}, "NotChecked");
    EXPECT_EQ(judged(world, &condition), kUnknown);
    condition = before("Unknown", kPeriod - seconds{1});
    EXPECT_EQ(judged(world, &condition), kUnknown);
    condition = before("Unknown", kPeriod);
    EXPECT_EQ(judged(world, &condition), kFalse);
    world.etcd.spec.replicas = 0;
    EXPECT_EQ(judge_backups(world, &condition)->next_look, kNever);
}

// What a member stores every second is reported every 5 s at most.
TEST(BackupReady, AShortPeriodIsNotJudgedByTheReports) {
    World world = world_with_store();
    world.etcd.spec.backup.delta_snapshot_period = "1s";
    world.members["main-0"] = member_with(hours{1}, seconds{19});
    EXPECT_EQ(judged(world), kTrue);
    world.members["main-0"] = member_with(hours{1}, seconds{20});
    EXPECT_EQ(judged(world), kUnknown);
}

TEST(BackupReady, LooksAgainWhenTheFactsGrowOld) {
    World world = world_with_store();
    world.members["main-0"] = member_with(hours{1}, minutes{1});
    EXPECT_EQ(judge_backups(world, nullptr)->next_look, minutes{9});
    world.members["main-0"] = member_with(hours{24}, minutes{1});
    world.etcd.spec.backup.etcd_snapshot_timeout = "2m";
    EXPECT_EQ(judge_backups(world, nullptr)->next_look, minutes{2});
    world.members["main-0"] = member_with(hours{1}, hours{1});
    EXPECT_EQ(judge_backups(world, nullptr)->next_look, seconds{10});
}

TEST(BackupReady, NamesTheFieldThatCannotBeRead) {
    World world = world_with_store();
    world.etcd.spec.backup.full_snapshot_schedule = "0 25 * * *";
    world.members["main-0"] = member_with(hours{1}, minutes{1});
    EXPECT_EQ(judged(world), kUnknown);
    EXPECT_EQ(judge_backups(world, nullptr)->message.rfind("spec.backup.fullSnapshotSchedule: ", 0),
              0u);
    world.etcd.spec.backup.full_snapshot_schedule.reset();
    world.etcd.spec.backup.delta_snapshot_period = "soon";
    EXPECT_EQ(judge_backups(world, nullptr)->message,
              "spec.backup.deltaSnapshotPeriod: \"soon\" is no duration such as 5m");
}

// Whatever the spec and the facts say, times stay within what 64 bits can hold.
TEST(BackupReady, EndlessPeriodsAreNone) {
    World world = world_with_store();
    world.etcd.spec.backup.delta_snapshot_period = "2400000h";
    world.etcd.spec.backup.etcd_snapshot_timeout = "2400000h";
    world.etcd.spec.backup.full_snapshot_schedule = "@every 2400000h";
    world.members["main-0"] = member_with(hours{1}, hours{1});
    world.members["main-0"].status->snapshots->last_full->timestamp = "9999-01-01T00:00:00Z";
    EXPECT_EQ(judged(world), kTrue);
    world.members["main-0"].status->snapshots->last_full->timestamp = "0001-01-01T00:00:00Z";
    world.members["main-0"].status->snapshots->observed_at = "0001-01-01T00:00:00Z";
    const api::Condition unknown = before("Unknown", hours{1});
    EXPECT_NE(judged(world, &unknown), kTrue);
}

}  // namespace
}  // namespace capstan::custodian
