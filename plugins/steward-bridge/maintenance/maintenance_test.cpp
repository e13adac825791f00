// Alarms, turns and defragmentation against a cluster that answers at once.
#include "plugins/steward-bridge/maintenance/maintenance_service.hpp"
#include "plugins/steward-bridge/maintenance/testing_cluster.hpp"
#include "plugins/steward-bridge/maintenance/turn.hpp"

#include <gtest/gtest.h>

#include <functional>

namespace capstan::steward {
namespace {

using namespace std::chrono_literals;
using capstan::testing::PluginUnderTest;
using testing_cluster::FakeCluster;
using testing_cluster::FakeHost;

const ObjectKey kTurnLease{"ns", "m-0"};

// What the service of the plugin under test does; set before it is run.
std::function<Result<void>(Call&, Member&, Defragmenter&)> g_body;
Member* g_member = nullptr;

class Body final : public Service {
public:
    Body(Member& member, Defragmenter& defragmenter)
        : member_(member), defragmenter_(defragmenter) {}
    Result<void> run(Call& call) override { return g_body(call, member_, defragmenter_); }

private:
    Member& member_;
    Defragmenter& defragmenter_;
};

struct Parts {
    explicit Parts(const HostTables& host)
        : member(host, FakeCluster::identity()), defragmenter(host, member) {}
    Member member;
    Defragmenter defragmenter;
};

Result<void> make(Setup& setup) {
    auto parts = std::make_shared<Parts>(setup.host());
    g_member = &parts->member;
    setup.service("body", std::make_unique<Body>(parts->member, parts->defragmenter));
    setup.service(
        "maintenance",
        std::make_unique<MaintenanceService>(setup.host(), parts->member, parts->defragmenter));
    setup.own(parts);
    return ok();
}
const capstan_plugin* entry(const capstan_host* host) noexcept {
    return detail::plugin_entry(host, &make, "maintenance.capstan.dev", "0.1.0");
}

class Maintenance : public ::testing::Test {
protected:
    void boot(std::size_t members) {
        cluster.emplace(members);
        cluster->install(host);
        plugin.emplace(host, &entry);
    }
    void run(std::function<Result<void>(Call&, Member&, Defragmenter&)> body) {
        g_body = std::move(body);
        plugin->run_service("body");
    }
    Result<api::Defragmentation> defragment() {
        Result<api::Defragmentation> result = fail(Code::internal, "did not run");
        run([&](Call& call, Member&, Defragmenter& defragmenter) -> Result<void> {
            result = defragmenter.run(call, "Requested");
            return ok();
        });
        return result;
    }
    std::string turn() {
        const json::Value lease = *host.find("coordination.k8s.io/v1/Lease", kTurnLease);
        return std::string(
            json::View(lease)["metadata"]["annotations"][kTurnAnnotation].string_or(""));
    }
    void put_turn(std::string_view text) {
        json::Value annotations = json::object();
        annotations.set(kTurnAnnotation, text);
        host.put(
            {{"apiVersion", "coordination.k8s.io/v1"},
             {"kind", "Lease"},
             {"metadata", {{"namespace", "ns"}, {"name", "m-0"}, {"annotations", annotations}}}});
    }
    // Runs the service of maintenance for `time`, its member being `leads`.
    void serve(std::chrono::nanoseconds time, bool leads) {
        EtcdStatus status;
        status.member_id = "1";
        status.leader = leads;
        status.has_leader = true;
        g_member->set_status(status);
        host.at(host.now() + time, [this] { host.cancel(); });
        plugin->run_service("maintenance");
    }
    void put_last(std::size_t member, std::string_view start, std::string_view status) {
        host.put(
            {{"apiVersion", "druid.gardener.cloud/v1alpha1"},
             {"kind", "EtcdMember"},
             {"metadata", {{"namespace", "ns"}, {"name", FakeCluster::name(member)}}},
             {"status", {{"lastDefragmentation", {{"startTime", start}, {"status", status}}}}}});
    }

    FakeHost host;
    std::optional<FakeCluster> cluster;
    std::optional<PluginUnderTest> plugin;
};

using Defragment = Maintenance;
using Turn = Maintenance;
using Scheduled = Maintenance;

TEST_F(Defragment, RecordsSizesAndGivesTheTurnBack) {
    boot(3);
    const auto done = defragment();
    ASSERT_TRUE(done) << done.error().message;
    EXPECT_EQ(done.value().status, api::TaskStatus::succeeded);
    EXPECT_EQ(done.value().initial_db_size->text, "4096");
    EXPECT_EQ(done.value().final_db_size->text, "1024");
    EXPECT_EQ(done.value().reason, "Requested");
    EXPECT_TRUE(done.value().end_time.has_value());
    EXPECT_EQ(cluster->defragmented, std::vector<std::size_t>{0}) << "only this member";
    EXPECT_EQ(turn(), "");
    ASSERT_TRUE(g_member->defragmentation());
    EXPECT_EQ(g_member->defragmentation()->status, api::TaskStatus::succeeded);
    EXPECT_EQ(host.metric("etcdbr_defragmentation_duration_seconds{true,http://10.0.0.0:2379}"), 1);
}

TEST_F(Defragment, IsInProgressWhileEtcdIsAtItAndHoldsTheTurn) {
    boot(1);
    api::TaskStatus seen{};
    std::string holder;
    host.on_http([&](const json::Value& request, std::string_view) {
        const json::View asked(request);
        const std::string url(asked["url"].string_or(""));
        if (url.ends_with("/defragment")) {
            seen = g_member->defragmentation()->status;
            holder = turn();
        }
        return cluster->answer(url);
    });
    ASSERT_TRUE(defragment());
    EXPECT_EQ(seen, api::TaskStatus::in_progress);
    const auto parsed = TurnHolder::parse(holder);
    ASSERT_TRUE(parsed) << holder;
    EXPECT_EQ(parsed->member, "m-0");
}

TEST_F(Defragment, WaitsForEveryMember) {
    boot(3);
    cluster->silent = {2};
    EXPECT_EQ(defragment().error().code, Code::unavailable);
    cluster->silent.clear();
    cluster->not_started = {1};
    EXPECT_NE(defragment().error().message.find("\"m-1\" has not started"), std::string::npos);
    cluster->not_started.clear();
    cluster->leader = 99;
    EXPECT_NE(defragment().error().message.find("no leader"), std::string::npos);
    cluster->leader = 1;
    cluster->alarms = {{1, "CORRUPT"}};
    EXPECT_NE(defragment().error().message.find("CORRUPT"), std::string::npos);
    EXPECT_TRUE(cluster->defragmented.empty());
    EXPECT_FALSE(g_member->defragmentation()) << "nothing was begun, nothing is recorded";
    EXPECT_EQ(turn(), "");
    cluster->alarms = {{1, "NOSPACE"}};
    EXPECT_TRUE(defragment()) << "the way out of NOSPACE";
}

TEST_F(Defragment, AFailureIsRecordedAndTheTurnGivenBack) {
    boot(1);
    cluster->defragment_status = 500;
    EXPECT_FALSE(defragment());
    ASSERT_TRUE(g_member->defragmentation());
    EXPECT_EQ(g_member->defragmentation()->status, api::TaskStatus::failed);
    EXPECT_EQ(g_member->defragmentation()->reason, "EtcdRefused");
    EXPECT_EQ(turn(), "");
    cluster->defragment_rc = CAPSTAN_E_DEADLINE;
    EXPECT_FALSE(defragment());
    EXPECT_EQ(g_member->defragmentation()->reason, "TimedOut");
}

// etcd goes on with it, and another member that begins as well leaves no quorum.
TEST_F(Defragment, ATimeoutKeepsTheTurn) {
    boot(1);
    cluster->defragment_rc = CAPSTAN_E_DEADLINE;
    EXPECT_FALSE(defragment());
    EXPECT_TRUE(turn().starts_with("m-0 ")) << turn();
}

TEST_F(Turn, IsTakenByOneAndEndsByItsTime) {
    boot(3);
    put_turn("m-1 2999-01-01T00:00:00Z");
    const auto refused = defragment();
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Code::conflict);
    EXPECT_NE(refused.error().message.find("\"m-1\""), std::string::npos);
    EXPECT_GT(refused.error().retry_after.count(), 0);
    EXPECT_EQ(turn(), "m-1 2999-01-01T00:00:00Z");
    EXPECT_TRUE(cluster->defragmented.empty());
    put_turn("m-1 2025-12-31T00:00:00Z");
    EXPECT_TRUE(defragment());
    put_turn("damaged");
    EXPECT_TRUE(defragment());
    put_turn("m-0 2999-01-01T00:00:00Z");
    EXPECT_TRUE(defragment()) << "its own, of a steward that was killed";
}

TEST_F(Turn, OfTwoOnlyOneGetsIt) {
    boot(3);
    run([&](Call& call, Member&, Defragmenter&) -> Result<void> {
        EXPECT_TRUE(take_turn(call, kTurnLease, "m-0", 1min));
        EXPECT_EQ(take_turn(call, kTurnLease, "m-1", 1min).error().code, Code::conflict);
        EXPECT_TRUE(give_turn_back(call, kTurnLease, "m-1"));
        EXPECT_EQ(take_turn(call, kTurnLease, "m-1", 1min).error().code, Code::conflict);
        EXPECT_TRUE(give_turn_back(call, kTurnLease, "m-0"));
        EXPECT_TRUE(take_turn(call, kTurnLease, "m-1", 1min));
        return ok();
    });
}

TEST_F(Turn, AStaleLeaseIsReadAgain) {
    boot(1);
    run([&](Call& call, Member&, Defragmenter&) -> Result<void> {
        host.fail_call(2, CAPSTAN_E_CONFLICT);  // the patch: the heartbeat was faster
        EXPECT_TRUE(take_turn(call, kTurnLease, "m-0", 1min));
        host.clear_calls();
        host.fail_call(1, CAPSTAN_E_CONFLICT, true);
        EXPECT_FALSE(take_turn(call, kTurnLease, "m-0", 1min));
        return ok();
    });
}

TEST(TurnHolder, IsWhatItPrints) {
    const TurnHolder holder{"m-1", *parse_rfc3339("2026-01-01T00:17:00Z")};
    EXPECT_EQ(holder.text(), "m-1 2026-01-01T00:17:00Z");
    EXPECT_EQ(TurnHolder::parse(holder.text())->until, holder.until);
    for (const char* damaged : {"", "m-1", " 2026-01-01T00:17:00Z", "m-1 tomorrow"}) {
        EXPECT_FALSE(TurnHolder::parse(damaged)) << damaged;
    }
}

TEST(Alarms, AreReadFromTheGateway) {
    const auto answer = json::parse(
        R"({"alarms":[{"memberID":"10276657743932975437","alarm":"NOSPACE"},{"alarm":"CORRUPT"},{"memberID":"1"}]})");
    const auto alarms = parse_alarms(answer.value());
    ASSERT_TRUE(alarms);
    EXPECT_EQ(alarms.value(),
              (std::vector<EtcdAlarm>{{"8e9e05c52164694d", "NOSPACE"}, {"0", "CORRUPT"}}));
    EXPECT_TRUE(parse_alarms(json::parse("{}").value()).value().empty());
    const auto damaged = json::parse(R"({"alarms":[{"memberID":"x","alarm":"NOSPACE"}]})");
    EXPECT_FALSE(parse_alarms(damaged.value()));
}

TEST(Plan, IsDueOncePerSlotAndFollowsAChange) {
    const WallTime noon = *parse_rfc3339("2026-01-01T12:00:00Z");
    DefragmentationPlan plan;
    plan.follow("", noon);
    EXPECT_FALSE(plan.due(noon + 1000h));
    plan.follow("0 * * * *", noon);
    EXPECT_FALSE(plan.due(noon)) << "what was before is not caught up";
    EXPECT_EQ(plan.due(noon + 61min), noon + 1h);
    EXPECT_EQ(plan.due(noon + 62min), noon + 1h) << "until it is done";
    plan.done();
    EXPECT_FALSE(plan.due(noon + 63min));
    EXPECT_EQ(plan.due(noon + 5h), noon + 5h) << "the newest of those missed";
    plan.follow("30 * * * *", noon + 5h);
    EXPECT_FALSE(plan.due(noon + 5h)) << "another schedule begins anew";
    EXPECT_EQ(plan.next(), noon + 5h + 30min);
    EXPECT_FALSE(plan.due(noon + 5h - 30s));
    EXPECT_EQ(plan.next(), noon + 5h + 30min) << "a clock that is adjusted";
    EXPECT_FALSE(plan.due(noon - 24h));
    EXPECT_EQ(plan.next(), noon - 24h + 30min) << "a clock that was set back";
}

TEST_F(Scheduled, RunsAtItsTimeAndOnce) {
    boot(1);
    cluster->schedule = "0 * * * *";
    cluster->put_objects(host);
    serve(150min, true);
    EXPECT_EQ(cluster->defragmented.size(), 2u);
    EXPECT_EQ(g_member->defragmentation()->reason, "Scheduled");
}

TEST_F(Scheduled, FailuresAreTriedAgainAMinuteLater) {
    boot(1);
    cluster->schedule = "30 * * * *";
    cluster->put_objects(host);
    cluster->defragment_status = 500;
    host.at(host.now() + 32min + 30s, [this] { cluster->defragment_status = 200; });
    serve(59min, true);
    EXPECT_EQ(cluster->defragmented.size(), 4u);
    EXPECT_EQ(g_member->defragmentation()->status, api::TaskStatus::succeeded);
}

TEST_F(Scheduled, TheLeadingMemberComesLast) {
    boot(2);
    cluster->schedule = "30 * * * *";
    cluster->put_objects(host);
    host.at(host.now() + 35min, [this] {
        EXPECT_TRUE(cluster->defragmented.empty());
        put_last(1, "2026-01-01T00:31:00Z", "InProgress");
    });
    host.at(host.now() + 36min, [this] {
        EXPECT_TRUE(cluster->defragmented.empty());
        put_last(1, "2026-01-01T00:31:00Z", "Succeeded");
    });
    serve(40min, true);
    EXPECT_EQ(cluster->defragmented.size(), 1u);
}

TEST_F(Scheduled, AFollowerDoesNotWait) {
    boot(2);
    cluster->leader = 1;
    cluster->schedule = "30 * * * *";
    cluster->put_objects(host);
    serve(31min, false);
    EXPECT_EQ(cluster->defragmented.size(), 1u);
}

TEST_F(Scheduled, TheLeadingMemberWaitsNotForEver) {
    boot(2);
    cluster->schedule = "30 0 * * *";
    cluster->put_objects(host);
    serve(31min + kLeaderPatience, true);
    EXPECT_EQ(cluster->defragmented.size(), 1u);
}

TEST_F(Scheduled, AlarmsAreShownAndForgotten) {
    boot(2);
    cluster->alarms = {{0, "NOSPACE"}};
    host.at(host.now() + 10s, [this] {
        EXPECT_EQ(host.metric("steward_etcd_alarm{NOSPACE}"), 1);
        EXPECT_EQ(host.metric("steward_etcd_alarm{CORRUPT}"), 0);
        EXPECT_EQ(g_member->alarms(), (std::vector<EtcdAlarm>{{"1", "NOSPACE"}}));
        cluster->silent = {0};
        cluster->alarms.clear();
    });
    host.at(host.now() + 70s, [this] {
        EXPECT_EQ(g_member->alarms()->size(), 1u) << "no answer is no news";
        cluster->silent.clear();
    });
    serve(2min, true);
    EXPECT_TRUE(g_member->alarms()->empty());
    EXPECT_EQ(host.metric("steward_etcd_alarm{NOSPACE}"), 0);
}

}  // namespace
}  // namespace capstan::steward
