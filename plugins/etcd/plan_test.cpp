#include "plugins/etcd/plan.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace capstan::etcd {
namespace {

const WallTime kNow = *parse_rfc3339("2026-01-01T12:00:00Z");

// Not SHA-256: equal texts give equal hashes, which is all a plan needs.
Result<std::string> fake_hash(const void*, std::string_view text) {
    return "h" + std::to_string(std::hash<std::string_view>{}(text));
}

World world_of(std::int32_t replicas) {
    World world;
    world.etcd.metadata.name = "main";
    world.etcd.metadata.ns = "shop";
    world.etcd.metadata.uid = "etcd-uid";
    world.etcd.metadata.generation = 1;
    world.etcd.metadata.resource_version = "7";
    world.etcd.spec.replicas = replicas;
    world.etcd.spec.labels = {{"app", "main"}};
    world.member_gate = true;
    world.now = kNow;
    world.sha256 = fake_hash;
    return world;
}

Plan plan_of(const World& world, const Settings& settings = {}) {
    auto plan = make_plan(world, settings);
    EXPECT_TRUE(plan) << plan.error().message;
    return plan ? plan.value() : Plan{};
}

// "apply StatefulSet main" and so on, in order.
std::vector<std::string> names(const std::vector<Step>& steps) {
    static constexpr std::string_view kVerbs[] = {
        "apply", "create", "remove", "patch", "token", "remove before"};
    std::vector<std::string> out;
    for (const Step& step : steps) {
        out.push_back(std::string(kVerbs[static_cast<std::size_t>(step.kind)]) + " " +
                      step.gvk.kind + " " + step.key.name);
    }
    return out;
}

bool has(const std::vector<Step>& steps, const std::string& name) {
    const auto all = names(steps);
    return std::find(all.begin(), all.end(), name) != all.end();
}

const Step& step(const std::vector<Step>& steps, const std::string& name) {
    const auto all = names(steps);
    const auto found = std::find(all.begin(), all.end(), name);
    EXPECT_NE(found, all.end()) << name;
    return steps[found == all.end() ? 0 : static_cast<std::size_t>(found - all.begin())];
}

// The world after the plan was carried out: status, finalizer, members, StatefulSet.
void carry_out(World& world, const Plan& plan) {
    if (plan.report) {
        const json::Value wanted = wanted_status(world.etcd, *plan.report, world.now, "run");
        api::EtcdStatus status;
        auto decoded = api::decode(json::View(wanted), status);
        ASSERT_TRUE(decoded) << decoded.error().message;
        world.etcd.status = status;
    }
    for (const Step& done : plan.steps) {
        if (done.code == "FINALIZER") {
            world.etcd.metadata.finalizers = {std::string(kFinalizer)};
        } else if (done.gvk.kind == "ConfigMap") {
            const auto text = json::View(done.object)["data"]["steward.yaml"].string_or("");
            const auto steward = json::parse(text);
            world.api_token_named = steward.value().find("apiTokenSecret") != nullptr;
        } else if (done.gvk.kind == "StatefulSet") {
            world.set_replicas =
                static_cast<std::int32_t>(json::View(done.object)["spec"]["replicas"].int_or(-1));
        } else if (done.gvk.kind == "EtcdMember") {
            auto found =
                std::find_if(world.members.begin(), world.members.end(), [&](const auto& member) {
                    return member.metadata.name == done.key.name;
                });
            if (done.kind == Step::Kind::remove) {
                world.members.erase(found);
                continue;
            }
            api::EtcdMember member;
            ASSERT_TRUE(api::decode(json::View(done.object), member));
            if (found == world.members.end()) {
                world.members.push_back(member);
            } else {
                for (const auto& [key, value] : member.metadata.annotations) {
                    found->metadata.annotations[key] = value;
                }
            }
        }
    }
}

// Every member started and running with what it was told; the first one leads.
void settle(World& world) {
    for (api::EtcdMember& member : world.members) {
        api::EtcdMemberStatus status;
        api::Transition transition;
        transition.state = api::MemberState::started;
        transition.sub_state = &member == &world.members.front() ? api::MemberSubState::leader
                                                                 : api::MemberSubState::follower;
        status.transitions.push_back(transition);
        status.config_hash = member.metadata.annotations[std::string(kAnnotationConfigHash)];
        member.status = status;
    }
}

TEST(EtcdPlan, MakesEveryChildOfANewEtcdInOrder) {
    const Plan plan = plan_of(world_of(1));
    const std::vector<std::string> want = {
        "patch Etcd main",
        "apply ServiceAccount main",
        "apply Role druid.gardener.cloud:etcd:main",
        "apply RoleBinding druid.gardener.cloud:etcd:main",
        "apply Lease main-0",
        "apply EtcdMember main-0",
        "apply PodDisruptionBudget main",
        "apply Service main-client",
        "apply Service main-peer",
        "token Secret main-api-token",
        "apply ConfigMap main-config",
        "apply StatefulSet main",
    };
    EXPECT_EQ(names(plan.steps), want);
    EXPECT_EQ(plan.report->state, "Succeeded");
}

TEST(EtcdPlan, AnUnchangedEtcdGivesTheSameStatusAndOnlyApplies) {
    World world = world_of(3);
    carry_out(world, plan_of(world));
    settle(world);
    world.now += std::chrono::hours{1};
    const Plan again = plan_of(world);
    EXPECT_EQ(wanted_status(world.etcd, *again.report, world.now, "other-run"),
              owned_status(world.etcd));
    EXPECT_TRUE(std::all_of(again.steps.begin(), again.steps.end(), [](const Step& one) {
        return one.kind == Step::Kind::apply;
    }));
    EXPECT_TRUE(again.last.empty());
    EXPECT_FALSE(again.again);
}

TEST(EtcdPlan, WaitsForTheMembersOfAnEtcdBeforeToBeGone) {
    World world = world_of(1);
    world.members_before = {{"shop", "main-0"}, {"shop", "main-7"}};
    const Plan plan = plan_of(world);
    EXPECT_EQ(names(plan.steps),
              (std::vector<std::string>{"remove before EtcdMember main-0",
                                        "remove before EtcdMember main-7"}));
    EXPECT_EQ(plan.report->state, "Processing");
    EXPECT_FALSE(plan.report->observed_generation) << "nothing of the spec is done yet";
    EXPECT_EQ(plan.again, kLookAgain);
}

TEST(EtcdPlan, MakesTheTokenOfTheStewardsOnlyWhenItMayBeMissing) {
    World world = world_of(3);
    const std::string token = "token Secret main-api-token";
    carry_out(world, plan_of(world));
    settle(world);
    EXPECT_FALSE(has(plan_of(world).steps, token));
    world.api_token_named = false;
    EXPECT_TRUE(has(plan_of(world).steps, token)) << "a crash before the ConfigMap";
    world.api_token_named = true;
    world.etcd.metadata.generation = 2;
    EXPECT_TRUE(has(plan_of(world).steps, token)) << "a new spec";
    carry_out(world, plan_of(world));
    world.etcd.metadata.annotations[std::string(kAnnotationOperation)] = "reconcile";
    EXPECT_TRUE(has(plan_of(world).steps, token)) << "a person asks";
    auto& tls = world.etcd.spec.backup.tls.emplace();
    tls.tls_ca_secret_ref.name = "ca";
    tls.server_tls_secret_ref.name = "server";
    tls.client_tls_secret_ref = api::SecretReference{"client", {}};
    world.api_token_named = false;
    EXPECT_FALSE(has(plan_of(world).steps, token)) << "with TLS nobody needs it";
}

struct RefusedRow {
    const char* name;
    void (*change)(World&);
    const char* reason;
    const char* code;
};

class Refused : public testing::TestWithParam<RefusedRow> {};

TEST_P(Refused, AppliesNothingAndSaysWhy) {
    World world = world_of(3);
    GetParam().change(world);
    const Plan plan = plan_of(world);
    EXPECT_TRUE(plan.steps.empty());
    ASSERT_TRUE(plan.report);
    EXPECT_EQ(plan.report->state, "Error");
    ASSERT_TRUE(plan.report->refused);
    EXPECT_EQ(plan.report->refused->reason, GetParam().reason);
    ASSERT_EQ(plan.report->problems.size(), 1u);
    EXPECT_EQ(plan.report->problems[0].code, GetParam().code);
    EXPECT_EQ(plan.event_reason, GetParam().reason);
    carry_out(world, plan);
    EXPECT_TRUE(plan_of(world).event_reason.empty());  // said once
}

INSTANTIATE_TEST_SUITE_P(
    Rows,
    Refused,
    testing::Values(
        RefusedRow{"gate_off",
                   [](World& w) { w.member_gate = false; },
                   "GateDisabled",
                   "ERR_SPEC_NOT_SUPPORTED"},
        RefusedRow{"client_tls",
                   [](World& w) { w.etcd.spec.etcd.client_url_tls.emplace(); },
                   "TLSIncomplete",
                   "ERR_SPEC_NOT_SUPPORTED"},
        RefusedRow{"peer_tls",
                   [](World& w) { w.etcd.spec.etcd.peer_url_tls.emplace(); },
                   "TLSIncomplete",
                   "ERR_SPEC_NOT_SUPPORTED"},
        RefusedRow{"peer_tls_of_a_running_cluster",
                   [](World& w) {
                       auto& peer = w.etcd.spec.etcd.peer_url_tls.emplace();
                       peer.tls_ca_secret_ref.name = "ca";
                       peer.server_tls_secret_ref.name = "server";
                       w.members.emplace_back().status.emplace().peer_tls_enabled = false;
                   },
                   "PeerTLSChangeNotSupported",
                   "ERR_SPEC_NOT_SUPPORTED"},
        RefusedRow{"backup_tls",
                   [](World& w) { w.etcd.spec.backup.tls.emplace(); },
                   "TLSIncomplete",
                   "ERR_SPEC_NOT_SUPPORTED"},
        RefusedRow{"backup_tls_without_a_client_pair",
                   [](World& w) {
                       auto& tls = w.etcd.spec.backup.tls.emplace();
                       tls.tls_ca_secret_ref.name = "ca";
                       tls.server_tls_secret_ref.name = "server";
                   },
                   "TLSIncomplete",
                   "ERR_SPEC_NOT_SUPPORTED"},
        RefusedRow{"backup_store_of_another_provider",
                   [](World& w) { w.etcd.spec.backup.store.emplace().provider = "gcp"; },
                   "BackupsNotSupported",
                   "ERR_SPEC_NOT_SUPPORTED"},
        RefusedRow{"backup_store_without_a_container",
                   [](World& w) { w.etcd.spec.backup.store.emplace().provider = "Local"; },
                   "StoreIncomplete",
                   "ERR_SPEC_NOT_SUPPORTED"},
        RefusedRow{"wrapper_image",
                   [](World& w) {
                       w.etcd.spec.etcd.image = "europe.pkg.dev/gardener/etcd-wrapper:v0.6.2";
                   },
                   "ImageNotUsable",
                   "ERR_SPEC_NOT_SUPPORTED"},
        RefusedRow{"sidecar_image",
                   [](World& w) { w.etcd.spec.backup.image = "x/etcdbrctl@sha256:00"; },
                   "ImageNotUsable",
                   "ERR_SPEC_NOT_SUPPORTED"},
        RefusedRow{"negative_replicas",
                   [](World& w) { w.etcd.spec.replicas = -1; },
                   "SpecInvalid",
                   "ERR_SPEC_INVALID"},
        RefusedRow{"too_many_replicas",
                   [](World& w) { w.etcd.spec.replicas = 11; },
                   "SpecInvalid",
                   "ERR_SPEC_INVALID"},
        RefusedRow{
            "huge_memory_limit",
            [](World& w) {
                w.etcd.spec.backup.delta_snapshot_memory_limit = api::IntOrString{"9Ei", false};
            },
            "SpecInvalid",
            "ERR_SPEC_INVALID"},
        RefusedRow{"huge_quota",
                   [](World& w) {
                       w.etcd.spec.etcd.quota = api::IntOrString{"9Ei", false};
                   },
                   "SpecInvalid",
                   "ERR_SPEC_INVALID"}),
    [](const auto& row) { return row.param.name; });

TEST(EtcdPlan, ARefusalKeepsWhatTheStatusSaid) {
    World world = world_of(1);
    carry_out(world, plan_of(world));
    world.etcd.metadata.generation = 2;
    world.etcd.spec.etcd.client_url_tls.emplace();
    carry_out(world, plan_of(world));
    EXPECT_EQ(world.etcd.status->observed_generation, 1);
    EXPECT_EQ(world.etcd.status->etcd->name, "main");
    world.etcd.spec.etcd.client_url_tls.reset();
    carry_out(world, plan_of(world));
    EXPECT_TRUE(world.etcd.status->conditions.empty());
    EXPECT_TRUE(world.etcd.status->last_errors.empty());
    EXPECT_EQ(world.etcd.status->observed_generation, 2);
}

TEST(EtcdPlan, AddedMembersArePostedAsLearnersOnce) {
    World world = world_of(1);
    carry_out(world, plan_of(world));
    settle(world);
    world.etcd.spec.replicas = 3;
    world.etcd.metadata.generation = 2;
    const Plan grow = plan_of(world);
    EXPECT_FALSE(has(grow.steps, "create EtcdMember main-0"));
    const Step& posted = step(grow.steps, "create EtcdMember main-1");
    EXPECT_EQ(
        json::View(posted.object)["metadata"]["annotations"][kAnnotationCreateAsLearner].string_or(
            ""),
        "true");
    const Step& applied = step(grow.steps, "apply EtcdMember main-1");
    EXPECT_FALSE(json::View(applied.object)["metadata"]["annotations"][kAnnotationCreateAsLearner]
                     .present());
    const auto all = names(grow.steps);
    EXPECT_LT(std::find(all.begin(), all.end(), "create EtcdMember main-1"),
              std::find(all.begin(), all.end(), "apply StatefulSet main"));
    carry_out(world, grow);
    EXPECT_FALSE(has(plan_of(world).steps, "create EtcdMember main-1"));
}

TEST(EtcdPlan, ANewOrWokenClusterHasNoLearners) {
    World world = world_of(3);
    EXPECT_FALSE(has(plan_of(world).steps, "create EtcdMember main-1"));
    world.set_replicas = 0;  // hibernated
    EXPECT_FALSE(has(plan_of(world).steps, "create EtcdMember main-1"));
}

TEST(EtcdPlan, HibernationRemovesTheMembersAfterThePods) {
    World world = world_of(3);
    carry_out(world, plan_of(world));
    world.etcd.spec.replicas = 0;
    const Plan plan = plan_of(world);
    const auto all = names(plan.steps);
    EXPECT_LT(std::find(all.begin(), all.end(), "apply StatefulSet main"),
              std::find(all.begin(), all.end(), "remove EtcdMember main-0"));
    EXPECT_TRUE(has(plan.steps, "remove EtcdMember main-2"));
    EXPECT_EQ(
        json::View(step(plan.steps, "apply StatefulSet main").object)["spec"]["replicas"].int_or(
            -1),
        0);
    EXPECT_EQ(plan.report->state, "Succeeded");
}

TEST(EtcdPlan, SuspendedChangesNothing) {
    World world = world_of(3);
    world.etcd.metadata.annotations[std::string(kAnnotationSuspend)] = "";
    const Plan plan = plan_of(world);
    EXPECT_TRUE(plan.steps.empty());
    EXPECT_FALSE(plan.report);
    EXPECT_EQ(plan.event_reason, "SpecReconciliationSkipped");
}

TEST(EtcdPlan, WithoutAutoReconcileOnlyTheAnnotationStartsAPass) {
    Settings settings;
    settings.auto_reconcile = false;
    World world = world_of(1);
    carry_out(world, plan_of(world, settings));  // never reconciled: done at once
    world.etcd.metadata.generation = 2;
    EXPECT_TRUE(plan_of(world, settings).steps.empty());
    world.etcd.metadata.annotations[std::string(kAnnotationOperation)] = "reconcile";
    const Plan asked = plan_of(world, settings);
    EXPECT_FALSE(asked.steps.empty());
    ASSERT_EQ(asked.last.size(), 1u);
    EXPECT_EQ(
        json::dump(asked.last[0].object),
        R"([{"op":"test","path":"/metadata/annotations/druid.gardener.cloud~1operation","value":"reconcile"},)"
        R"({"op":"remove","path":"/metadata/annotations/druid.gardener.cloud~1operation"}])");
}

TEST(EtcdPlan, DeletionTakesTheStatefulSetFirstAndTheFinalizerLast) {
    World world = world_of(1);
    world.etcd.metadata.deletion_timestamp = "2026-01-01T11:59:00Z";
    world.etcd.metadata.finalizers = {"other/one", std::string(kFinalizer)};
    const Child set{{"apps", "v1", "StatefulSet"}, {"shop", "main"}};
    const Child lease{{"coordination.k8s.io", "v1", "Lease"}, {"shop", "main-0"}};
    const Child member{{"druid.gardener.cloud", "v1alpha1", "EtcdMember"}, {"shop", "main-0"}};

    world.children = {set, lease, member};
    Plan plan = plan_of(world);
    EXPECT_EQ(names(plan.steps), std::vector<std::string>{"remove StatefulSet main"});
    EXPECT_EQ(plan.report->type, "Delete");
    EXPECT_TRUE(plan.again);

    world.children = {lease, member};
    plan = plan_of(world);
    EXPECT_EQ(names(plan.steps),
              (std::vector<std::string>{"remove Lease main-0", "remove EtcdMember main-0"}));
    EXPECT_TRUE(plan.last.empty());

    world.children.clear();
    plan = plan_of(world);
    EXPECT_TRUE(plan.steps.empty());
    ASSERT_EQ(names(plan.last).front(), "remove Secret main-api-token");
    ASSERT_EQ(plan.last.size(), 2u);
    EXPECT_EQ(
        json::dump(plan.last[1].object),
        R"([{"op":"test","path":"/metadata/finalizers/1","value":"druid.gardener.cloud/etcd-druid"},)"
        R"({"op":"remove","path":"/metadata/finalizers/1"}])");

    world.etcd.metadata.finalizers = {"other/one"};
    plan = plan_of(world);
    EXPECT_TRUE(plan.steps.empty() && plan.last.empty() && !plan.report);
}

TEST(EtcdPlan, DeletionGoesOnWhileSuspendedAndWithTheGateOff) {
    World world = world_of(1);
    world.member_gate = false;
    world.etcd.metadata.annotations[std::string(kAnnotationSuspend)] = "";
    world.etcd.metadata.deletion_timestamp = "2026-01-01T11:59:00Z";
    world.etcd.metadata.finalizers = {std::string(kFinalizer)};
    EXPECT_EQ(plan_of(world).last.size(), 2u) << "the token, then the finalizer";
}

TEST(EtcdPlan, ANewConfigurationReachesOneMemberAfterTheOther) {
    World world = world_of(3);
    carry_out(world, plan_of(world));
    settle(world);
    const std::string old_hash =
        world.members[0].metadata.annotations[std::string(kAnnotationConfigHash)];
    world.etcd.spec.etcd.snapshot_count = 5;
    world.etcd.metadata.generation = 2;
    std::vector<std::string> order;
    for (int pass = 0; pass < 10; ++pass) {
        std::vector<std::string> before;
        for (const auto& member : world.members) {
            before.push_back(member.metadata.annotations.at(std::string(kAnnotationConfigHash)));
        }
        const Plan plan = plan_of(world);
        carry_out(world, plan);
        for (std::size_t i = 0; i < before.size(); ++i) {
            if (world.members[i].metadata.annotations.at(std::string(kAnnotationConfigHash)) !=
                before[i]) {
                order.push_back(world.members[i].metadata.name);
            }
        }
        const Plan waiting = plan_of(world);  // nobody has restarted yet: nobody else is told
        EXPECT_EQ(waiting.report->state == "Processing", plan.report->state == "Processing");
        settle(world);
    }
    EXPECT_EQ(order, (std::vector<std::string>{"main-1", "main-2", "main-0"}));  // the leader last
    EXPECT_EQ(plan_of(world).report->state, "Succeeded");
    EXPECT_NE(world.members[0].metadata.annotations[std::string(kAnnotationConfigHash)], old_hash);
}

}  // namespace
}  // namespace capstan::etcd
