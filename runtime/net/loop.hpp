// The host's one event loop, as the rest of the runtime sees it.
//
// All network I/O, timers and caches live on one thread. Everything above `net` is written against
// this interface, so a simulator runs the same code in virtual time. Source: docs/architecture.md.
#pragma once

#include "capstan/clock.hpp"

#include <functional>
#include <memory>

namespace capstan::net {

// Cancels its timer when destroyed. [io]
class Timer {
public:
    virtual ~Timer() = default;
};

class Loop : public Clock {
public:
    // Runs `task` on the loop thread, in the order of posting. [any]
    virtual void post(std::function<void()> task) = 0;
    // Runs `task` once at `when` (at once if past), unless the timer is destroyed first. [io]
    [[nodiscard]] virtual std::unique_ptr<Timer> at(MonotonicTime when,
                                                    std::function<void()> task) = 0;
    // True on the loop thread. [any]
    virtual bool is_loop_thread() const noexcept = 0;
};

}  // namespace capstan::net
