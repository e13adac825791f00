// One child process that ends when we end: the operator of `capstan up`. Started again with
// back-off when it dies.
#pragma once

#include "capstan/error.hpp"
#include "runtime/net/io_loop.hpp"

#include <sys/types.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace capstan::cli {

inline constexpr std::chrono::milliseconds kChildPauseFirst{500};
inline constexpr std::chrono::milliseconds kChildPauseMax{10'000};

// Thread: [io].
class Child {
public:
    // `argv[0]` is the program; output of the child is appended to `log_path`. on_exit: each
    // time it ended by itself.
    Child(net::IoLoop& loop,
          std::vector<std::string> argv,
          std::string log_path,
          std::function<void(int code)> on_exit);
    ~Child();  // SIGKILL when it still runs
    Child(const Child&) = delete;
    Child& operator=(const Child&) = delete;

    Result<void> start();
    void stop(std::function<void()> done);  // SIGTERM; SIGKILL after 5 s; no restart
    pid_t pid() const noexcept { return pid_; }

private:
    void ended();

    net::IoLoop& loop_;
    const std::vector<std::string> argv_;
    const std::string log_path_;
    const std::function<void(int)> on_exit_;
    std::function<void()> on_stopped_;
    pid_t pid_{-1};
    int pid_fd_{-1};
    bool stopping_{false};
    std::unique_ptr<net::Watch> watch_;
    std::unique_ptr<net::Timer> timer_;
    MonotonicTime started_{0};
    std::chrono::milliseconds pause_{kChildPauseFirst};
};

}  // namespace capstan::cli
