// The real loop: one thread, one Asio io_context, system clocks.
//
// End of life is cancel, join, destroy: destroy what uses the loop (clients, servers, timers,
// watches), stop(), let run() return, then destroy the loop.
#pragma once

#include "capstan/error.hpp"
#include "runtime/net/loop.hpp"

#include <chrono>
#include <functional>
#include <memory>

namespace capstan::net {

// run() after stop(): longest wait for cancelled operations
inline constexpr std::chrono::seconds kDrainMax{2};

// Ends the watching when destroyed. [io]
class Watch {
public:
    virtual ~Watch() = default;
};

class IoLoop : public Loop {
public:
    // Makes the calling thread the loop thread until stop(). After stop() operations that were
    // cancelled still end (at most kDrainMax). May be called again afterwards.
    virtual void run() = 0;
    // run() until `done()` is true, asked after each callback; false when `limit` passed
    // first. For tests and tools.
    virtual bool run_until(std::function<bool()> done, std::chrono::nanoseconds limit) = 0;
    virtual void stop() noexcept = 0;  // [any]; idempotent

    // Calls `fired` at each arrival of the signal (SIGTERM, SIGINT, SIGHUP, SIGCHLD). [startup]
    // [io] Errors: invalid (a signal that cannot be caught).
    [[nodiscard]] virtual Result<std::unique_ptr<Watch>> on_signal(int signal,
                                                                   std::function<void()> fired) = 0;
    // Calls `ready` as long as `fd` has something to read or has ended (level-triggered).
    // `fd` is borrowed and must
    // be a pipe, socket, pidfd or the like. [io]  Errors: invalid.
    [[nodiscard]] virtual Result<std::unique_ptr<Watch>> on_readable(
        int fd, std::function<void()> ready) = 0;
};

std::unique_ptr<IoLoop> make_loop();

}  // namespace capstan::net
