#include "runtime/local/node/path_map.hpp"
#include "runtime/local/node/pod_fsm.hpp"
#include "runtime/local/node/probe_fsm.hpp"

#include <gtest/gtest.h>

namespace capstan::local {
namespace {

using namespace std::chrono_literals;
constexpr MonotonicTime kNow = 1h;

ContainerFacts never() {
    return {};
}
ContainerFacts running() {
    return {.stage = Stage::running};
}
ContainerFacts ended(bool good, std::chrono::seconds ago = 100s, int failures = 1) {
    return {.stage = Stage::ended, .succeeded = good, .ended_at = kNow - ago, .failures = failures};
}
ContainerFacts init(ContainerFacts facts) {
    facts.init = true;
    return facts;
}
ContainerFacts skipped() {
    return {.init = true, .skipped = true};
}

struct PodRow {
    const char* name;
    RestartPolicy policy;
    std::vector<ContainerFacts> containers;
    Phase phase;
    std::vector<std::size_t> start;
    MonotonicTime wake;
};

class PlanPod : public testing::TestWithParam<PodRow> {};

TEST_P(PlanPod, FollowsTheRestartPolicy) {
    const auto plan = plan_pod(GetParam().policy, GetParam().containers, kNow);
    EXPECT_EQ(plan.phase, GetParam().phase);
    EXPECT_EQ(plan.start, GetParam().start);
    EXPECT_EQ(plan.wake, GetParam().wake);
}

using Ids = std::vector<std::size_t>;
constexpr auto kAlways = RestartPolicy::always;
constexpr auto kOnFailure = RestartPolicy::on_failure;
constexpr auto kNeverAgain = RestartPolicy::never;

INSTANTIATE_TEST_SUITE_P(
    Rows,
    PlanPod,
    testing::Values(
        PodRow{
            "all_start_together", kAlways, {never(), never()}, Phase::pending, Ids{0, 1}, kNever},
        PodRow{"init_first",
               kAlways,
               {init(never()), init(never()), never()},
               Phase::pending,
               Ids{0},
               kNever},
        PodRow{"init_runs", kAlways, {init(running()), never()}, Phase::pending, Ids{}, kNever},
        PodRow{"init_done", kAlways, {init(ended(true)), never()}, Phase::pending, Ids{1}, kNever},
        PodRow{"init_skipped", kAlways, {skipped(), never()}, Phase::pending, Ids{1}, kNever},
        PodRow{"init_failed_again",
               kAlways,
               {init(ended(false)), never()},
               Phase::pending,
               Ids{0},
               kNever},
        PodRow{"init_backs_off",
               kAlways,
               {init(ended(false, 0s)), never()},
               Phase::pending,
               Ids{},
               kNow + 1s},
        PodRow{"init_failed_for_good",
               kNeverAgain,
               {init(ended(false)), never()},
               Phase::failed,
               Ids{},
               kNever},
        PodRow{"adopted_without_init_record",
               kAlways,
               {init(never()), running()},
               Phase::running,
               Ids{},
               kNever},
        PodRow{"success_restarts_when_always",
               kAlways,
               {ended(true), running()},
               Phase::running,
               Ids{0},
               kNever},
        PodRow{"second_failure_waits_2s",
               kAlways,
               {ended(false, 1s, 2)},
               Phase::running,
               Ids{},
               kNow + 1s},
        PodRow{"on_failure_keeps_success",
               kOnFailure,
               {ended(true), running()},
               Phase::running,
               Ids{},
               kNever},
        PodRow{"on_failure_done",
               kOnFailure,
               {ended(true), ended(true)},
               Phase::succeeded,
               Ids{},
               kNever},
        PodRow{"on_failure_retries",
               kOnFailure,
               {ended(true), ended(false)},
               Phase::running,
               Ids{1},
               kNever},
        PodRow{
            "never_failed", kNeverAgain, {ended(true), ended(false)}, Phase::failed, Ids{}, kNever},
        PodRow{"never_waits_for_rest",
               kNeverAgain,
               {ended(false), running()},
               Phase::running,
               Ids{},
               kNever}),
    [](const auto& row) { return row.param.name; });

TEST(RestartDelay, DoublesToItsLimit) {
    EXPECT_EQ(restart_delay(1), 1s);
    EXPECT_EQ(restart_delay(2), 2s);
    EXPECT_EQ(restart_delay(5), 16s);
    EXPECT_EQ(restart_delay(6), 30s);
    EXPECT_EQ(restart_delay(1'000'000), 30s);
}

TEST(Probe, ReadinessTurnsOnAtOnceAndOffAfterTheThreshold) {
    ProbeFsm probe(ProbeKind::readiness, {.period = 2s, .failure_threshold = 3}, kNow);
    EXPECT_FALSE(probe.passed());
    EXPECT_EQ(probe.next_due(), kNow);
    EXPECT_TRUE(probe.record(true, kNow));
    EXPECT_TRUE(probe.passed());
    EXPECT_EQ(probe.next_due(), kNow + 2s);
    EXPECT_FALSE(probe.record(false, kNow + 2s));
    EXPECT_FALSE(probe.record(false, kNow + 4s));
    EXPECT_TRUE(probe.record(false, kNow + 6s));
    EXPECT_FALSE(probe.passed());
    EXPECT_FALSE(probe.fatal());
}

TEST(Probe, SuccessBetweenFailuresStartsTheCountAgain) {
    ProbeFsm probe(ProbeKind::liveness, {.failure_threshold = 2}, kNow);
    probe.record(false, kNow);
    probe.record(true, kNow);
    probe.record(false, kNow);
    EXPECT_TRUE(probe.passed());
    EXPECT_TRUE(probe.record(false, kNow));
    EXPECT_TRUE(probe.fatal());
    EXPECT_EQ(probe.next_due(), kNever);
}

TEST(Probe, IsEagerUntilFirstReadyForAMinute) {
    ProbeFsm probe(ProbeKind::readiness, {.initial_delay = 5s, .period = 10s}, kNow);
    EXPECT_EQ(probe.next_due(), kNow + 5s);
    probe.record(false, kNow + 5s);
    EXPECT_EQ(probe.next_due(), kNow + 5s + kEagerPeriod);
    probe.record(false, kNow + 60s);
    EXPECT_EQ(probe.next_due(), kNow + 70s);
}

TEST(Probe, StartupEndsWithItsFirstSuccess) {
    ProbeFsm probe(ProbeKind::startup, {.failure_threshold = 2}, kNow);
    EXPECT_FALSE(probe.record(false, kNow));
    EXPECT_TRUE(probe.record(true, kNow));
    EXPECT_EQ(probe.next_due(), kNever);
}

TEST(Probe, DefaultsAndMinimumsAreTheApis) {
    const json::Value value = {{"periodSeconds", 0}, {"failureThreshold", -4}};
    const auto spec = probe_spec_from(json::View(value));
    EXPECT_EQ(spec.period, 1s);
    EXPECT_EQ(spec.failure_threshold, 1);
    EXPECT_EQ(spec.timeout, 1s);
}

struct PathRow {
    const char* name;
    const char* text;
    const char* expected;
};

class PathMapRows : public testing::TestWithParam<PathRow> {};

TEST_P(PathMapRows, ReplacesWholePathsOnly) {
    PathMap map;
    map.add("/var/etcd", "/e");
    map.add("/var/etcd/data/", "/d");
    map.add("/", "/everything");
    EXPECT_EQ(map.apply(GetParam().text), GetParam().expected);
}

INSTANTIATE_TEST_SUITE_P(
    Rows,
    PathMapRows,
    testing::Values(PathRow{"whole", "/var/etcd/data", "/d"},
                    PathRow{"below", "/var/etcd/data/new.etcd", "/d/new.etcd"},
                    PathRow{"shorter_mount", "/var/etcd/config", "/e/config"},
                    PathRow{"flag", "--data-dir=/var/etcd/data/x", "--data-dir=/d/x"},
                    PathRow{"two", "/var/etcd:/var/etcd/data", "/e:/d"},
                    PathRow{"file_url", "file:///var/etcd/data", "file:///d"},
                    PathRow{"longer_name", "/var/etcd/database", "/e/database"},
                    PathRow{"other_root", "/var/etcdctl", "/var/etcdctl"},
                    PathRow{"inside_a_path", "/srv/var/etcd/data", "/srv/var/etcd/data"},
                    PathRow{"http_path", "http://h/var/etcd/data", "http://h/var/etcd/data"},
                    PathRow{"plain", "nothing here", "nothing here"}),
    [](const auto& row) { return row.param.name; });

class ReplaceHostRows : public testing::TestWithParam<PathRow> {};

TEST_P(ReplaceHostRows, ReplacesHostsNotNames) {
    EXPECT_EQ(replace_host(GetParam().text, "m-local", "127.77.0.2"), GetParam().expected);
}

INSTANTIATE_TEST_SUITE_P(
    Rows,
    ReplaceHostRows,
    testing::Values(PathRow{"url", "--s=http://m-local:8080/x", "--s=http://127.77.0.2:8080/x"},
                    PathRow{"url_no_port", "https://m-local", "https://127.77.0.2"},
                    PathRow{"host_port", "--p=m-local:8080", "--p=127.77.0.2:8080"},
                    PathRow{"certificate_name", "--name=m-local", "--name=m-local"},
                    PathRow{"longer", "http://em-local:1", "http://em-local:1"},
                    PathRow{"dotted", "http://m-local.x:1", "http://m-local.x:1"},
                    PathRow{"twice", "m-local:1,m-local:2", "127.77.0.2:1,127.77.0.2:2"}),
    [](const auto& row) { return row.param.name; });

}  // namespace
}  // namespace capstan::local
