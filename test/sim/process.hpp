// A process of its own in a world of several: a loop, threads and connections that can be stopped
// for a while, as SIGSTOP, a busy machine or a live migration do.
//
// While it is stopped nothing of it runs and time goes on; what it has sent arrives, and what
// arrives for it waits. Its lie: it stops at switching points of the baton only. Thread: the
// loop's.
#pragma once

#include "runtime/control/threads.hpp"
#include "runtime/net/http.hpp"
#include "test/fakes/local_transport.hpp"
#include "test/fakes/virtual_loop.hpp"
#include "test/sim/baton.hpp"

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace capstan::test {

class StoppableLoop final : public net::Loop {
public:
    explicit StoppableLoop(VirtualLoop& loop);
    MonotonicTime now() const noexcept override;
    WallTime wall_now() const noexcept override;
    void post(std::function<void()> task) override;
    [[nodiscard]] std::unique_ptr<net::Timer> at(MonotonicTime when,
                                                 std::function<void()> task) override;
    bool is_loop_thread() const noexcept override;

    // Runs `task` now, or when the process goes on; in the order of arrival.
    void arrive(std::function<void()> task);
    void stop();
    void go_on();
    bool stopped() const;
    // Called by go_on().
    void when_it_goes_on(std::function<void()> wake);

private:
    struct State;
    const std::shared_ptr<State> state_;  // shared with tasks that outlive it
};

class StoppableThreads final : public control::Threads {
public:
    StoppableThreads(Baton& baton, StoppableLoop& loop) : baton_(baton), loop_(loop) {}
    Result<std::unique_ptr<control::Thread>> start(std::string name,
                                                   std::function<void()> body) override;
    std::unique_ptr<control::Signal> make_signal() override;
    void yield_point() noexcept override;
    void stay() noexcept;  // returns when the process is not stopped

private:
    class HeldSignal;
    Baton& baton_;
    StoppableLoop& loop_;
};

// Requests travel by the world's loop, answers arrive at the process's.
class StoppableTransport final : public net::HttpClient {
public:
    StoppableTransport(LocalTransport& inner, StoppableLoop& loop) : inner_(inner), loop_(loop) {}
    [[nodiscard]] std::unique_ptr<net::HttpExchange> send(
        net::HttpRequest request, std::function<void(Result<net::HttpResponse>)> done) override;
    [[nodiscard]] std::unique_ptr<net::HttpStream> stream(net::HttpRequest request,
                                                          net::StreamOptions options,
                                                          net::StreamHandler handler) override;

private:
    LocalTransport& inner_;
    StoppableLoop& loop_;
};

}  // namespace capstan::test
