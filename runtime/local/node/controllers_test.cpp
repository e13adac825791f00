#include "runtime/local/node/job.hpp"
#include "runtime/local/node/objects.hpp"
#include "runtime/local/node/stateful_set.hpp"

#include <gtest/gtest.h>

namespace capstan::local {
namespace {

using namespace std::chrono_literals;

json::Value make_set(std::string_view policy, int replicas, std::string_view image = "a") {
    return {
        {"metadata", {{"name", "m"}, {"namespace", "ns"}, {"uid", "set"}, {"generation", 3}}},
        {"spec",
         {
             {"replicas", replicas},
             {"podManagementPolicy", policy},
             {"serviceName", "m-peer"},
             {"selector", {{"matchLabels", {{"app", "m"}}}}},
             {"template",
              {
                  {"metadata", {{"labels", {{"app", "m"}}}}},
                  {"spec",
                   {
                       {"containers", json::list({{{"name", "c"}, {"image", image}}})},
                       {"volumes",
                        json::list({{{"name", "data"}, {"emptyDir", json::object()}},
                                    {{"name", "run"}, {"emptyDir", json::object()}}})},
                   }},
              }},
             {"volumeClaimTemplates",
              json::list(
                  {{{"metadata", {{"name", "data"}}}, {"spec", {{"volumeMode", "Filesystem"}}}}})},
         }},
    };
}

json::Value make_pod(int ordinal,
                     const std::string& revision,
                     bool ready,
                     std::string_view phase = "Running",
                     bool deleting = false) {
    json::Value pod = {
        {"metadata",
         {
             {"name", "m-" + std::to_string(ordinal)},
             {"namespace", "ns"},
             {"uid", "u" + std::to_string(ordinal)},
             {"labels", {{"controller-revision-hash", revision}}},
         }},
        {"status",
         {{"phase", phase},
          {"conditions", json::list({{{"type", "Ready"}, {"status", ready ? "True" : "False"}}})}}},
    };
    if (deleting) {
        pod["metadata"].set("deletionTimestamp", "2026-01-01T00:00:00Z");
    }
    return pod;
}

struct PodState {
    int ordinal;
    // r: ready, n: not ready, o: old and ready, x: old and not ready, f: failed, d: being deleted
    char state;
};

struct SetRow {
    const char* name;
    const char* policy;
    int replicas;
    std::vector<PodState> pods;
    std::vector<std::string> create;
    std::vector<std::string> remove;
};

class PlanStatefulSet : public testing::TestWithParam<SetRow> {};

TEST_P(PlanStatefulSet, CreatesAndRemovesInOrder) {
    const auto& row = GetParam();
    const auto set = make_set(row.policy, row.replicas);
    const auto revision = template_revision(set);
    std::vector<json::Value> pods;
    for (const auto& pod : row.pods) {
        const bool old = pod.state == 'o' || pod.state == 'x';
        pods.push_back(make_pod(pod.ordinal,
                                old ? "old" : revision,
                                pod.state == 'r' || pod.state == 'o',
                                pod.state == 'f' ? "Failed" : "Running",
                                pod.state == 'd'));
    }
    std::vector<const json::Value*> pointers;
    for (const auto& pod : pods) {
        pointers.push_back(&pod);
    }
    const auto plan = plan_stateful_set(set, pointers);
    std::vector<std::string> create;
    std::vector<std::string> remove;
    for (const auto& pod : plan.pods) {
        create.push_back(key_of(pod).name);
    }
    for (const auto& pod : plan.removals) {
        remove.push_back(pod.name);
    }
    EXPECT_EQ(create, row.create);
    EXPECT_EQ(remove, row.remove);
}

using Names = std::vector<std::string>;
INSTANTIATE_TEST_SUITE_P(
    Rows,
    PlanStatefulSet,
    testing::Values(
        SetRow{"parallel_creates_all", "Parallel", 3, {}, Names{"m-0", "m-1", "m-2"}, Names{}},
        SetRow{"ordered_creates_first", "OrderedReady", 3, {}, Names{"m-0"}, Names{}},
        SetRow{"ordered_waits_for_ready", "OrderedReady", 3, {{0, 'n'}}, Names{}, Names{}},
        SetRow{"ordered_goes_on", "OrderedReady", 3, {{0, 'r'}}, Names{"m-1"}, Names{}},
        SetRow{"gap_is_filled", "Parallel", 3, {{0, 'r'}, {2, 'n'}}, Names{"m-1"}, Names{}},
        SetRow{"deleting_pod_holds_its_name", "Parallel", 1, {{0, 'd'}}, Names{}, Names{}},
        SetRow{"failed_pod_is_replaced", "Parallel", 1, {{0, 'f'}}, Names{}, Names{"m-0"}},
        SetRow{"parallel_scale_down",
               "Parallel",
               1,
               {{0, 'r'}, {1, 'r'}, {2, 'r'}},
               Names{},
               Names{"m-2", "m-1"}},
        SetRow{"ordered_scale_down",
               "OrderedReady",
               1,
               {{0, 'r'}, {1, 'r'}, {2, 'r'}},
               Names{},
               Names{"m-2"}},
        SetRow{"update_from_the_top",
               "Parallel",
               3,
               {{0, 'o'}, {1, 'o'}, {2, 'o'}},
               Names{},
               Names{"m-2"}},
        SetRow{"update_waits_for_ready",
               "Parallel",
               3,
               {{0, 'o'}, {1, 'o'}, {2, 'n'}},
               Names{},
               Names{}},
        SetRow{"update_waits_for_end",
               "Parallel",
               3,
               {{0, 'o'}, {1, 'd'}, {2, 'r'}},
               Names{},
               Names{}},
        SetRow{
            "update_goes_on", "Parallel", 3, {{0, 'o'}, {1, 'o'}, {2, 'r'}}, Names{}, Names{"m-1"}},
        SetRow{"broken_old_pod_is_updated",
               "Parallel",
               2,
               {{0, 'o'}, {1, 'x'}},
               Names{},
               Names{"m-1"}},
        SetRow{"no_update_while_creating", "Parallel", 2, {{0, 'o'}}, Names{"m-1"}, Names{}},
        SetRow{"at_rest", "Parallel", 2, {{0, 'r'}, {1, 'r'}}, Names{}, Names{}},
        SetRow{"scaled_to_zero", "Parallel", 0, {{0, 'r'}}, Names{}, Names{"m-0"}}),
    [](const auto& row) { return row.param.name; });

TEST(StatefulSet, PodHasIdentityLabelsAndClaims) {
    const auto set = make_set("Parallel", 2);
    const auto plan = plan_stateful_set(set, {});
    ASSERT_EQ(plan.pods.size(), 2u);
    const json::View pod(plan.pods[1]);
    EXPECT_EQ(pod["metadata"]["labels"]["statefulset.kubernetes.io/pod-name"].string_or(""), "m-1");
    EXPECT_EQ(pod["metadata"]["labels"]["apps.kubernetes.io/pod-index"].string_or(""), "1");
    EXPECT_EQ(pod["metadata"]["labels"]["controller-revision-hash"].string_or(""),
              template_revision(set));
    EXPECT_EQ(pod["metadata"]["labels"]["app"].string_or(""), "m");
    EXPECT_EQ(pod["spec"]["hostname"].string_or(""), "m-1");
    EXPECT_EQ(pod["spec"]["subdomain"].string_or(""), "m-peer");
    EXPECT_EQ(pod["spec"]["volumes"].array().size(), 2u);
    EXPECT_EQ(pod["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"].string_or(""),
              "data-m-1");
    EXPECT_EQ(controller_uid(plan.pods[1]), "set");
    ASSERT_EQ(plan.claims.size(), 2u);
    EXPECT_EQ(key_of(plan.claims[1]).to_string(), "ns/data-m-1");
    EXPECT_EQ(label_of(plan.claims[1], "app"), "m");
}

TEST(StatefulSet, StatusCountsAndCompletesTheUpdate) {
    auto set = make_set("Parallel", 2);
    const auto revision = template_revision(set);
    set.set("status", {{"currentRevision", "old"}});
    const auto old0 = make_pod(0, "old", true);
    const auto new0 = make_pod(0, revision, true);
    const auto new1 = make_pod(1, revision, true);
    auto status = plan_stateful_set(set, {&old0, &new1}).status;
    EXPECT_EQ(json::View(status)["currentRevision"].string_or(""), "old");
    EXPECT_EQ(json::View(status)["currentReplicas"].int_or(0), 1);
    EXPECT_EQ(json::View(status)["updatedReplicas"].int_or(0), 1);
    EXPECT_EQ(json::View(status)["readyReplicas"].int_or(0), 2);
    EXPECT_EQ(json::View(status)["observedGeneration"].int_or(0), 3);
    status = plan_stateful_set(set, {&new0, &new1}).status;
    EXPECT_EQ(json::View(status)["currentRevision"].string_or(""), revision);
    EXPECT_EQ(json::View(status)["currentReplicas"].int_or(0), 2);
}

TEST(StatefulSet, RevisionIsThatOfTheTemplateAlone) {
    auto more = make_set("Parallel", 5);
    EXPECT_EQ(template_revision(make_set("Parallel", 1)), template_revision(more));
    EXPECT_NE(template_revision(make_set("Parallel", 1, "b")), template_revision(more));
}

TEST(StatefulSet, OnDeleteAndPartitionHoldBack) {
    auto set = make_set("Parallel", 2);
    const auto old0 = make_pod(0, "old", true);
    const auto old1 = make_pod(1, "old", true);
    set["spec"].set("updateStrategy", {{"type", "OnDelete"}});
    EXPECT_TRUE(plan_stateful_set(set, {&old0, &old1}).removals.empty());
    set["spec"].set("updateStrategy",
                    {{"type", "RollingUpdate"}, {"rollingUpdate", {{"partition", 2}}}});
    EXPECT_TRUE(plan_stateful_set(set, {&old0, &old1}).removals.empty());
}

TEST(StatefulSet, LeavesEverythingWhileBeingDeleted) {
    auto set = make_set("Parallel", 2);
    set["metadata"].set("deletionTimestamp", "2026-01-01T00:00:00Z");
    const auto plan = plan_stateful_set(set, {});
    EXPECT_TRUE(plan.pods.empty());
}

TEST(StatefulSet, OrdinalsAreExact) {
    EXPECT_EQ(ordinal_of("m", "m-10"), 10);
    for (const char* name : {"m", "m-", "m-01", "m-x", "m-1x", "n-1", "mm-1"}) {
        EXPECT_EQ(ordinal_of("m", name), std::nullopt) << name;
    }
}

const WallTime kNow = *parse_rfc3339("2026-01-01T01:00:00Z");

json::Value make_job(json::Value spec_more = json::object()) {
    json::Value job = {
        {"metadata", {{"name", "j"}, {"namespace", "ns"}, {"uid", "job"}}},
        {"spec", {{"backoffLimit", 1}, {"template", {{"spec", {{"restartPolicy", "Never"}}}}}}},
        {"status", {{"startTime", "2026-01-01T00:59:00Z"}}},
    };
    for (const auto& [key, value] : *spec_more.if_object()) {
        job["spec"].set(key, value);
    }
    return job;
}

json::Value job_pod(std::string_view phase, std::string_view finished = "2026-01-01T00:59:30Z") {
    return {
        {"metadata", {{"name", "j-x"}, {"uid", "px"}}},
        {"status",
         {{"phase", phase},
          {"containerStatuses",
           json::list({{{"state", {{"terminated", {{"finishedAt", finished}}}}}}})}}},
    };
}

std::string finished_reason(const JobPlan& plan) {
    return std::string(
        json::View(plan.status)["conditions"][std::size_t{0}]["reason"].string_or(""));
}

TEST(Job, RunsOnePodAndCompletes) {
    const auto job = make_job();
    auto plan = plan_job(job, {}, kNow);
    ASSERT_TRUE(plan.pod.has_value());
    EXPECT_EQ(label_of(*plan.pod, "job-name"), "j");
    const auto active = job_pod("Running");
    plan = plan_job(job, {&active}, kNow);
    EXPECT_FALSE(plan.pod.has_value());
    EXPECT_EQ(json::View(plan.status)["active"].int_or(0), 1);
    const auto good = job_pod("Succeeded");
    plan = plan_job(job, {&good}, kNow);
    EXPECT_EQ(finished_reason(plan), "CompletionsReached");
    EXPECT_TRUE(json::View(plan.status)["completionTime"].present());
}

TEST(Job, RetriesAfterTheBackOffUntilItsLimit) {
    const auto recent = job_pod("Failed", "2026-01-01T01:00:00Z");
    auto plan = plan_job(make_job(), {&recent}, kNow);
    EXPECT_FALSE(plan.pod.has_value());
    EXPECT_EQ(plan.wake, kNow + 1s);
    const auto failed = job_pod("Failed");
    plan = plan_job(make_job(), {&failed}, kNow);
    EXPECT_TRUE(plan.pod.has_value());
    plan = plan_job(make_job(), {&failed, &failed}, kNow);
    EXPECT_FALSE(plan.pod.has_value());
    EXPECT_EQ(finished_reason(plan), "BackoffLimitExceeded");
}

std::vector<std::string> conditions_of(const JobPlan& plan) {
    std::vector<std::string> out;
    const json::View conditions = json::View(plan.status)["conditions"];
    for (const json::Value& entry : conditions.array()) {
        const json::View view(entry);
        out.push_back(std::string(view["type"].string_or("")) + "=" +
                      std::string(view["status"].string_or("")));
    }
    return out;
}

TEST(Job, EndsAtItsDeadlineWhenItsPodsHaveEnded) {
    auto active = job_pod("Running");
    auto plan = plan_job(make_job({{"activeDeadlineSeconds", 61}}), {&active}, kNow);
    EXPECT_EQ(plan.wake, kNow + 1s);
    auto job = make_job({{"activeDeadlineSeconds", 60}});
    plan = plan_job(job, {&active}, kNow);
    EXPECT_EQ(finished_reason(plan), "DeadlineExceeded");
    EXPECT_EQ(conditions_of(plan), Names{"FailureTarget=True"});
    ASSERT_EQ(plan.removals.size(), 1u);
    EXPECT_FALSE(json::View(plan.status)["active"].present());
    EXPECT_EQ(json::View(plan.status)["terminating"].int_or(0), 1);

    job.set("status", plan.status);
    active["metadata"].set("deletionTimestamp", "2026-01-01T01:00:00Z");
    plan = plan_job(job, {&active}, kNow + 1s);
    EXPECT_EQ(conditions_of(plan), Names{"FailureTarget=True"});
    EXPECT_TRUE(plan.removals.empty());
    plan = plan_job(job, {}, kNow + 2s);
    EXPECT_EQ(conditions_of(plan), (Names{"FailureTarget=True", "Failed=True"}));
    EXPECT_FALSE(plan.pod.has_value());
    EXPECT_FALSE(json::View(plan.status)["completionTime"].present());
}

TEST(Job, RunsCompletionsOneAfterTheOther) {
    const auto job = make_job({{"completions", 2}});
    const auto good = job_pod("Succeeded");
    auto plan = plan_job(job, {&good}, kNow);
    EXPECT_TRUE(plan.pod.has_value());
    EXPECT_TRUE(conditions_of(plan).empty());
    EXPECT_EQ(json::View(plan.status)["succeeded"].int_or(0), 1);
    plan = plan_job(job, {&good, &good}, kNow);
    EXPECT_EQ(conditions_of(plan), (Names{"SuccessCriteriaMet=True", "Complete=True"}));
    EXPECT_FALSE(plan.pod.has_value());
}

TEST(Job, RunsAsManyPodsAsItsParallelism) {
    const auto job = make_job({{"completions", 5}, {"parallelism", 2}});
    const auto active = job_pod("Running");
    EXPECT_TRUE(plan_job(job, {&active}, kNow).pod.has_value());
    EXPECT_FALSE(plan_job(job, {&active, &active}, kNow).pod.has_value());
    EXPECT_EQ(plan_job(job, {&active, &active, &active}, kNow).removals.size(), 1u);
    const auto good = job_pod("Succeeded");
    EXPECT_FALSE(plan_job(job, {&active, &good, &good, &good, &good}, kNow).pod.has_value());
}

TEST(Job, AFailureBeforeTheLastSuccessDelaysNothing) {
    const auto failed = job_pod("Failed", "2026-01-01T00:59:59Z");
    const auto good = job_pod("Succeeded", "2026-01-01T01:00:00Z");
    const auto job = make_job({{"completions", 3}});
    EXPECT_TRUE(plan_job(job, {&failed, &good}, kNow).pod.has_value());
    const auto again = job_pod("Failed", "2026-01-01T01:00:00Z");
    EXPECT_FALSE(plan_job(job, {&good, &again}, kNow).pod.has_value());
}

TEST(Job, RestartsInsideAPodCountForOnFailure) {
    auto job = make_job({{"backoffLimit", 2}});
    job["spec"]["template"]["spec"].set("restartPolicy", "OnFailure");
    auto pod = job_pod("Running");
    const auto with_restarts = [&](int app, int init) {
        pod["status"].set("containerStatuses", json::list({{{"restartCount", app}}}));
        pod["status"].set("initContainerStatuses", json::list({{{"restartCount", init}}}));
        return plan_job(job, {&pod}, kNow);
    };
    EXPECT_TRUE(conditions_of(with_restarts(1, 0)).empty());
    EXPECT_EQ(finished_reason(with_restarts(1, 1)), "BackoffLimitExceeded");
    job["spec"].set("backoffLimit", 0);
    EXPECT_TRUE(conditions_of(with_restarts(0, 0)).empty());
    EXPECT_EQ(finished_reason(with_restarts(1, 0)), "BackoffLimitExceeded");
}

TEST(Job, PodsThatWereDeletedStayCounted) {
    auto job = make_job({{"backoffLimit", 1}});
    job["status"].set("failed", 2);
    EXPECT_EQ(finished_reason(plan_job(job, {}, kNow)), "BackoffLimitExceeded");
}

TEST(Job, WaitsForAPodThatIsBeingDeletedOnlyWhenAsked) {
    auto deleting = job_pod("Running");
    deleting["metadata"].set("deletionTimestamp", "2026-01-01T01:00:00Z");
    EXPECT_TRUE(plan_job(make_job(), {&deleting}, kNow).pod.has_value());
    EXPECT_FALSE(plan_job(make_job({{"podReplacementPolicy", "Failed"}}), {&deleting}, kNow)
                     .pod.has_value());
}

TEST(Job, IsRemovedAfterItsTimeToLive) {
    auto job = make_job({{"ttlSecondsAfterFinished", 30}});
    job["status"].set("conditions",
                      json::list({{{"type", "Complete"},
                                   {"status", "True"},
                                   {"lastTransitionTime", "2026-01-01T00:59:40Z"}}}));
    EXPECT_EQ(plan_job(job, {}, kNow).wake, kNow + 10s);
    EXPECT_TRUE(plan_job(job, {}, kNow + 10s).remove_job);
    EXPECT_FALSE(plan_job(job, {}, kNow).pod.has_value());
}

TEST(Job, SuspendedRunsNothingAndResumes) {
    const auto active = job_pod("Running");
    auto job = make_job({{"suspend", true}});
    auto plan = plan_job(job, {&active}, kNow);
    EXPECT_EQ(plan.removals.size(), 1u);
    EXPECT_EQ(conditions_of(plan), Names{"Suspended=True"});
    EXPECT_FALSE(json::View(plan.status)["startTime"].present());
    job.set("status", plan.status);
    job["spec"].set("suspend", false);
    plan = plan_job(job, {}, kNow);
    EXPECT_EQ(conditions_of(plan), Names{"Suspended=False"});
    EXPECT_EQ(json::View(plan.status)["startTime"].string_or(""), to_rfc3339(kNow));
    EXPECT_TRUE(plan.pod.has_value());
}

TEST(Job, WhatIsNotSupportedFailsAndSaysSo) {
    for (const json::Value& spec : {json::Value{{"completionMode", "Indexed"}},
                                    json::Value{{"podFailurePolicy", json::object()}},
                                    json::Value{{"managedBy", "example.com/x"}},
                                    json::Value{{"parallelism", 2}}}) {
        const auto plan = plan_job(make_job(spec), {}, kNow);
        EXPECT_EQ(finished_reason(plan), "NotSupported") << json::dump(spec);
        EXPECT_FALSE(plan.pod.has_value());
    }
}

TEST(MergePatch, IsEmptyForEqualObjectsAndNullsWhatIsGone) {
    const json::Value from = {{"a", 1}, {"b", {{"c", 1}, {"d", 2}}}, {"l", json::list({1})}};
    EXPECT_EQ(merge_patch_between(from, from), std::nullopt);
    const json::Value to = {{"b", {{"c", 1}, {"d", 3}}}, {"l", json::list({1, 2})}};
    const json::Value expected = {{"a", nullptr}, {"b", {{"d", 3}}}, {"l", json::list({1, 2})}};
    EXPECT_EQ(merge_patch_between(from, to), expected);
}

}  // namespace
}  // namespace capstan::local
