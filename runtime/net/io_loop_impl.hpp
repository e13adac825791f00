// The io_context behind make_loop(), for the other files of this folder.
#pragma once

#include "runtime/net/io_loop.hpp"

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>

#include <atomic>
#include <thread>

namespace capstan::net {

class IoLoopImpl final : public IoLoop {
public:
    IoLoopImpl();
    ~IoLoopImpl() override;

    MonotonicTime now() const noexcept override;
    WallTime wall_now() const noexcept override;
    void post(std::function<void()> task) override;
    std::unique_ptr<Timer> at(MonotonicTime when, std::function<void()> task) override;
    bool is_loop_thread() const noexcept override;
    void run() override;
    bool run_until(std::function<bool()> done, std::chrono::nanoseconds limit) override;
    void stop() noexcept override;
    Result<std::unique_ptr<Watch>> on_signal(int signal, std::function<void()> fired) override;
    Result<std::unique_ptr<Watch>> on_readable(int fd, std::function<void()> ready) override;

    boost::asio::io_context& context() noexcept { return context_; }

private:
    boost::asio::io_context context_{1};
    boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_;
    std::atomic<std::thread::id> thread_{};
    std::atomic<bool> stopping_{false};
};

// Requires: the loop came from make_loop().
boost::asio::io_context& context_of(IoLoop& loop) noexcept;

}  // namespace capstan::net
