// Threads for `capstan render` and the simulator: real threads of which exactly one runs, in
// virtual time, in an order a seed decides.
//
// The thread that made the baton is the driver. It is the loop's thread too, and picks at each step
// one of: a runnable thread, which then runs to its next wait or yield point, or one task of the
// loop. When nothing can run, time moves to the next timer or the end of the next wait. The same
// seed gives the same order, so trace() of two runs is equal.
//
// Its lies: code between two switching points is atomic; threads it did not make must not wait or
// notify. Product code that waits with a mutex held shows as a standstill, which ends the process
// after kStallMax of real time, or is told to whoever asked for it.
#pragma once

#include "runtime/control/threads.hpp"
#include "runtime/offline/virtual_loop.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

namespace capstan::offline {

inline constexpr std::chrono::seconds kStallMax{30};

class Baton final : public control::Threads {
public:
    // `on_stall` is told the name of a thread that does not come back, and must not return itself;
    // empty: a report on stderr and abort().
    Baton(VirtualLoop& loop,
          std::uint64_t seed,
          std::function<void(const std::string& name)> on_stall = {});
    ~Baton() override;  // requires: every thread has ended

    Result<std::unique_ptr<control::Thread>> start(std::string name,
                                                   std::function<void()> body) override;
    std::unique_ptr<control::Signal> make_signal() override;
    void yield_point() noexcept override;

    // One choice. False: nothing can run at the present time.
    bool step();
    // Moves time to the next thing that waits; false: nothing waits for a time.
    bool advance(MonotonicTime limit);
    // Until `done` holds, at most to `limit` and `steps_max` choices; true when it held.
    bool run_until(const std::function<bool()>& done,
                   MonotonicTime limit,
                   std::uint64_t steps_max = 50'000'000);
    void run_for(std::chrono::nanoseconds duration);

    std::uint64_t steps() const noexcept { return steps_; }
    std::uint64_t trace() const noexcept { return trace_; }  // hash over all choices so far
    std::size_t living() const noexcept;
    std::string describe() const;  // each living thread and what it waits for

private:
    struct Actor;
    class SimSignal;
    class SimThread;
    void switch_to(Actor& actor);
    void pause(Actor& actor);  // on the actor's thread: back to the driver

    VirtualLoop& loop_;
    std::mt19937_64 random_;
    const std::function<void(const std::string& name)> on_stall_;
    std::vector<std::shared_ptr<Actor>> actors_;  // shared with their handles
    std::vector<Actor*> runnable_;                // scratch
    std::uint64_t steps_{0};
    std::uint64_t trace_{14695981039346656037ull};
    Actor* running_{nullptr};
};

}  // namespace capstan::offline
