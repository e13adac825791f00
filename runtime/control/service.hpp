// One service of a plugin: a thread that runs it, again with back-off when it returns.
// Internal to runtime/control.
#pragma once

#include "runtime/control/call.hpp"
#include "runtime/control/core.hpp"

#include <atomic>
#include <memory>
#include <mutex>
#include <string>

namespace capstan::control {

class ServiceRunner {
public:
    ServiceRunner(Unit& unit, std::string name);

    Result<void> start();  // [lifecycle]
    void wake() noexcept { signal_->notify(); }
    void stop();  // [any]
    bool ended() const noexcept { return thread_ == nullptr || thread_->ended(); }
    void abandon() noexcept;
    void join() { thread_.reset(); }
    const std::string& name() const noexcept { return name_; }

private:
    void loop();
    capstan_rc run_once(std::uint64_t generation, capstan_ctl* ctl);

    Unit& unit_;
    const std::string name_;
    std::unique_ptr<Signal> signal_;
    std::unique_ptr<Thread> thread_;
    std::atomic<bool> stopping_{false};
};

}  // namespace capstan::control
