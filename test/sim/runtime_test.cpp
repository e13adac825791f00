// The way of an event to a reconcile and back, on a whole runtime.
#include "test/sim/demo.hpp"

#include <gtest/gtest.h>

namespace capstan::test {
namespace {

using namespace std::chrono_literals;

const std::string kSecrets = "/api/v1/namespaces/ns/secrets/";
const std::string kConfigMaps = "/api/v1/namespaces/ns/configmaps/";

TEST(Runtime, EventBecomesReconcileBecomesWrite) {
    DemoRecord record;
    World world;
    world.add(demo_plugin(record));
    world.boot();
    EXPECT_EQ(world.put_config_map("a", "1"), 201);
    ASSERT_TRUE(world.settle());
    EXPECT_EQ(secret_value(world, "a"), "1");
    EXPECT_TRUE(world.health->is_ready()) << testing::PrintToString(world.health->reasons());
    world.put_config_map("a", "2");
    ASSERT_TRUE(world.settle());
    EXPECT_EQ(secret_value(world, "a"), "2");
    EXPECT_TRUE(world.shut_down());
}

TEST(Runtime, SecondReconcileOfTheSameWritesNothing) {
    DemoRecord record;
    World world;
    world.add(demo_plugin(record));
    world.boot();
    world.put_config_map("a", "1");
    ASSERT_TRUE(world.settle());
    const auto writes = world.writes();
    const int runs = record.runs["ns/a"];
    // A label of somebody else's: an event, a reconcile, the same intent.
    world.api.ask("PATCH",
                  kConfigMaps + "a",
                  R"({"metadata":{"labels":{"x":"y"}}})",
                  "application/merge-patch+json");
    ASSERT_TRUE(world.settle());
    EXPECT_GT(record.runs["ns/a"], runs);
    EXPECT_EQ(world.writes(), writes);
    EXPECT_NE(world.metric("capstan_writes_suppressed_total{plugin=\"demo.example.io\"}"), "");
    world.run_for(60s);
    EXPECT_EQ(world.writes(), writes) << "a world at rest writes nothing";
}

TEST(Runtime, DriftByOthersIsRepaired) {
    DemoRecord record;
    World world;
    world.add(demo_plugin(record));
    world.boot();
    world.put_config_map("a", "1");
    ASSERT_TRUE(world.settle());
    world.api.ask("PATCH",
                  kSecrets + "a",
                  R"({"metadata":{"annotations":{"demo.example.io/value":"stolen"}}})",
                  "application/merge-patch+json");
    ASSERT_TRUE(world.settle());
    EXPECT_EQ(secret_value(world, "a"), "1");
    world.remove(kSecrets + "a");
    ASSERT_TRUE(world.settle());
    EXPECT_EQ(secret_value(world, "a"), "1");
}

TEST(Runtime, DeletionReachesTheReconcilerAndGarbageGoes) {
    DemoRecord record;
    World world;
    world.add(demo_plugin(record));
    world.boot();
    world.put_config_map("a", "1");
    ASSERT_TRUE(world.settle());
    const int runs = record.runs["ns/a"];
    world.remove(kConfigMaps + "a");
    ASSERT_TRUE(world.settle());
    EXPECT_GT(record.runs["ns/a"], runs);
    EXPECT_EQ(secret_value(world, "a"), "<none>");
}

TEST(Runtime, RestartAdoptsWhatIsThere) {
    DemoRecord record;
    World world;
    world.add(demo_plugin(record));
    world.boot();
    world.put_config_map("a", "1");
    world.put_config_map("b", "1");
    ASSERT_TRUE(world.settle());
    ASSERT_TRUE(world.shut_down());
    world.put_config_map("a", "2");
    world.remove(kConfigMaps + "b");
    world.boot();
    ASSERT_TRUE(world.settle());
    EXPECT_EQ(secret_value(world, "a"), "2");
    EXPECT_EQ(secret_value(world, "b"), "<none>");
}

// Kind: read-your-writes (controller-runtime#1464); more of it in fault_kinds_test.cpp.
TEST(Runtime, OwnWritesAreReadBackWhileTheWatchLags) {
    DemoRecord record;
    WorldOptions options;
    options.watch_delay = 5s;
    World world(options);
    int stale = 0;
    TestPlugin plugin = demo_plugin(record);
    plugin.controllers["main"] = [&](Call& call, const Request& request) {
        const Outcome outcome = demo_reconcile(record, call, request);
        if (outcome.rc() == CAPSTAN_OK && call.cache().get("ConfigMap", request.key)) {
            stale += call.cache().get("Secret", request.key) ? 0 : 1;
        }
        return outcome;
    };
    const ShutDownFirst end(world);
    world.add(plugin);
    world.boot();
    world.run_for(20s);
    const auto before = world.writes();
    world.put_config_map("a", "1");
    ASSERT_TRUE(world.settle(15s));
    EXPECT_EQ(stale, 0);
    EXPECT_EQ(world.writes() - before, 1u) << "one create, no second one for want of reading it";
}

// Behaviour 6: history is compacted while a watch is cut; a delete in between is not lost.
TEST(Runtime, RelistAfterCompactionDoesNotLoseADelete) {
    DemoRecord record;
    World world;
    const ShutDownFirst end(world);
    world.add(demo_plugin(record));
    world.boot();
    world.put_config_map("a", "1");
    world.put_config_map("b", "1");
    ASSERT_TRUE(world.settle());
    const int runs = record.runs["ns/b"];
    world.transport.set_partitioned(true);
    world.transport.cut_all();
    world.remove(kConfigMaps + "b");
    world.put_config_map("c", "1");
    world.api.server().compact_history();
    world.run_for(10s);
    world.transport.set_partitioned(false);
    ASSERT_TRUE(world.run_until(
        [&] { return record.runs["ns/b"] > runs && secret_value(world, "c") == "1"; }));
    ASSERT_TRUE(world.settle());
}

// A refused resume is answered by a list, not by waiting and asking for the old version again. Even
// seeds: the server says so in the stream, odd ones: by the HTTP status.
TEST(Runtime, ExpiredWatchListsAgainSoon) {
    for (const std::uint64_t seed : {1, 2}) {
        DemoRecord record;
        WorldOptions options;
        options.seed = seed;
        options.log_level = obs::Level::info;
        World world(options);
        const ShutDownFirst end(world);
        world.add(demo_plugin(record));
        world.boot();
        world.put_config_map("a", "1");
        world.put_config_map("b", "1");
        ASSERT_TRUE(world.settle());
        const int runs = record.runs["ns/b"];
        world.api.cut_watches({.outage = 500ms, .expire = true});
        world.remove(kConfigMaps + "b");
        world.put_config_map("a", "2");
        // The first two back-offs are at most 1.6 s and 3.2 s; asking for the old version until
        // that is given up takes 25 s at least.
        EXPECT_TRUE(world.run_until(
            [&] { return record.runs["ns/b"] > runs && secret_value(world, "a") == "2"; }, 6s))
            << "seed " << seed;
    }
}

TEST(Runtime, PermissionsOutsideTheManifestAreNotSent) {
    DemoRecord record;
    World world;
    TestPlugin plugin = demo_plugin(record);
    Code applied = Code::internal, read = Code::internal, cached = Code::internal;
    plugin.controllers["main"] = [&](Call& call, const Request&) {
        const json::Value service = {{"apiVersion", "v1"},
                                     {"kind", "Service"},
                                     {"metadata", {{"name", "x"}, {"namespace", "ns"}}}};
        applied = call.client().apply("v1/Service", service).error().code;
        read = call.client().get("apps/v1/StatefulSet", {"ns", "x"}).error().code;
        cached = call.cache().get("Service", {"ns", "x"}).error().code;
        return Outcome::done();
    };
    const ShutDownFirst end(world);
    world.add(plugin);
    world.boot();
    world.put_config_map("a", "1");
    ASSERT_TRUE(world.settle());
    EXPECT_EQ(applied, Code::denied);
    EXPECT_EQ(read, Code::denied);
    EXPECT_EQ(cached, Code::denied);
    EXPECT_EQ(world.writes(), 0u);
    EXPECT_TRUE(world.log.contains({"not sent", "patch", "services"}));
}

TEST(Runtime, RemoveNeedsALiveObjectOfTheSameCall) {
    DemoRecord record;
    World world;
    TestPlugin plugin = demo_plugin(record);
    std::optional<Code> from_cache;
    bool removed = false;
    plugin.controllers["main"] = [&](Call& call, const Request& request) {
        auto cached = call.cache().get("ConfigMap", request.key);
        if (!cached) {
            return Outcome::done();
        }
        from_cache = call.client().remove(cached.value()).error().code;
        auto live = call.client().get("v1/ConfigMap", request.key);
        removed = live && call.client().remove(live.value());
        return Outcome::done();
    };
    const ShutDownFirst end(world);
    world.add(plugin);
    world.boot();
    world.put_config_map("a", "1");
    ASSERT_TRUE(world.settle());
    EXPECT_EQ(from_cache, Code::invalid);
    EXPECT_TRUE(removed);
    EXPECT_FALSE(world.read(kConfigMaps + "a"));
}

TEST(Runtime, AfterParkedAndEnqueueAreObeyed) {
    World world;
    TestPlugin plugin;
    std::vector<std::pair<std::string, MonotonicTime>> runs;
    plugin.controllers["main"] = [&](Call& call, const Request& request) {
        runs.emplace_back(request.key.name, call.now());
        if (request.key.name == "again" && runs.size() < 4) {
            return Outcome::after(10s);
        }
        if (request.key.name == "parked") {
            return Outcome::parked(Error{Code::invalid, "spec is wrong", {}});
        }
        if (request.key.name == "waker") {
            EXPECT_TRUE(call.enqueue("main", {"ns", "parked"}).has_value());
            EXPECT_FALSE(call.enqueue("none", {"ns", "parked"}).has_value());
        }
        return Outcome::done();
    };
    const ShutDownFirst end(world);
    world.add(plugin);
    world.boot();
    world.put_config_map("again", "1");
    world.run_for(60s);
    ASSERT_EQ(runs.size(), 4u);
    EXPECT_GE(runs[1].second - runs[0].second, 10s);
    EXPECT_LT(runs[1].second - runs[0].second, 11s);
    runs.clear();
    world.put_config_map("parked", "1");
    world.run_for(1h);
    EXPECT_EQ(runs.size(), 1u);
    EXPECT_EQ(world.runtime->look("demo.example.io", "main", {"ns", "parked"}).state, "parked");
    world.put_config_map("parked", "2");
    world.run_for(10s);
    EXPECT_EQ(runs.size(), 2u);
    world.put_config_map("waker", "1");
    world.run_for(10s);
    EXPECT_EQ(runs.size(), 4u);
}

// Kind: shared limiter (controller-runtime#392); more of it in fault_kinds_test.cpp.
TEST(Runtime, OneFailingKeyDoesNotSlowTheOthers) {
    World world;
    TestPlugin plugin;
    std::map<std::string, int> runs;
    std::chrono::nanoseconds worst{0};
    std::map<std::string, MonotonicTime> put;
    plugin.controllers["main"] = [&](Call& call, const Request& request) {
        ++runs[request.key.name];
        if (request.key.name == "bad") {
            return Outcome::failed(Error{Code::unavailable, "no", {}});
        }
        worst = std::max(worst, call.now() - put[request.key.name]);
        return Outcome::done();
    };
    const ShutDownFirst end(world);
    world.add(plugin);
    world.boot();
    world.put_config_map("bad", "1");
    world.run_for(60s);
    for (int i = 0; i < 99; ++i) {
        const std::string name = "good-" + std::to_string(i);
        put[name] = world.loop.now();
        world.put_config_map(name, "1");
        world.run_for(100ms);
    }
    EXPECT_LT(worst, 1s);
    EXPECT_GT(runs["bad"], 10);
    EXPECT_LT(runs["bad"], 25) << "5 ms doubled fourteen times is past a minute";
    EXPECT_EQ(runs.size(), 100u);
}

TEST(Runtime, KeyThatKeepsWakingItselfIsSlowedDown) {
    World world;
    TestPlugin plugin;
    int runs = 0;
    plugin.controllers["main"] = [&](Call& call, const Request& request) {
        const json::Value patch = {
            {"metadata", {{"annotations", {{"run", std::to_string(++runs)}}}}}};
        EXPECT_TRUE(call.client().patch_merge("v1/ConfigMap", request.key, patch).has_value());
        return Outcome::done();
    };
    const ShutDownFirst end(world);
    world.add(plugin);
    world.boot();
    world.put_config_map("a", "1");
    world.run_for(60s);
    EXPECT_GE(runs, 60);
    EXPECT_LE(runs, 125);
    EXPECT_EQ(world.metric("capstan_hot_keys_total{controller=\"demo/main\"}"), "1");
    EXPECT_TRUE(world.log.contains({"keeps waking itself", "\"name\":\"a\""}));
}

TEST(Runtime, KeyThatAsksToRunAtOnceIsSlowedDown) {
    for (const auto delay : {0ms, -5ms, 1ms}) {
        World world;
        TestPlugin plugin;
        int runs = 0;
        plugin.controllers["main"] = [&](Call&, const Request&) {
            // What would never end is ended here.
            return ++runs < 10'000 ? Outcome::after(delay) : Outcome::done();
        };
        const ShutDownFirst end(world);
        world.add(plugin);
        world.boot();
        world.put_config_map("a", "1");
        world.run_for(60s);
        EXPECT_GE(runs, 60) << delay.count();
        EXPECT_LE(runs, 125) << delay.count();
        EXPECT_EQ(world.metric("capstan_hot_keys_total{controller=\"demo/main\"}"), "1");
    }
}

TEST(Runtime, ResyncWakesEveryKeyNowAndThen) {
    DemoRecord record;
    World world;
    json::Value controllers = json::list({{
        {"name", "main"},
        {"resyncEvery", "60s"},
        {"watches",
         json::list({{{"gvk", "v1/ConfigMap"},
                      {"role", "for"},
                      {"predicate", {{"generationChanged", true}}}},
                     {{"gvk", "v1/Secret"}, {"role", "owns"}, {"predicate", true}}})},
    }});
    const ShutDownFirst end(world);
    world.add(demo_plugin(record, "demo.example.io", {{"controllers", controllers}}));
    world.boot();
    world.put_config_map("a", "1");
    ASSERT_TRUE(world.run_until([&] { return record.runs["ns/a"] > 0; }));
    ASSERT_TRUE(world.settle());
    const int runs = record.runs["ns/a"];
    world.run_for(5min);
    EXPECT_GE(record.runs["ns/a"] - runs, 4);
    EXPECT_LE(record.runs["ns/a"] - runs, 6);
}

// An owner without a namespace owns objects in namespaces.
TEST(Runtime, AnOwnerWithoutNamespaceIsWokenByWhatItOwns) {
    DemoRecord record;
    World world;
    const json::Value controllers = json::list({{
        {"name", "main"},
        {"watches",
         json::list({{{"gvk", "v1/Namespace"}, {"role", "for"}, {"predicate", true}},
                     {{"gvk", "v1/Secret"}, {"role", "owns"}, {"predicate", true}}})},
    }});
    const json::Value permissions =
        json::list({{{"groups", json::list({""})},
                     {"resources", json::list({"namespaces", "secrets"})},
                     {"verbs", json::list({"get", "list", "watch"})}}});
    TestPlugin plugin = demo_plugin(
        record, "demo.example.io", {{"controllers", controllers}, {"permissions", permissions}});
    plugin.controllers["main"] = [&](Call&, const Request& request) {
        ++record.runs[request.key.to_string()];
        return Outcome::done();
    };
    const ShutDownFirst end(world);
    world.add(plugin);
    world.boot();
    ASSERT_TRUE(world.settle());
    const int before = record.runs["ns"];
    ASSERT_GT(before, 0) << "the namespace itself is a key";
    world.api.ask("POST",
                  "/api/v1/namespaces/ns/secrets",
                  R"({"metadata":{"name":"s","ownerReferences":[{"apiVersion":"v1",
                      "kind":"Namespace","name":"ns","uid":"u","controller":true}]}})");
    ASSERT_TRUE(world.settle());
    EXPECT_GT(record.runs["ns"], before)
        << "the Secret is new, and goes since its owner has another uid";
    EXPECT_EQ(record.runs["ns/ns"], 0) << "there is no such key";
}

TEST(Runtime, PredicateFiltersBeforeTheQueueAndIsCounted) {
    DemoRecord record;
    World world;
    json::Value controllers = json::list({{
        {"name", "main"},
        {"watches",
         json::list(
             {{{"gvk", "v1/ConfigMap"}, {"role", "for"}, {"predicate", {{"changed", "/data"}}}}})},
    }});
    TestPlugin plugin = demo_plugin(record, "demo.example.io", {{"controllers", controllers}});
    plugin.controllers["main"] = [&](Call&, const Request& request) {
        ++record.runs[request.key.to_string()];
        return Outcome::done();
    };
    const ShutDownFirst end(world);
    world.add(plugin);
    world.boot();
    world.put_config_map("a", "1");
    ASSERT_TRUE(world.settle());
    EXPECT_EQ(record.runs["ns/a"], 1);
    world.api.ask("PATCH",
                  kConfigMaps + "a",
                  R"({"metadata":{"labels":{"x":"y"}}})",
                  "application/merge-patch+json");
    ASSERT_TRUE(world.settle());
    EXPECT_EQ(record.runs["ns/a"], 1);
    const std::string labels =
        "gvk=\"v1/ConfigMap\",plugin=\"demo.example.io\",outcome=\"filtered\"";
    EXPECT_EQ(world.metric("capstan_events_total{" + labels + "}"), "1");
    world.put_config_map("a", "2");
    ASSERT_TRUE(world.settle());
    EXPECT_EQ(record.runs["ns/a"], 2);
}

// What a reconcile wrote comes back by the watch and wakes nobody; what others write does, also on
// top of it, and so does the first state after a list.
TEST(Runtime, OwnWritesWakeNobodyWhereThePluginSaysSo) {
    DemoRecord record;
    WorldOptions options;
    options.watch_delay = 100ms;  // an answer is here before its event
    World world(options);
    json::Value controllers = json::list({{
        {"name", "main"},
        {"watches",
         json::list({
             {{"gvk", "v1/ConfigMap"}, {"role", "for"}, {"predicate", true}},
             {{"gvk", "v1/Secret"}, {"role", "owns"}, {"ignoreOwnWrites", true}},
         })},
    }});
    world.add(demo_plugin(record, "demo.example.io", {{"controllers", controllers}}));
    world.boot();
    world.put_config_map("a", "1");
    ASSERT_TRUE(world.settle());
    world.run_for(5s);
    EXPECT_EQ(record.runs["ns/a"], 1);
    EXPECT_EQ(secret_value(world, "a"), "1");
    world.put_config_map("a", "2");
    ASSERT_TRUE(world.settle());
    world.run_for(5s);
    EXPECT_EQ(record.runs["ns/a"], 2);
    world.api.ask("PATCH",
                  kSecrets + "a",
                  R"({"metadata":{"annotations":{"demo.example.io/value":"stolen"}}})",
                  "application/merge-patch+json");
    ASSERT_TRUE(world.settle());
    world.run_for(5s);
    EXPECT_EQ(secret_value(world, "a"), "2");
    EXPECT_EQ(record.runs["ns/a"], 3) << "once for the theft, not for its own repair";
    world.api.ask("DELETE", kSecrets + "a");
    ASSERT_TRUE(world.settle());
    EXPECT_EQ(secret_value(world, "a"), "2");
}

TEST(Runtime, MetricsHaveTheKnownNames) {
    DemoRecord record;
    World world;
    world.add(demo_plugin(record));
    world.boot();
    world.put_config_map("a", "1");
    ASSERT_TRUE(world.settle());
    EXPECT_NE(
        world.metric(
            "controller_runtime_reconcile_total{controller=\"demo/main\",result=\"success\"}"),
        "0");
    EXPECT_EQ(world.metric(
                  "controller_runtime_reconcile_total{controller=\"demo/main\",result=\"error\"}"),
              "0");
    EXPECT_EQ(
        world.metric("controller_runtime_max_concurrent_reconciles{controller=\"demo/main\"}"),
        "4");
    EXPECT_EQ(world.metric("controller_runtime_active_workers{controller=\"demo/main\"}"), "0");
    EXPECT_EQ(
        world.metric("workqueue_depth{name=\"demo/main\",controller=\"demo/main\",priority=\"\"}"),
        "0");
    EXPECT_NE(world.metric("workqueue_adds_total{name=\"demo/main\",controller=\"demo/main\"}"),
              "");
}

}  // namespace
}  // namespace capstan::test
