// What users of other runtimes have met, one test a kind of fault, on a whole runtime in virtual
// time. The table in docs/testing.md says which kind is where.
#include "runtime/queue/work_queue.hpp"
#include "test/sim/demo.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <utility>

namespace capstan::test {
namespace {

using namespace std::chrono_literals;

constexpr int kChildren = 13;  // as many as a cluster of three has

json::Value child(const Request& request, const json::View& owner, int number) {
    const json::Value reference = {{"apiVersion", "v1"},
                                   {"kind", "ConfigMap"},
                                   {"name", request.key.name},
                                   {"uid", owner["metadata"]["uid"].string_or("")},
                                   {"controller", true}};
    return {
        {"apiVersion", "v1"},
        {"kind", "Secret"},
        {"metadata",
         {
             {"name", request.key.name + "-" + std::to_string(number)},
             {"namespace", request.key.ns},
             {"ownerReferences", json::list({reference})},
         }},
        {"type", "Opaque"},
    };
}

// Creates what its cache does not show, one after the other, as naive controllers do.
Outcome create_missing_children(Call& call, const Request& request) {
    auto owner = call.cache().get_value("ConfigMap", request.key);
    if (!owner) {
        return Outcome::done();
    }
    for (int i = 0; i < kChildren; ++i) {
        const json::Value wanted = child(request, json::View(owner.value()), i);
        const ObjectKey key{request.key.ns, request.key.name + "-" + std::to_string(i)};
        if (call.cache().get("Secret", key)) {
            continue;
        }
        if (auto created = call.client().create("v1/Secret", wanted); !created) {
            return Outcome::failed(created.error());
        }
    }
    return Outcome::done();
}

// Runs create_missing_children on a world with late watches while the owner changes every second.
// `posts`: creations the server saw; `before_post` runs before each.
void create_while_the_watch_lags(World& world,
                                 int& posts,
                                 const std::function<void()>& before_post = {}) {
    TestPlugin plugin;
    plugin.controllers["main"] = create_missing_children;
    world.faults = [&posts, before_post](const net::HttpRequest& request) {
        if (request.method == "POST" &&
            request.target.find("/namespaces/ns/secrets") != std::string::npos) {
            ++posts;
            if (before_post) {
                before_post();
            }
        }
        return Fault{};
    };
    world.add(plugin);
    world.boot();
    ASSERT_TRUE(world.run_until([&] { return world.health->is_ready(); }));
    for (int change = 0; change < 12; ++change) {
        world.put_config_map("a", std::to_string(change));
        world.run_for(1s);
    }
    ASSERT_TRUE(world.settle(30s));
}

std::string errors_of(World& world) {
    return world.metric(
        "controller_runtime_reconcile_total{controller=\"demo/main\",result=\"error\"}");
}

// Kind: read-your-writes (controller-runtime#1464, cluster-api#13725).
class ReadYourWrites : public ::testing::TestWithParam<std::chrono::seconds> {};

TEST_P(ReadYourWrites, EachChildIsCreatedOnceWhileWatchesAreLate) {
    int posts = 0;
    World world({.watch_delay = GetParam()});
    const ShutDownFirst end(world);
    create_while_the_watch_lags(world, posts);
    EXPECT_EQ(world.list("/api/v1/namespaces/ns/secrets").size(),
              static_cast<std::size_t>(kChildren));
    EXPECT_EQ(posts, kChildren);
    EXPECT_EQ(errors_of(world), "0");
}

// 20 s is longer than a key is held back for its own writes.
INSTANTIATE_TEST_SUITE_P(Delays, ReadYourWrites, ::testing::Values(5s, 20s), [](const auto& row) {
    return "Of" + std::to_string(row.param.count()) + "Seconds";
});

// Somebody else's object that the cache does not show yet: 409 is no error, the next look knows.
TEST(AlreadyExists, AnAttemptOnAnObjectNotYetSeenIsAConflictAndNoError) {
    int posts = 0;
    World world({.watch_delay = 20s});
    const ShutDownFirst end(world);
    bool made = false;
    create_while_the_watch_lags(world, posts, [&] {
        if (!std::exchange(made, true)) {
            world.api.ask("POST",
                          "/api/v1/namespaces/ns/secrets",
                          R"({"apiVersion":"v1","kind":"Secret","metadata":{"name":"a-3"}})");
        }
    });
    EXPECT_EQ(world.list("/api/v1/namespaces/ns/secrets").size(),
              static_cast<std::size_t>(kChildren));
    EXPECT_GE(posts, kChildren) << "the case is no case";
    EXPECT_EQ(errors_of(world), "0");
    EXPECT_FALSE(world.log.contains({"reconcile failed"}));
}

struct Attempt {
    MonotonicTime at{0};
    bool failed{false};
};

std::vector<std::chrono::nanoseconds> pauses(const std::vector<Attempt>& attempts) {
    std::vector<std::chrono::nanoseconds> result;
    for (std::size_t i = 1; i < attempts.size(); ++i) {
        result.push_back(attempts[i].at - attempts[i - 1].at);
    }
    return result;
}

// Jitter is a fifth to both sides; the rest is for the run itself.
void expect_about(std::chrono::nanoseconds seen, std::chrono::nanoseconds wanted, std::size_t row) {
    EXPECT_GE(seen, wanted * 8 / 10) << "failure " << row;
    EXPECT_LE(seen, wanted * 12 / 10 + 10ms) << "failure " << row;
}

// Kind: shared or inflated limiter (controller-runtime#392, #631, #808).
TEST(Backoff, DoublesFromFiveMillisecondsToTheCapAndStartsAnewAfterASuccess) {
    World world;
    std::vector<Attempt> attempts;
    constexpr std::size_t kFailures = 21;  // the last three at the cap
    TestPlugin plugin;
    plugin.controllers["main"] = [&](Call& call, const Request&) {
        const bool failed = attempts.size() != kFailures;
        attempts.push_back({call.now(), failed});
        return failed ? Outcome::failed(Error{Code::unavailable, "no", {}}) : Outcome::after(1h);
    };
    const ShutDownFirst end(world);
    world.add(plugin);
    world.boot();
    world.put_config_map("bad", "1");
    ASSERT_TRUE(world.run_until([&] { return attempts.size() == kFailures + 3; }, 24h));
    const auto waited = pauses(attempts);
    for (std::size_t i = 0; i < kFailures; ++i) {
        const auto doubled = queue::kBackoffFirst * (std::int64_t{1} << i);
        expect_about(waited[i], std::min<std::chrono::nanoseconds>(doubled, queue::kBackoffMax), i);
    }
    EXPECT_GE(waited[kFailures], 1h) << "a planned run keeps its own time";
    expect_about(waited[kFailures + 1], queue::kBackoffFirst, kFailures + 1);
}

// The delay from a change to its reconcile, of 99 healthy keys, sorted.
std::vector<std::chrono::nanoseconds> healthy_delays(bool with_a_failing_key) {
    World world({.seed = 11});
    std::map<std::string, MonotonicTime> changed;
    std::vector<std::chrono::nanoseconds> delays;
    TestPlugin plugin;
    plugin.controllers["main"] = [&](Call& call, const Request& request) {
        if (request.key.name == "bad") {
            return Outcome::failed(Error{Code::unavailable, "no", {}});
        }
        if (changed.contains(request.key.name)) {
            delays.push_back(call.now() - changed[request.key.name]);
        }
        return Outcome::done();
    };
    const ShutDownFirst end(world);
    world.add(plugin);
    world.boot();
    EXPECT_TRUE(world.run_until([&] { return world.health->is_ready(); }));
    if (with_a_failing_key) {
        world.put_config_map("bad", "1");
    }
    for (int round = 0; round < 3; ++round) {
        for (int i = 0; i < 99; ++i) {
            const std::string name = "good-" + std::to_string(i);
            changed[name] = world.loop.now();
            world.put_config_map(name, std::to_string(round));
            world.run_for(10ms);
        }
    }
    world.run_for(5s);
    std::sort(delays.begin(), delays.end());
    return delays;
}

TEST(Backoff, AKeyThatFailsAlwaysDoesNotSlowNinetyNineHealthyOnes) {
    const auto alone = healthy_delays(false);
    const auto beside = healthy_delays(true);
    ASSERT_EQ(alone.size(), 297u);
    ASSERT_EQ(beside.size(), 297u);
    const std::size_t p95 = alone.size() * 95 / 100;
    EXPECT_LE(beside[p95], alone[p95] + 1ms);
    EXPECT_LE(beside.back(), alone.back() + 2ms);
}

// A manifest whose one controller watches `gvk`.
std::string watching(const std::string& id,
                     const std::string& gvk,
                     const std::string& group,
                     const std::string& resource) {
    return manifest_json(
        id,
        {
            {"controllers",
             json::list({{{"name", "main"},
                          {"watches",
                           json::list({{{"gvk", gvk}, {"role", "for"}, {"predicate", true}}})}}})},
            {"permissions",
             json::list({{{"groups", json::list({group})},
                          {"resources", json::list({resource})},
                          {"verbs", json::list({"get", "list", "watch"})}}})},
        });
}

std::string reasons(World& world) {
    return testing::PrintToString(world.health->reasons());
}

// Kind: all-or-nothing sync (controller-runtime#1219, #1653; kubeswift#463). The verb named is the
// one that was refused: streamed lists are authorised as watches.
class ForbiddenList : public ::testing::TestWithParam<bool> {};

TEST_P(ForbiddenList, NamesVerbAndResourceAndStopsOnlyItsPlugin) {
    const bool streaming = GetParam();  // false: a server without streamed lists
    DemoRecord record;
    World world;
    bool allowed = false;
    world.faults = [&](const net::HttpRequest& request) {
        Fault fault;
        const bool streamed = request.target.find("sendInitialEvents") != std::string::npos;
        if (streamed && !streaming) {
            fault.status = 422;
        } else if (request.target.find("/jobs") != std::string::npos && !allowed) {
            fault.status = 403;
        }
        return fault;
    };
    TestPlugin compaction;
    compaction.id = "compaction.example.io";
    compaction.manifest_json = watching(compaction.id, "batch/v1/Job", "batch", "jobs");
    int runs = 0;
    compaction.controllers["main"] = [&](Call&, const Request&) {
        ++runs;
        return Outcome::done();
    };
    const ShutDownFirst end(world);
    world.add(demo_plugin(record));
    world.add(compaction);
    world.boot();
    world.put_config_map("a", "1");
    ASSERT_TRUE(world.run_until([&] { return secret_value(world, "a") == "1"; }, 10s));
    world.run_for(60s);
    const std::string missing = std::string(streaming ? "watch" : "list") + " jobs.batch";
    EXPECT_NE(reasons(world).find("forbidden: " + missing), std::string::npos) << reasons(world);
    EXPECT_NE(reasons(world).find("compaction.example.io"), std::string::npos);
    EXPECT_EQ(reasons(world).find("demo.example.io"), std::string::npos) << reasons(world);
    world.put_config_map("b", "1");
    ASSERT_TRUE(world.run_until([&] { return secret_value(world, "b") == "1"; }, 10s));
    allowed = true;
    EXPECT_TRUE(world.run_until([&] { return world.health->is_ready(); }, 10min)) << reasons(world);
}

INSTANTIATE_TEST_SUITE_P(Servers, ForbiddenList, ::testing::Bool(), [](const auto& row) {
    return row.param ? "Streaming" : "Paging";
});

json::Value definition_of_late() {
    const json::Value names = {
        {"kind", "Late"}, {"plural", "lates"}, {"singular", "late"}, {"listKind", "LateList"}};
    const json::Value schema = {{"type", "object"}, {"x-kubernetes-preserve-unknown-fields", true}};
    const json::Value version = {{"name", "v1"},
                                 {"served", true},
                                 {"storage", true},
                                 {"schema", {{"openAPIV3Schema", schema}}}};
    return {{"apiVersion", "apiextensions.k8s.io/v1"},
            {"kind", "CustomResourceDefinition"},
            {"metadata", {{"name", "lates.example.io"}}},
            {"spec",
             {{"group", "example.io"},
              {"scope", "Namespaced"},
              {"names", names},
              {"versions", json::list({version})}}}};
}

// Kind: optional dependency (controller-runtime#2589, rancher#46267). The parameter: how long the
// kind is missing.
class OptionalDependency : public ::testing::TestWithParam<std::chrono::minutes> {};

TEST_P(OptionalDependency, AMissingKindDegradesOnlyItsPluginAndHealsWithinAMinute) {
    DemoRecord record;
    World world;
    TestPlugin late;
    late.id = "late.example.io";
    late.manifest_json = watching(late.id, "example.io/v1/Late", "example.io", "lates");
    int runs = 0;
    late.controllers["main"] = [&](Call&, const Request&) {
        ++runs;
        return Outcome::done();
    };
    const ShutDownFirst end(world);
    world.add(demo_plugin(record));
    world.add(late);
    world.boot();
    world.put_config_map("a", "1");
    ASSERT_TRUE(world.run_until([&] { return secret_value(world, "a") == "1"; }, 10s));
    world.run_for(GetParam());
    EXPECT_FALSE(world.health->is_ready());
    EXPECT_NE(reasons(world).find("late.example.io"), std::string::npos) << reasons(world);
    EXPECT_NE(reasons(world).find("example.io/v1/Late"), std::string::npos) << reasons(world);
    EXPECT_EQ(reasons(world).find("demo.example.io"), std::string::npos) << reasons(world);
    const auto crd = world.api.ask("POST",
                                   "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
                                   json::dump(definition_of_late()));
    ASSERT_EQ(crd.status, 201) << crd.body;
    world.api.ask(
        "POST",
        "/apis/example.io/v1/namespaces/ns/lates",
        R"({"apiVersion":"example.io/v1","kind":"Late","metadata":{"name":"x","namespace":"ns"}})");
    EXPECT_TRUE(world.run_until([&] { return runs > 0 && world.health->is_ready(); }, 60s))
        << reasons(world);
}

INSTANTIATE_TEST_SUITE_P(Absence,
                         OptionalDependency,
                         ::testing::Values(0min, 1min, 60min),
                         [](const auto& row) {
                             return "Of" + std::to_string(row.param.count()) + "Minutes";
                         });

// Kind: API misuse, "again later" together with an error (node-readiness-controller#468,
// redis-operator#705). C++ cannot say it (test/abi/outcome_test.cpp); over the C table it is a
// failure whose delay counts.
TEST(ResultWithErrorAndDelay, IsAFailureThatKeepsItsDelay) {
    World world;
    std::vector<MonotonicTime> runs;
    TestPlugin plugin;
    plugin.controllers["main"] = [&](Call& call, const Request&) {
        runs.push_back(call.now());
        const capstan_result both{{sizeof(capstan_result), CAPSTAN_ABI},
                                  CAPSTAN_E_UNAVAIL,
                                  CAPSTAN_RETRY_AFTER,
                                  30'000'000'000,
                                  to_str("not yet")};
        call.host().call->reconcile_done(call.handle(), &both);
        return Outcome::done();  // the first one holds
    };
    const ShutDownFirst end(world);
    world.add(plugin);
    world.boot();
    world.put_config_map("a", "1");
    ASSERT_TRUE(world.run_until([&] { return runs.size() == 3; }, 5min));
    EXPECT_GE(runs[1] - runs[0], 30s);
    EXPECT_GE(runs[2] - runs[1], 30s);
    EXPECT_EQ(world.runtime->look("demo.example.io", "main", {"ns", "a"}).failures, 3u);
    EXPECT_EQ(errors_of(world), "3");
}

// Kind: burst; writes at rest (etcd-druid's clientConnection).
TEST(AtRest, FiveHundredObjectsWriteNothingForTenMinutes) {
    DemoRecord record;
    World world;
    const ShutDownFirst end(world);
    // Each object is looked at every two minutes: the reconciles run, and write nothing.
    const json::Value controllers = json::list({{
        {"name", "main"},
        {"resyncEvery", "120s"},
        {"watches",
         json::list({{{"gvk", "v1/ConfigMap"}, {"role", "for"}, {"predicate", true}},
                     {{"gvk", "v1/Secret"}, {"role", "owns"}, {"predicate", true}}})},
    }});
    world.add(demo_plugin(record, "demo.example.io", {{"controllers", controllers}}));
    for (int i = 0; i < 500; ++i) {
        ASSERT_EQ(world.put_config_map("object-" + std::to_string(i), "1"), 201);
    }
    world.boot();
    ASSERT_TRUE(world.settle(10s));
    ASSERT_EQ(world.list("/api/v1/namespaces/ns/secrets").size(), 500u);
    const auto writes = world.writes();
    const auto requests = world.transport.requests();
    const int runs = record.runs["ns/object-0"];
    world.run_for(10min);
    EXPECT_GE(record.runs["ns/object-0"] - runs, 4);
    EXPECT_EQ(world.writes(), writes);
    EXPECT_LE(world.transport.requests() - requests, 10u) << "watches are renewed, nothing else";
}

// A restart reads once and writes nothing either, beyond the first apply of each object.
TEST(AtRest, ARestartChangesNoObject) {
    DemoRecord record;
    World world;
    const ShutDownFirst end(world);
    world.add(demo_plugin(record));
    for (int i = 0; i < 50; ++i) {
        ASSERT_EQ(world.put_config_map("object-" + std::to_string(i), "1"), 201);
    }
    const auto versions = [&world] {
        std::map<std::string, std::string> found;
        for (const json::Value& secret : world.list("/api/v1/namespaces/ns/secrets")) {
            const json::View meta = json::View(secret)["metadata"];
            found[std::string(meta["name"].string_or(""))] = meta["resourceVersion"].string_or("");
        }
        return found;
    };
    world.boot();
    ASSERT_TRUE(world.settle(10s));
    const auto before = versions();
    ASSERT_EQ(before.size(), 50u);
    ASSERT_TRUE(world.shut_down());
    world.boot();
    ASSERT_TRUE(world.settle(10s));
    EXPECT_EQ(versions(), before);
}

}  // namespace
}  // namespace capstan::test
