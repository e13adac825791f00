// Behaviour 3: a plugin that misbehaves hurts itself only, and the log names it.
#include "test/sim/demo.hpp"

#include <gtest/gtest.h>

#include <exception>
#include <stdexcept>

// An instance that panicked, or whose call never came back, is left alone and not destroyed
// (docs/operations.md): under a leak checker that is what these tests ask for.
extern "C" __attribute__((visibility("default"))) const char* __lsan_default_suppressions();
extern "C" const char* __lsan_default_suppressions() {
    return "leak:capstan::control::Unit::make_instance\n";
}

namespace capstan::test {
namespace {

using namespace std::chrono_literals;

[[noreturn]] void blow_up(const char* text) {
    std::rethrow_exception(std::make_exception_ptr(std::runtime_error(text)));
}
[[noreturn]] void blow_up(int value) {
    std::rethrow_exception(std::make_exception_ptr(value));
}

json::Value only_config_maps() {
    return json::list({{{"gvk", "v1/ConfigMap"}, {"role", "for"}, {"predicate", true}}});
}

// A world with the well-behaved demo and a second plugin whose reconcile is given.
class Misbehaviour : public ::testing::Test {
protected:
    static constexpr const char* kBad = "bad.example.io";

    void boot(ReconcileFunction reconcile, const json::Value& extra = {}) {
        bad.id = kBad;
        bad.manifest_json = manifest_json(kBad, extra);
        bad.controllers["main"] = std::move(reconcile);
        world.add(demo_plugin(good));
        world.add(bad);
        world.boot();
    }
    // The good plugin works on `name` within a few seconds.
    void expect_good_works(const std::string& name) {
        world.put_config_map(name, "1");
        EXPECT_TRUE(world.run_until([&] { return secret_value(world, name) == "1"; }, 20s))
            << "the good plugin stands still";
    }
    std::string count(const std::string& name) {
        return world.metric(name + "{controller=\"bad/main\"}");
    }

    DemoRecord good;
    World world;
    TestPlugin bad;
};

TEST_F(Misbehaviour, ExceptionReplacesTheInstanceAndThreeStopThePlugin) {
    int runs = 0;
    int created = 0;
    bad.on_create = [&](capstan::Setup&) -> Result<void> {
        ++created;
        return ok();
    };
    const ShutDownFirst end(world);
    boot([&](Call&, const Request&) -> Outcome {
        ++runs;
        blow_up("boom");
    });
    expect_good_works("a");
    ASSERT_TRUE(world.run_until(
        [&] { return world.runtime->phase(kBad) == control::PluginPhase::failed; }, 60s));
    EXPECT_GE(runs, 3);
    EXPECT_EQ(created, 3);
    EXPECT_TRUE(world.log.contains({"exception stopped", "boom", kBad}));
    EXPECT_NE(testing::PrintToString(world.health->reasons())
                  .find("bad.example.io: failed: it panicked 3 times in 10 minutes, last in "
                        "controller main, key ns/a: boom"),
              std::string::npos)
        << testing::PrintToString(world.health->reasons());
    EXPECT_EQ(count("controller_runtime_reconcile_panics_total"), std::to_string(runs));
    expect_good_works("b");
    EXPECT_TRUE(world.shut_down());
}

TEST_F(Misbehaviour, OnePanicAndTheFreshInstanceGoesOn) {
    int runs = 0;
    const ShutDownFirst end(world);
    boot([&](Call&, const Request&) -> Outcome {
        if (++runs == 1) {
            blow_up(42);
        }
        return Outcome::done();
    });
    world.put_config_map("a", "1");
    ASSERT_TRUE(world.run_until([&] { return runs >= 2; }, 60s));
    ASSERT_TRUE(world.settle());
    EXPECT_EQ(world.runtime->phase(kBad), control::PluginPhase::running);
    EXPECT_TRUE(world.health->is_ready());
}

capstan_rc plain_create(const capstan_host*, capstan_str, capstan_ctl** ctl) noexcept {
    static int instance;
    *ctl = reinterpret_cast<capstan_ctl*>(&instance);
    return CAPSTAN_OK;
}
capstan_rc plain_start(capstan_ctl*) noexcept {
    return CAPSTAN_OK;
}
capstan_rc plain_stop(capstan_ctl*, std::uint64_t) noexcept {
    return CAPSTAN_OK;
}
void plain_destroy(capstan_ctl*) noexcept {}
capstan_rc strange_code(capstan_ctl*, capstan_call*, const capstan_request*) noexcept {
    return -77;
}
capstan_rc pending(capstan_ctl*, capstan_call*, const capstan_request*) noexcept {
    return CAPSTAN_PENDING;
}
capstan_rc refused_create(const capstan_host*, capstan_str, capstan_ctl**) noexcept {
    return CAPSTAN_E_INVALID;
}

capstan_plugin plain_table(decltype(capstan_plugin::reconcile) reconcile) {
    return {{sizeof(capstan_plugin), CAPSTAN_ABI},
            to_str(std::string_view("bad.example.io")),
            to_str(std::string_view("1.0.0")),
            &plain_create,
            &plain_start,
            reconcile,
            nullptr,
            &plain_stop,
            &plain_destroy,
            nullptr};
}

TEST_F(Misbehaviour, UnknownCodeIsAFailureTheLogNames) {
    const capstan_plugin table = plain_table(&strange_code);
    bad.table = &table;
    boot({});
    expect_good_works("a");
    world.run_for(1s);
    EXPECT_TRUE(world.log.contains({"unknown code -77", kBad, "\"name\":\"a\""}));
    EXPECT_GT(world.runtime->look(kBad, "main", {"ns", "a"}).failures, 2u);
    EXPECT_TRUE(world.shut_down());
}

TEST_F(Misbehaviour, PendingWithoutAsyncIsAFailure) {
    const capstan_plugin table = plain_table(&pending);
    bad.table = &table;
    boot({});
    expect_good_works("a");
    EXPECT_TRUE(world.log.contains({"needs \\\"async\\\": true", kBad}));
    EXPECT_TRUE(world.shut_down());
}

TEST_F(Misbehaviour, FailedCreateMarksThePluginOnly) {
    capstan_plugin table = plain_table(&strange_code);
    table.create = &refused_create;
    bad.table = &table;
    boot({});
    expect_good_works("a");
    EXPECT_EQ(world.runtime->phase(kBad), control::PluginPhase::failed);
    EXPECT_FALSE(world.health->is_ready());
    EXPECT_NE(testing::PrintToString(world.health->reasons())
                  .find("bad.example.io: failed: create failed"),
              std::string::npos);
    EXPECT_TRUE(world.shut_down());
}

TEST_F(Misbehaviour, LeakedObjectsAreReleasedAndCounted) {
    std::set<const capstan_obj*> leaked;
    const ShutDownFirst end(world);
    boot([&](Call& call, const Request& request) {
        const capstan_obj* object = nullptr;
        const auto* table = call.host().cache;
        if (table->get(call.handle(),
                       to_str("ConfigMap"),
                       to_str(request.key.ns),
                       to_str(request.key.name),
                       &object) == CAPSTAN_OK) {
            leaked.insert(object);
        }
        // What the last run leaked is gone, and asking for it is harmless.
        for (const capstan_obj* old : leaked) {
            if (old != object) {
                EXPECT_EQ(table->bytes(old).len, 0u);
                table->release(old);
            }
        }
        return Outcome::done();
    });
    world.put_config_map("a", "1");
    ASSERT_TRUE(world.settle());
    world.put_config_map("a", "2");
    ASSERT_TRUE(world.settle());
    EXPECT_GE(leaked.size(), 2u);
    EXPECT_EQ(world.metric("capstan_plugin_leaked_objects_total{plugin=\"bad.example.io\"}"),
              std::to_string(leaked.size()));
    EXPECT_TRUE(world.log.contains({"did not release", kBad}));
}

// Ignores cancellation and sleeps past everything; waits as foreign code
// would: not through the host.
TEST_F(Misbehaviour, SleeperIsCancelledFencedAndReplaced) {
    auto stuck = world.baton.make_signal();
    bool release = false;
    capstan_call* kept = nullptr;
    std::vector<Code> after_fence;
    std::map<std::string, int> runs;
    const ShutDownFirst end(world);
    boot(
        [&](Call& call, const Request& request) {
            ++runs[request.key.name];
            if (request.key.name != "sleepy" || runs["sleepy"] > 1) {
                return Outcome::done();
            }
            kept = call.handle();
            while (!release) {
                stuck->wait_until(world.loop.now() + 1s);
            }
            after_fence.push_back(call.client().get("v1/ConfigMap", request.key).error().code);
            after_fence.push_back(call.cache().get("ConfigMap", request.key).error().code);
            return Outcome::done();
        },
        {{"controllers",
          json::list({{{"name", "main"},
                       {"maxConcurrent", 1},
                       {"deadline", "5s"},
                       {"watches", only_config_maps()}}})}});
    world.put_config_map("sleepy", "1");
    ASSERT_TRUE(world.run_until([&] { return kept != nullptr; }));
    expect_good_works("other");
    EXPECT_EQ(runs["other"], 0) << "the only worker is stuck";
    world.run_for(6s);
    EXPECT_TRUE(world.log.contains({"passed its deadline", kBad, "sleepy"}));
    world.run_for(10s);
    EXPECT_TRUE(world.log.contains({"fenced", "quarantined", kBad, "sleepy"}));
    EXPECT_EQ(runs["other"], 1) << "a fresh worker goes on with the other keys";
    EXPECT_EQ(count("capstan_keys_quarantined"), "1");
    world.put_config_map("sleepy", "2");
    world.run_for(60s);
    EXPECT_EQ(runs["sleepy"], 1) << "the key stays with the call that has not returned";
    release = true;
    ASSERT_TRUE(world.run_until([&] { return runs["sleepy"] == 2; }));
    EXPECT_EQ(after_fence, (std::vector<Code>{Code::fenced, Code::fenced}));
    ASSERT_TRUE(world.settle());
    EXPECT_EQ(count("capstan_keys_quarantined"), "0");
    EXPECT_EQ(count("capstan_stuck_workers_total"), "1");
    EXPECT_TRUE(world.shut_down());
}

TEST_F(Misbehaviour, HostCallsEndAtTheDeadline) {
    std::optional<Code> waited, asked;
    MonotonicTime began{0}, ended{0};
    const ShutDownFirst end(world);
    boot(
        [&](Call& call, const Request&) {
            began = call.now();
            waited = call.sleep_until(call.now() + 1h).error().code;
            ended = call.now();
            asked = call.client().get("v1/ConfigMap", {"ns", "a"}).error().code;
            return Outcome::failed(Error{Code::timeout, "late", {}});
        },
        {{"controllers",
          json::list({{{"name", "main"}, {"deadline", "5s"}, {"watches", only_config_maps()}}})}});
    world.put_config_map("a", "1");
    ASSERT_TRUE(world.run_until([&] { return asked.has_value(); }));
    EXPECT_EQ(waited, Code::timeout);
    EXPECT_EQ(asked, Code::timeout);
    EXPECT_GE(ended - began, 5s);
    EXPECT_LT(ended - began, 6s);
    world.run_for(1s);
    EXPECT_NE(count("controller_runtime_reconcile_timeouts_total"), "0");
}

TEST_F(Misbehaviour, HandleKeptBeyondTheCallIsHarmless) {
    capstan_call* kept = nullptr;
    std::optional<capstan_rc> rc;
    const ShutDownFirst end(world);
    boot([&](Call& call, const Request& request) {
        if (kept != nullptr && !rc) {
            const capstan_obj* object = nullptr;
            rc = call.host().cache->get(
                kept, to_str("ConfigMap"), to_str("ns"), to_str(request.key.name), &object);
            EXPECT_EQ(call.host().call->cancelled(kept), 1);
        }
        kept = call.handle();
        return Outcome::done();
    });
    world.put_config_map("a", "1");
    ASSERT_TRUE(world.settle());
    world.put_config_map("a", "2");
    ASSERT_TRUE(world.settle());
    EXPECT_EQ(rc, CAPSTAN_E_FENCED);
}

TEST_F(Misbehaviour, StopReportsWhatDoesNotEnd) {
    auto stuck = world.baton.make_signal();
    const auto until = world.loop.now() + 10min;
    const ShutDownFirst end(world);
    boot([&](Call&, const Request&) {
        while (world.loop.now() < until) {
            stuck->wait_until(until);
        }
        return Outcome::done();
    });
    world.put_config_map("a", "1");
    world.run_for(5s);
    EXPECT_FALSE(world.shut_down(10s));
    ASSERT_EQ(world.report.left.size(), 1u);
    EXPECT_EQ(world.report.left[0], "bad/main ns/a is still running");
}

TEST_F(Misbehaviour, ServiceIsStartedAgainAndStopped) {
    std::vector<MonotonicTime> starts;
    bool cancelled = false;
    bad.services["beat"] = [&](Call& call) -> Result<void> {
        starts.push_back(call.now());
        if (starts.size() == 1) {
            blow_up("service boom");
        }
        if (starts.size() < 4) {
            return fail(Code::unavailable, "no");
        }
        Token token(call.host());
        cancelled = call.wait(token, kNever).error().code == Code::cancelled;
        return ok();
    };
    const ShutDownFirst end(world);
    boot([](Call&, const Request&) { return Outcome::done(); },
         {{"services", json::list({{{"name", "beat"}}})}});
    world.run_for(2min);
    ASSERT_EQ(starts.size(), 4u);
    EXPECT_GE(starts[2] - starts[1], 700ms);
    EXPECT_TRUE(world.log.contains({"service boom", kBad}));
    expect_good_works("a");
    EXPECT_TRUE(world.shut_down());
    EXPECT_TRUE(cancelled);
}

}  // namespace
}  // namespace capstan::test
