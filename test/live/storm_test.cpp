// Everything a plugin and an operator can do, on many threads at once. There is little to assert:
// the run is for ThreadSanitizer and the leak checker.
#include "capstan/plugin.hpp"
#include "test/live/live_world.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace capstan::test {
namespace {

using namespace std::chrono_literals;

constexpr int kKeys = 30;

class Storm : public ::testing::Test {
protected:
    Storm() {
        world.manifest.set("services", json::list({{{"name", "beat"}}, {{"name", "drum"}}}));
        world.reconcile = [this](capstan_call* call, const capstan_request* request) {
            return reconcile(call, std::string(view_of(request->name)));
        };
        world.service = [this](capstan_call* handle) { return serve(handle); };
    }
    ~Storm() override {
        if (world.runtime != nullptr) {
            world.stop();  // before the members its threads use
        }
    }
    void start() {
        world.boot();
        tables.emplace(world.host);
        token = Token(*tables);
        const std::array labels{to_str("kind")};
        ASSERT_EQ(tables->metrics->add_metric(world.host,
                                              CAPSTAN_METRIC_COUNTER,
                                              to_str("storm_total"),
                                              to_str("Runs."),
                                              labels.data(),
                                              1,
                                              nullptr,
                                              0,
                                              &metric),
                  CAPSTAN_OK);
        ready = true;
    }
    // A Secret of the key's name, by way of nearly every table.
    capstan_rc reconcile(capstan_call* handle, const std::string& name) {
        if (!ready) {
            return CAPSTAN_E_UNAVAIL;
        }
        Call call(*tables, handle);
        const auto read = call.cache().get("ConfigMap", {"ns", name});
        static_cast<void>(call.cache().list("Secret", "ns"));
        call.log(LogLevel::info, "storm", {{"name", name}});
        call.event({"", "v1", "ConfigMap"}, {"ns", name}, "", "Normal", "Storm", "it blows");
        const std::string label = name.substr(0, 3);
        const std::array values{to_str(label)};
        tables->metrics->update(world.host, metric, values.data(), 1, 1);
        static_cast<void>(tables->sha256_hex(name));
        if (!name.ends_with("twin")) {
            static_cast<void>(call.enqueue("main", {"ns", name + "-twin"}));
        }
        token.notify();
        if (read) {
            const json::Value secret = {{"apiVersion", "v1"},
                                        {"kind", "Secret"},
                                        {"metadata", {{"name", name}, {"namespace", "ns"}}}};
            if (!call.client().apply("v1/Secret", secret)) {
                return CAPSTAN_E_UNAVAIL;
            }
            static_cast<void>(call.client().list("v1/Secret", "ns"));
            const std::lock_guard lock(mutex);
            applied.insert(name);
        }
        static_cast<void>(call.sleep_until(call.now() + 1ms));
        const int run = ++runs;
        world.wake();
        if (run == panic_at) {
            return CAPSTAN_E_PANIC;
        }
        return run % 7 == 0 ? CAPSTAN_E_CONFLICT : CAPSTAN_OK;
    }
    capstan_rc serve(capstan_call* handle) {
        if (!ready) {
            return CAPSTAN_E_UNAVAIL;
        }
        Call call(*tables, handle);
        while (!call.cancelled()) {
            static_cast<void>(call.wait(token, call.now() + 1s));
            static_cast<void>(call.cache().list("ConfigMap", ""));
            if (++beats < kKeys) {
                static_cast<void>(call.enqueue("main", {"ns", "key-0"}));
            }
            world.wake();
        }
        return CAPSTAN_OK;
    }
    bool all_applied() {
        const std::lock_guard lock(mutex);
        return applied.size() == std::size_t{kKeys};
    }
    void put_all() {
        for (int i = 0; i < kKeys; ++i) {
            world.put_config_map("key-" + std::to_string(i));
        }
    }

    LiveWorld world;
    std::optional<HostTables> tables;
    Token token;
    std::uint32_t metric{0};
    std::atomic<bool> ready{false};
    std::atomic<int> runs{0}, beats{0};
    std::atomic<int> panic_at{-1};
    std::mutex mutex;  // guards applied
    std::set<std::string> applied;
};

// What debug pages, the metrics endpoint and probes do, while it blows.
class Onlookers {
public:
    explicit Onlookers(LiveWorld& world) {
        for (int i = 0; i < 2; ++i) {
            threads_.emplace_back([this, &world] {
                std::unique_lock lock(mutex_);
                while (!changed_.wait_for(lock, 2ms, [this] { return ended_; })) {
                    lock.unlock();
                    world.metrics.render();
                    world.health.is_ready();
                    world.health.reasons();
                    world.runtime->idle();
                    world.runtime->phase("live.example.io");
                    world.runtime->look("live.example.io", "main", {"ns", "key-1"});
                    lock.lock();
                }
            });
        }
    }
    ~Onlookers() {
        {
            const std::lock_guard lock(mutex_);
            ended_ = true;
        }
        changed_.notify_all();
        for (std::thread& thread : threads_) {
            thread.join();
        }
    }
    Onlookers(const Onlookers&) = delete;
    Onlookers& operator=(const Onlookers&) = delete;

private:
    std::mutex mutex_;  // guards ended_
    std::condition_variable changed_;
    bool ended_{false};
    std::vector<std::thread> threads_;
};

TEST_F(Storm, EveryKeyGetsItsSecret) {
    start();
    {
        const Onlookers onlookers(world);
        put_all();
        EXPECT_TRUE(world.until([&] { return runs > kKeys && beats > 0 && all_applied(); }));
    }
    EXPECT_TRUE(world.stop());
    EXPECT_NE(world.metrics.render().find("storm_total{kind=\"key\"}"), std::string::npos);
}

TEST_F(Storm, InstanceIsReplacedInTheMiddle) {
    panic_at = 10;
    start();
    {
        const Onlookers onlookers(world);
        put_all();
        EXPECT_TRUE(world.until([&] { return world.log.count("plugin started") == 2; }));
        EXPECT_TRUE(world.until([&] { return all_applied() && world.health.is_ready(); }));
    }
    EXPECT_TRUE(world.log.contains({"plugin panicked"}));
    EXPECT_TRUE(world.stop());
}

TEST_F(Storm, StopInTheMiddle) {
    start();
    const Onlookers onlookers(world);
    put_all();
    ASSERT_TRUE(world.until([&] { return runs >= 5; }));
    std::optional<control::StopReport> report;
    world.runtime->stop(20s, [&](control::StopReport r) { report = std::move(r); });
    ASSERT_TRUE(world.until([&] { return report.has_value(); }));
    EXPECT_TRUE(report->clean()) << testing::PrintToString(report->left);
}

}  // namespace
}  // namespace capstan::test
