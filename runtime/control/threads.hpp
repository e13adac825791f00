// Threads the host owns, and the only way they wait.
//
// Plugin code blocks, so it runs here and never on the loop. A simulator provides its own
// implementation in which exactly one thread runs at a time and every wait is a switching point.
// Rule for callers: never wait, and never reach a yield_point(), with a mutex held. Thread: any.
#pragma once

#include "capstan/clock.hpp"
#include "capstan/error.hpp"

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

namespace capstan::control {

inline constexpr std::size_t kStackBytes = 8u * 1024 * 1024;

// One remembered notice. Any number of threads may wait; a notice ends one wait.
class Signal {
public:
    virtual ~Signal() = default;
    // True: notified, now or since the last wait (the notice is used up).
    // False: `until` has passed.
    virtual bool wait_until(MonotonicTime until) = 0;
    virtual void notify() noexcept = 0;
};

class Thread {
public:
    virtual ~Thread() = default;  // joins, unless abandoned
    virtual bool ended() const noexcept = 0;
    // For a body stuck in foreign code: the destructor no longer joins. What the body still uses
    // must be shared with it.
    virtual void abandon() noexcept = 0;
};

class Threads {
public:
    virtual ~Threads() = default;
    // Errors: unavailable (the system has no thread left to give). `name` is cut to 15 bytes.
    [[nodiscard]] virtual Result<std::unique_ptr<Thread>> start(std::string name,
                                                                std::function<void()> body) = 0;
    [[nodiscard]] virtual std::unique_ptr<Signal> make_signal() = 0;
    virtual void yield_point() noexcept = 0;  // nothing on a real system
};

// Threads of the operating system, with stacks of kStackBytes.
std::unique_ptr<Threads> make_threads();

}  // namespace capstan::control
