// What stands behind the call of a command. Internal to runtime/control.
#pragma once

#include "runtime/control/command.hpp"
#include "runtime/control/threads.hpp"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cstdint>
#include <deque>
#include <string>

namespace capstan::control {

// A waiter of a call that a poll() sees.
class PolledSignal final : public Signal {
public:
    PolledSignal() : fd_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}
    ~PolledSignal() override {
        if (fd_ >= 0) {
            ::close(fd_);
        }
    }
    int fd() const noexcept { return fd_; }
    bool wait_until(MonotonicTime) override { return true; }  // poll() waits
    void notify() noexcept override {
        const std::uint64_t one = 1;
        [[maybe_unused]] const auto written = ::write(fd_, &one, sizeof one);
    }

private:
    const int fd_;
};

struct CommandState {
    CommandLine line;
    // Of the thread of the command:
    int write_error{0};
    std::deque<std::string> environment;  // values handed out; they stay where they are
};

}  // namespace capstan::control
