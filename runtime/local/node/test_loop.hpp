// Loops for the tests of the node: one in real time with real posting, one
// whose time the test moves.
//
// The real one is only for tests that need real processes; each run has a limit.
#pragma once

#include "runtime/net/loop.hpp"

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>

namespace capstan::local::testing {

struct TimerTable {
    using Key = std::pair<MonotonicTime, std::uint64_t>;
    std::map<Key, std::function<void()>> timers;
    std::uint64_t next{1};
};

class TableTimer final : public net::Timer {
public:
    TableTimer(std::shared_ptr<TimerTable> table, TimerTable::Key key)
        : table_(std::move(table)), key_(key) {}
    ~TableTimer() override { table_->timers.erase(key_); }

private:
    std::shared_ptr<TimerTable> table_;
    TimerTable::Key key_;
};

class LoopBase : public net::Loop {
public:
    void post(std::function<void()> task) override {
        const std::lock_guard lock(mutex_);
        tasks_.push_back(std::move(task));
        wake_.notify_one();
    }
    std::unique_ptr<net::Timer> at(MonotonicTime when, std::function<void()> task) override {
        const TimerTable::Key key{when, table_->next++};
        table_->timers.emplace(key, std::move(task));
        return std::make_unique<TableTimer>(table_, key);
    }
    bool is_loop_thread() const noexcept override { return true; }

protected:
    bool run_one() {
        std::function<void()> task;
        {
            const std::lock_guard lock(mutex_);
            if (!tasks_.empty()) {
                task = std::move(tasks_.front());
                tasks_.pop_front();
            }
        }
        if (!task && !table_->timers.empty() && table_->timers.begin()->first.first <= now()) {
            task = std::move(table_->timers.begin()->second);
            table_->timers.erase(table_->timers.begin());
        }
        if (!task) {
            return false;
        }
        task();
        return true;
    }

    std::mutex mutex_;
    std::condition_variable wake_;
    std::deque<std::function<void()>> tasks_;
    std::shared_ptr<TimerTable> table_{std::make_shared<TimerTable>()};
};

class RealLoop final : public LoopBase {
public:
    MonotonicTime now() const noexcept override {
        return std::chrono::steady_clock::now().time_since_epoch();
    }
    WallTime wall_now() const noexcept override { return std::chrono::system_clock::now(); }

    // Runs until `done` says so; false: `limit` passed first.
    bool run_until(const std::function<bool()>& done, std::chrono::milliseconds limit) {
        const auto end = now() + limit;
        while (!done()) {
            if (now() > end) {
                return false;
            }
            if (run_one()) {
                continue;
            }
            std::unique_lock lock(mutex_);
            wake_.wait_for(lock, std::chrono::milliseconds(5), [this] { return !tasks_.empty(); });
        }
        return true;
    }
};

class ManualLoop final : public LoopBase {
public:
    MonotonicTime now() const noexcept override { return now_; }
    WallTime wall_now() const noexcept override {
        return WallTime{} + std::chrono::hours(490'000) + now_;
    }

    void settle() {
        for (int i = 0; i < 100'000 && run_one(); ++i) {
        }
    }
    void advance(std::chrono::nanoseconds by) {
        const auto end = now_ + by;
        settle();
        while (!table_->timers.empty() && table_->timers.begin()->first.first <= end) {
            now_ = std::max(now_, table_->timers.begin()->first.first);
            settle();
        }
        now_ = end;
        settle();
    }

private:
    MonotonicTime now_{std::chrono::hours(1)};
};

}  // namespace capstan::local::testing
