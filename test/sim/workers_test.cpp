// A controller's workers: who waits for what is due next, how many there are after calls that did
// not return, and what is still called of an instance that panicked.
#include "test/sim/demo.hpp"

#include <gtest/gtest.h>

#include <exception>
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
