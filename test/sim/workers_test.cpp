// A controller's workers: who waits for what is due next, how many there are after calls that did
// not return, and what is still called of an instance that panicked.
#include "test/sim/demo.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <exception>
#include <optional>
#include <stdexcept>

namespace capstan::test {
namespace {

using namespace std::chrono_literals;

constexpr const char* kId = "work.example.io";

// One controller "main" on ConfigMaps.
TestPlugin plugin_of(int workers, const std::string& deadline, ReconcileFunction reconcile) {
    const json::Value watch = {{"gvk", "v1/ConfigMap"}, {"role", "for"}, {"predicate", true}};
    const json::Value controller = {{"name", "main"},
                                    {"maxConcurrent", workers},
                                    {"deadline", deadline},
                                    {"watches", json::list({watch})}};
    TestPlugin plugin;
    plugin.id = kId;
    plugin.manifest_json = manifest_json(kId, {{"controllers", json::list({controller})}});
    plugin.controllers["main"] = std::move(reconcile);
    return plugin;
}

class DueKey : public ::testing::TestWithParam<std::uint64_t> {};

// Whichever of the two workers takes the long run, the other one keeps the time.
TEST_P(DueKey, IsNotHeldUpByAnotherKeysRun) {
    World world({.seed = GetParam()});
    std::vector<MonotonicTime> timer;
    bool slow = false;
    const ShutDownFirst end(world);
    world.add(plugin_of(2, "60s", [&](Call& call, const Request& request) {
        if (request.key.name == "slow") {
            slow = true;
            static_cast<void>(call.sleep_until(call.now() + 40s));
            return Outcome::done();
        }
        timer.push_back(call.now());
        return timer.size() == 1 ? Outcome::after(10s) : Outcome::done();
    }));
    world.boot();
    world.run_for(1s);  // both wait
    world.put_config_map("timer", "1");
    ASSERT_TRUE(world.run_until([&] { return timer.size() == 1; }));
    world.run_for(5s);
    world.put_config_map("slow", "1");
    ASSERT_TRUE(world.run_until([&] { return slow; }));
    ASSERT_TRUE(world.run_until([&] { return timer.size() == 2; }));
    EXPECT_LT(timer[1] - timer[0], 11s);
}

INSTANTIATE_TEST_SUITE_P(Seeds, DueKey, ::testing::Range<std::uint64_t>(1, 9));

// More calls do not return than workers are replaced; then they do, one first, later the others.
TEST(Workers, AreAsManyAsBeforeWhenStuckCallsReturn) {
    World world;
    const auto stuck = world.baton.make_signal();
    std::set<std::string> held;  // keys whose first run has begun
    std::map<std::string, int> runs;
    std::string released;                               // "all", or a key
    const MonotonicTime limit = world.loop.now() + 1h;  // a test that fails must end
    const ShutDownFirst end(world);
    world.add(plugin_of(1, "5s", [&](Call&, const Request& request) {
        const std::string& name = request.key.name;
        if (++runs[name] == 1 && name.starts_with("stuck")) {
            held.insert(name);
            while (released != "all" && released != name && world.loop.now() < limit) {
                stuck->wait_until(world.loop.now() + 1s);
            }
        }
        return Outcome::done();
    }));
    world.boot();
    constexpr int kStuck = static_cast<int>(control::kStuckWorkersMax) + 1;
    for (int i = 0; i < kStuck; ++i) {
        world.put_config_map("stuck-" + std::to_string(i), "1");
        ASSERT_TRUE(world.run_until([&] { return held.size() == static_cast<std::size_t>(i + 1); }))
            << i;
    }
    world.run_for(20s);
    world.put_config_map("later", "1");
    world.run_for(1min);
    EXPECT_EQ(runs["later"], 0) << "no worker is left";
    released = "stuck-3";
    ASSERT_TRUE(world.run_until([&] { return runs["later"] == 1 && runs["stuck-3"] == 2; }))
        << "who has returned does the work of one who has not";
    released = "all";
    ASSERT_TRUE(world.settle());
    EXPECT_EQ(world.metric("capstan_keys_quarantined{controller=\"work/main\"}"), "0");
    world.put_config_map("last", "1");
    EXPECT_TRUE(world.run_until([&] { return runs["last"] == 1; })) << "no worker is left for ever";
    EXPECT_TRUE(world.shut_down());
}

// What the probes and the debug page say.
class Shortage : public ::testing::Test {
protected:
    std::string ready() { return world.health->render(obs::Probe::readyz, "", "verbose").body; }
    int live() { return world.health->render(obs::Probe::healthz, "", "").status; }
    bool says(const std::string& text) { return ready().find(text) != std::string::npos; }
    std::int64_t debug(const char* member) {
        const json::Value page = world.runtime->debug();
        const json::Value* controller = page.pointer("/plugins/0/controllers/0");
        return controller == nullptr ? -1 : json::View(*controller)[member].int_or(-1);
    }
    // Runs of keys "stuck…" do not return until they are released.
    void boot(int workers, const std::string& deadline) {
        world.add(plugin_of(workers, deadline, [this](Call&, const Request& request) {
            ++runs[request.key.name];
            const auto stuck = world.baton.make_signal();
            while (request.key.name.starts_with("stuck") && !released && world.loop.now() < limit) {
                stuck->wait_until(world.loop.now() + 10s);
            }
            return Outcome::done();
        }));
        world.boot();
    }

    World world;
    std::map<std::string, int> runs;
    bool released = false;
    const MonotonicTime limit = world.loop.now() + 3h;  // a test that fails must end
    const ShutDownFirst end{world};
};

TEST_F(Shortage, OfAControllerWhoseCallsDoNotReturnIsNotReadyAndLaterNotLive) {
    boot(1, "5s");
    constexpr int kReplaced = static_cast<int>(control::kStuckWorkersMax);
    for (int i = 0; i < kReplaced; ++i) {
        const std::string name = "stuck-" + std::to_string(i);
        world.put_config_map(name, "1");
        ASSERT_TRUE(world.run_until([&] { return runs[name] == 1; })) << name;
    }
    world.run_for(30s);
    EXPECT_TRUE(world.health->is_ready()) << ready();
    EXPECT_EQ(debug("workers"), 1);
    world.put_config_map("stuck-last", "1");
    world.run_for(30s);
    EXPECT_TRUE(
        says("[-]plugin/work.example.io failed: controller main has no worker left: 17 "
             "calls do not return; ns/stuck-0 since "))
        << ready();
    EXPECT_EQ(debug("workers"), 0);
    EXPECT_EQ(debug("wantedWorkers"), 1);
    EXPECT_EQ(debug("busyWorkers"), 0);
    EXPECT_EQ(debug("stuckWorkers"), 17);
    EXPECT_EQ(live(), 200);
    world.run_for(4min);
    EXPECT_EQ(live(), 200) << "they may still return";
    world.run_for(1min);
    EXPECT_EQ(live(), 500);
    EXPECT_TRUE(says("[-]workers/work.example.io failed: controller main has no")) << ready();
    released = true;
    ASSERT_TRUE(world.settle());
    EXPECT_TRUE(world.health->is_ready()) << ready();
    EXPECT_EQ(live(), 200);
    EXPECT_EQ(debug("workers"), 1);
}

TEST_F(Shortage, OfThreadsIsTriedAgainWithBackOff) {
    int tries = 0;
    bool scarce = true;
    world.threads.refuse = [&](const std::string& name) {
        const bool refused = scarce && name.starts_with("work/main/");
        tries += refused ? 1 : 0;
        return refused;
    };
    boot(4, "5s");
    world.put_config_map("a", "1");
    world.run_for(30s);
    EXPECT_TRUE(
        says("[-]plugin/work.example.io failed: controller main has no worker left; tried "
             "again: cannot start thread work/main/1"))
        << ready();
    EXPECT_EQ(tries, 5) << "0, 1, 3, 7 and 15 s";
    EXPECT_EQ(debug("workers"), 0);
    EXPECT_EQ(live(), 200);
    world.run_for(5min);
    EXPECT_EQ(live(), 500);
    EXPECT_LE(tries, 11) << "once a minute";
    scarce = false;
    ASSERT_TRUE(world.run_until([&] { return runs["a"] == 1; }, 61s));
    EXPECT_TRUE(world.run_until([&] { return world.health->is_ready(); }, 1s)) << ready();
    EXPECT_EQ(live(), 200);
    EXPECT_EQ(debug("workers"), 4);
}

TEST_F(Shortage, OfSomeThreadsIsNotedWhileTheOthersWork) {
    bool scarce = true;
    world.threads.refuse = [&](const std::string& name) { return scarce && name == "work/main/3"; };
    boot(4, "5s");
    world.put_config_map("a", "1");
    ASSERT_TRUE(world.run_until([&] { return runs["a"] == 1; }, 10s));
    world.run_for(5s);
    EXPECT_TRUE(world.health->is_ready()) << ready();
    EXPECT_TRUE(says("ok (controller main has 2 of 4 workers; tried again: cannot start thread"))
        << ready();
    EXPECT_EQ(debug("workers"), 2);
    scarce = false;
    ASSERT_TRUE(world.run_until([&] { return debug("workers") == 4; }, 61s));
    world.run_for(1s);
    EXPECT_FALSE(says("workers;")) << ready();
}

TEST_F(Shortage, OfAControllerWithALongDeadlineMayLastTwiceAsLong) {
    boot(1, "10m");
    world.run_for(1s);
    world.threads.refuse = [](const std::string&) { return true; };  // nobody replaces it
    world.put_config_map("stuck", "1");
    world.run_for(10min + 30s);
    EXPECT_TRUE(says("no worker left: 1 call does not return; ns/stuck since 6")) << ready();
    world.run_for(18min);
    EXPECT_EQ(live(), 200);
    world.run_for(2min);
    EXPECT_EQ(live(), 500);
    released = true;
    ASSERT_TRUE(world.run_until([&] { return live() == 200; }, 1min));
    EXPECT_EQ(debug("workers"), 1) << "who returns does the work of one that could not be started";
    world.put_config_map("later", "1");
    EXPECT_TRUE(world.run_until([&] { return runs["later"] == 1; }, 10s));
    EXPECT_TRUE(world.run_until([&] { return world.health->is_ready(); }, 1min)) << ready();
}

TEST_F(Shortage, OfAThreadForTheSupervisorIsTriedAgain) {
    bool scarce = true;
    world.threads.refuse = [&](const std::string& name) {
        return scarce && name == "work/supervisor";
    };
    boot(1, "5s");
    world.put_config_map("a", "1");
    world.run_for(10s);
    EXPECT_TRUE(says("failed: is starting; tried again: cannot start thread work/supervisor"))
        << ready();
    scarce = false;
    EXPECT_TRUE(world.run_until([&] { return runs["a"] == 1; }, 10s));
    EXPECT_TRUE(world.health->is_ready()) << ready();
}

// A plugin with one quick route, asked without sockets.
class QuickRoute : public ::testing::Test {
protected:
    void boot(std::function<void(Call&, Exchange&)> handle) {
        TestPlugin plugin =
            plugin_of(1, "60s", [](Call&, const Request&) { return Outcome::done(); });
        const json::Value route = {{"name", "quick"}, {"path", "/quick"}, {"class", "quick"}};
        json::Value manifest = json::parse(plugin.manifest_json).value();
        manifest.set("routes", json::list({route}));
        plugin.manifest_json = json::dump(manifest);
        plugin.routes["quick"] = std::move(handle);
        world.add(plugin);
        world.boot();
        world.run_for(1s);
        transport.emplace(world.loop, world.runtime->routes());
    }
    void ask() {
        net::HttpRequest request;
        request.target = "/quick?" + std::to_string(exchanges.size());
        exchanges.push_back(transport->send(std::move(request), [&](const auto& answer) {
            statuses.push_back(answer ? answer.value().status : 0);
        }));
    }

    World world;
    std::vector<std::unique_ptr<net::HttpExchange>> exchanges;
    std::vector<int> statuses;
    std::optional<LocalTransport> transport;
};

TEST_F(QuickRoute, HandlersThatDoNotReturnAreReplaced) {
    const auto stuck = world.baton.make_signal();
    bool released = false;
    const MonotonicTime limit = world.loop.now() + 1h;
    const ShutDownFirst end(world);
    boot([&](Call&, Exchange& exchange) {
        while (exchange.query() < "2" && !released && world.loop.now() < limit) {
            stuck->wait_until(world.loop.now() + 1s);
        }
        exchange.respond(200, "text/plain", "x");
    });
    for (int i = 0; i < 3; ++i) {
        ask();
    }
    world.run_for(5s);
    EXPECT_TRUE(statuses.empty()) << "two threads, both held";
    ASSERT_TRUE(world.run_until([&] { return statuses == std::vector<int>{200}; }, 20s));
    released = true;
    ASSERT_TRUE(world.run_until([&] { return statuses.size() == 3; }));
    const std::size_t living = world.baton.living();
    ask();
    ASSERT_TRUE(world.run_until([&] { return statuses.size() == 4; }));
    EXPECT_EQ(world.baton.living(), living) << "as many threads as before";
    EXPECT_EQ(statuses.back(), 200);
}

TEST_F(QuickRoute, WhatWaitsAtTheEndIsAnswered) {
    const ShutDownFirst end(world);
    boot([&](Call& call, Exchange& exchange) {
        static_cast<void>(call.sleep_until(call.now() + 900ms));
        exchange.respond(200, "text/plain", "x");
    });
    for (int i = 0; i < 5; ++i) {
        ask();
    }
    world.run_for(100ms);
    EXPECT_TRUE(world.shut_down());
    EXPECT_EQ(std::count(statuses.begin(), statuses.end(), 503), 3)
        << testing::PrintToString(statuses);
}

// What the host calls of the instance, by name.
std::map<std::string, int> called;

capstan_plugin count_calls(capstan_plugin table) {
    called.clear();
    table.cancel = [](capstan_ctl*, capstan_call*) noexcept { ++called["cancel"]; };
    table.stop = [](capstan_ctl*, std::uint64_t) noexcept -> capstan_rc {
        ++called["stop"];
        return CAPSTAN_OK;
    };
    table.destroy = [](capstan_ctl*) noexcept { ++called["destroy"]; };
    return table;
}

[[noreturn]] void panic() {
    std::rethrow_exception(std::make_exception_ptr(std::runtime_error("boom")));
}

TEST(PoisonedInstance, IsNotStoppedWhenItPanicsWhileItStops) {
    World world;
    bool running = false;
    TestPlugin plugin = plugin_of(1, "60s", [&](Call& call, const Request&) -> Outcome {
        running = true;
        static_cast<void>(call.sleep_until(call.now() + 50s));  // until it is cancelled
        panic();
    });
    plugin.wrap = count_calls;
    world.add(plugin);
    world.boot();
    world.put_config_map("a", "1");
    ASSERT_TRUE(world.run_until([&] { return running; }));
    EXPECT_TRUE(world.shut_down()) << testing::PrintToString(world.report.left);
    EXPECT_EQ(called["stop"], 0);
    EXPECT_EQ(called["destroy"], 0);
}

TEST(PoisonedInstance, IsNotToldOfCancelledCallsWhenNoOtherFollows) {
    World world;
    const auto slow = world.baton.make_signal();
    bool waiting = false;
    int panics = 0;
    const ShutDownFirst end(world);
    TestPlugin plugin = plugin_of(2, "60s", [&](Call& call, const Request& request) -> Outcome {
        if (request.key.name == "boom") {
            while (!waiting) {
                static_cast<void>(call.sleep_until(call.now() + 10ms));
            }
            ++panics;
            panic();
        }
        waiting = true;
        while (!call.cancelled()) {
            slow->wait_until(call.now() + 10ms);
        }
        slow->wait_until(call.now() + 100ms);  // it takes its time
        waiting = false;
        return Outcome::done();
    });
    plugin.wrap = count_calls;
    world.add(plugin);
    world.boot();
    world.put_config_map("boom", "1");
    world.put_config_map("waits", "1");
    ASSERT_TRUE(
        world.run_until([&] { return world.runtime->phase(kId) == control::PluginPhase::failed; }));
    ASSERT_TRUE(world.run_until([&] { return !waiting; }));
    EXPECT_EQ(panics, 3);
    EXPECT_EQ(called["cancel"], 0);
}

}  // namespace
}  // namespace capstan::test
