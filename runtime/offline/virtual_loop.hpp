// A net::Loop in virtual time: nothing waits, time moves only when a test moves it.
//
// Its lies: callbacks take no time, I/O is never ready by itself, and two timers at one instant run
// in the order they were made. Thread: run by the thread that made it; post() and now() from any.
#pragma once

#include "runtime/net/loop.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

namespace capstan::offline {

class VirtualLoop final : public net::Loop {
public:
    // 2026-01-01
    explicit VirtualLoop(WallTime wall_start = WallTime{std::chrono::seconds{1'767'225'600}});
    ~VirtualLoop() override;

    MonotonicTime now() const noexcept override;
    WallTime wall_now() const noexcept override;
    void post(std::function<void()> task) override;
    [[nodiscard]] std::unique_ptr<net::Timer> at(MonotonicTime when,
                                                 std::function<void()> task) override;
    bool is_loop_thread() const noexcept override;

    // One posted task, else one due timer. False: nothing can run at the present time.
    bool step();
    // Runs everything that can run without time passing. Returns the number of tasks; a check fails
    // after `steps_max`.
    std::size_t run_ready(std::size_t steps_max = 10'000'000);
    // When the earliest timer is due; kNever: no timer.
    MonotonicTime next_timer() const;
    // Moves to `when` without running anything; never back. Requires: no timer is due before it.
    void move_to(MonotonicTime when);
    // Runs all there is up to and including `when`, then stands there.
    void run_until(MonotonicTime when);
    void run_for(std::chrono::nanoseconds duration) { run_until(now() + duration); }
    // Runs until `done` holds, at most to `limit`; true when it held.
    bool run_until(const std::function<bool()>& done, MonotonicTime limit);
    // the wall clock is set; monotonic time is not touched
    void jump_wall(std::chrono::nanoseconds by);

private:
    struct State;
    std::shared_ptr<State> state_;  // shared with timers, which may outlive the loop
};

}  // namespace capstan::offline
