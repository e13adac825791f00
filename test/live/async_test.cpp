// Asynchronous reconciles whose result comes from threads of the plugin's own.
#include "capstan/plugin.hpp"
#include "test/live/live_world.hpp"

#include <gtest/gtest.h>

#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

namespace capstan::test {
namespace {

using namespace std::chrono_literals;

// Threads of a plugin: take calls and finish them.
class Pool {
public:
    using Finish = std::function<void(capstan_call*)>;
    Pool(std::size_t count, Finish finish) : finish_(std::move(finish)) {
        for (std::size_t i = 0; i < count; ++i) {
            threads_.emplace_back([this] { work(); });
        }
    }
    ~Pool() {
        {
            const std::lock_guard lock(mutex_);
            ended_ = true;
        }
        changed_.notify_all();
        for (std::thread& thread : threads_) {
            thread.join();
        }
    }
    Pool(const Pool&) = delete;
    Pool& operator=(const Pool&) = delete;
    void give(capstan_call* call) {
        {
            const std::lock_guard lock(mutex_);
            calls_.push_back(call);
        }
        changed_.notify_one();
    }

private:
    void work() {
        for (;;) {
            std::unique_lock lock(mutex_);
            changed_.wait(lock, [this] { return ended_ || !calls_.empty(); });
            if (calls_.empty()) {
                return;
            }
            capstan_call* call = calls_.front();
            calls_.pop_front();
            lock.unlock();
            finish_(call);
        }
    }

    const Finish finish_;
    std::mutex mutex_;  // guards what follows
    std::condition_variable changed_;
    std::deque<capstan_call*> calls_;
    bool ended_{false};
    std::vector<std::thread> threads_;
};

capstan_result result_of(capstan_rc rc, std::int32_t retry, std::chrono::nanoseconds after = {}) {
    return {{sizeof(capstan_result), CAPSTAN_ABI},
            rc,
            retry,
            static_cast<std::uint64_t>(after.count()),
            to_str(std::string_view("told by another thread"))};
}

class LiveAsync : public ::testing::Test {
protected:
    LiveAsync() {
        const json::Value watch = {{"gvk", "v1/ConfigMap"}, {"role", "for"}, {"predicate", true}};
        world.manifest.set(
            "controllers",
            json::list({{{"name", "main"}, {"async", true}, {"watches", json::list({watch})}}}));
    }
    control::Runtime::KeyLook look(const std::string& name) {
        return world.runtime->look("live.example.io", "main", {"ns", name});
    }

    LiveWorld world;
};

TEST_F(LiveAsync, ResultsOfOtherThreadsReachTheirKeys) {
    std::mutex mutex;  // guards runs
    std::map<std::string, int> runs;
    Pool pool(3, [&](capstan_call* call) {
        const capstan_result done = result_of(CAPSTAN_OK, CAPSTAN_RETRY_NONE);
        world.call->reconcile_done(call, &done);
        world.wake();
    });
    world.reconcile = [&](capstan_call* call, const capstan_request* request) {
        int run = 0;
        {
            const std::lock_guard lock(mutex);
            run = ++runs[std::string(view_of(request->name))];
        }
        if (run == 1) {
            const capstan_result again = result_of(CAPSTAN_OK, CAPSTAN_RETRY_AFTER, 1ms);
            std::thread([&] { world.call->reconcile_done(call, &again); }).join();
            return CAPSTAN_PENDING;  // the result is there already
        }
        pool.give(call);
        return CAPSTAN_PENDING;
    };
    const StopFirst end(world);
    world.boot();
    for (int i = 0; i < 40; ++i) {
        world.put_config_map("key-" + std::to_string(i));
    }
    EXPECT_TRUE(world.until([&] {
        const std::lock_guard lock(mutex);
        return runs.size() == 40 &&
               std::all_of(runs.begin(), runs.end(), [](const auto& r) { return r.second == 2; });
    }));
    EXPECT_TRUE(world.until([&] { return world.runtime->idle(); }));
    EXPECT_EQ(look("key-0").state, "");
    EXPECT_TRUE(world.stop());
    EXPECT_EQ(runs.size(), 40u);
}

// Two threads answer the same call at once: one result holds, the log names the other.
TEST_F(LiveAsync, OfTwoResultsOneHolds) {
    constexpr int kKeys = 20;
    Pool pool(4, [&](capstan_call* call) {
        const capstan_result parked = result_of(CAPSTAN_E_INVALID, CAPSTAN_RETRY_PARKED);
        world.call->reconcile_done(call, &parked);
        world.wake();
    });
    world.reconcile = [&](capstan_call* call, const capstan_request*) {
        pool.give(call);
        pool.give(call);
        return CAPSTAN_PENDING;
    };
    const StopFirst end(world);
    world.boot();
    for (int i = 0; i < kKeys; ++i) {
        world.put_config_map("key-" + std::to_string(i));
    }
    EXPECT_TRUE(world.until([&] {
        for (int i = 0; i < kKeys; ++i) {
            if (look("key-" + std::to_string(i)).state != "parked") {
                return false;
            }
        }
        return true;
    }));
    EXPECT_EQ(world.log.count("reconcile parked its key"), std::size_t{kKeys});
    EXPECT_TRUE(world.log.contains({"told by another thread"}));
    EXPECT_TRUE(world.stop());
}

// The plugin's threads still answer while the host is stopping.
TEST_F(LiveAsync, StopCancelsAPendingCall) {
    std::mutex mutex;  // guards pending
    capstan_call* pending = nullptr;
    bool cancelled = false;
    world.cancel = [&](capstan_call* call) {
        {
            const std::lock_guard lock(mutex);
            cancelled = call == pending;
        }
        const capstan_result given_up = result_of(CAPSTAN_E_CANCELLED, CAPSTAN_RETRY_BACKOFF);
        std::thread([&] { world.call->reconcile_done(call, &given_up); }).join();
    };
    world.reconcile = [&](capstan_call* call, const capstan_request*) {
        {
            const std::lock_guard lock(mutex);
            pending = call;
        }
        world.wake();
        return CAPSTAN_PENDING;
    };
    const StopFirst end(world);
    world.boot();
    world.put_config_map("key");
    ASSERT_TRUE(world.until([&] {
        const std::lock_guard lock(mutex);
        return pending != nullptr;
    }));
    EXPECT_TRUE(world.stop());
    EXPECT_TRUE(cancelled);
    const capstan_result late = result_of(CAPSTAN_OK, CAPSTAN_RETRY_NONE);
    world.call->reconcile_done(pending, &late);  // harmless: the call has ended
    EXPECT_EQ(world.call->cancelled(pending), 1);
}

}  // namespace
}  // namespace capstan::test
