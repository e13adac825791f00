#include "runtime/offline/virtual_loop.hpp"

#include "capstan/error.hpp"

#include <atomic>
#include <deque>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

namespace capstan::offline {

struct VirtualLoop::State {
    using Key = std::pair<MonotonicTime, std::uint64_t>;

    const std::thread::id owner{std::this_thread::get_id()};
    std::atomic<MonotonicTime::rep> now{0};
    std::atomic<WallTime::rep> wall_offset{0};
    mutable std::mutex mutex;  // guards the rest
    std::deque<std::function<void()>> posted;
    std::map<Key, std::function<void()>> timers;
    std::uint64_t sequence{0};
};

namespace {

template <class State>
class VirtualTimer final : public net::Timer {
public:
    VirtualTimer(std::shared_ptr<State> state, typename State::Key key)
        : state_(std::move(state)), key_(key) {}
    ~VirtualTimer() override {
        std::function<void()> task;  // destroyed outside the lock: it may own anything
        const std::lock_guard lock(state_->mutex);
        if (const auto found = state_->timers.find(key_); found != state_->timers.end()) {
            task = std::move(found->second);
            state_->timers.erase(found);
        }
    }
    VirtualTimer(const VirtualTimer&) = delete;
    VirtualTimer& operator=(const VirtualTimer&) = delete;

private:
    const std::shared_ptr<State> state_;
    const typename State::Key key_;
};

}  // namespace

VirtualLoop::VirtualLoop(WallTime wall_start) : state_(std::make_shared<State>()) {
    state_->wall_offset = wall_start.time_since_epoch().count();
}

VirtualLoop::~VirtualLoop() {
    // Tasks may own timers of this loop and post again while they die: empty the queues until
    // nothing is left.
    for (;;) {
        std::deque<std::function<void()>> posted;
        std::map<State::Key, std::function<void()>> timers;
        {
            const std::lock_guard lock(state_->mutex);
            posted.swap(state_->posted);
            timers.swap(state_->timers);
        }
        if (posted.empty() && timers.empty()) {
            return;
        }
    }
}

MonotonicTime VirtualLoop::now() const noexcept {
    return MonotonicTime{state_->now.load()};
}

WallTime VirtualLoop::wall_now() const noexcept {
    return WallTime{std::chrono::nanoseconds{state_->wall_offset.load() + state_->now.load()}};
}

void VirtualLoop::jump_wall(std::chrono::nanoseconds by) {
    state_->wall_offset += by.count();
}

void VirtualLoop::post(std::function<void()> task) {
    const std::lock_guard lock(state_->mutex);
    state_->posted.push_back(std::move(task));
}

std::unique_ptr<net::Timer> VirtualLoop::at(MonotonicTime when, std::function<void()> task) {
    const std::lock_guard lock(state_->mutex);
    const State::Key key{std::max(when, now()), ++state_->sequence};
    state_->timers.emplace(key, std::move(task));
    return std::make_unique<VirtualTimer<State>>(state_, key);
}

bool VirtualLoop::is_loop_thread() const noexcept {
    return std::this_thread::get_id() == state_->owner;
}

bool VirtualLoop::step() {
    CAPSTAN_CHECK(is_loop_thread(), "a virtual loop is run by the thread that made it");
    std::function<void()> task;
    {
        const std::lock_guard lock(state_->mutex);
        if (!state_->posted.empty()) {
            task = std::move(state_->posted.front());
            state_->posted.pop_front();
        } else if (!state_->timers.empty() && state_->timers.begin()->first.first <= now()) {
            task = std::move(state_->timers.begin()->second);
            state_->timers.erase(state_->timers.begin());
        } else {
            return false;
        }
    }
    task();
    return true;
}

std::size_t VirtualLoop::run_ready(std::size_t steps_max) {
    std::size_t steps = 0;
    while (step()) {
        ++steps;
        CAPSTAN_CHECK(steps < steps_max,
                      "the loop does not come to rest at " + std::to_string(now().count()) + " ns");
    }
    return steps;
}

MonotonicTime VirtualLoop::next_timer() const {
    const std::lock_guard lock(state_->mutex);
    return state_->timers.empty() ? kNever : state_->timers.begin()->first.first;
}

void VirtualLoop::move_to(MonotonicTime when) {
    CAPSTAN_CHECK(when >= now(), "time does not go back");
    CAPSTAN_CHECK(when <= next_timer(),
                  "a timer is due before " + std::to_string(when.count()) + " ns");
    state_->now = when.count();
}

void VirtualLoop::run_until(MonotonicTime when) {
    for (;;) {
        run_ready();
        const MonotonicTime next = next_timer();
        if (next > when || next == kNever) {
            break;
        }
        move_to(next);
    }
    if (when > now()) {
        move_to(when);
    }
}

bool VirtualLoop::run_until(const std::function<bool()>& done, MonotonicTime limit) {
    for (;;) {
        if (done()) {
            return true;
        }
        if (step()) {
            continue;
        }
        const MonotonicTime next = next_timer();
        if (next > limit || next == kNever) {
            return false;
        }
        move_to(next);
    }
}

}  // namespace capstan::offline
