// Threads that answer a plugin's routes: two for the quick ones, up to four for the long ones.
// Internal to runtime/control.
#pragma once

#include "runtime/control/call.hpp"
#include "runtime/control/core.hpp"

#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace capstan::control {

// One incoming request while a plugin answers it. The exchange belongs to the loop.
struct ExchangeState {
    // shared as ServerHandler gives it; used on the loop only
    std::shared_ptr<net::ServerExchange> exchange;
    std::string request_json;
    std::weak_ptr<CallState> call;
    bool head_sent{false};  // handler's thread only
    bool ended{false};
};

class RoutePool {
public:
    explicit RoutePool(Unit& unit);

    // The route for a path and method; nullptr: none of this plugin. `method_wrong`: the path is
    // ours, the method is not.
    const plugin::RouteSpec* match(std::string_view path,
                                   std::string_view method,
                                   bool* method_wrong) const;
    // [io]
    void serve(const plugin::RouteSpec& route, std::shared_ptr<net::ServerExchange> exchange);
    void stop();  // [any]
    bool ended() const;
    void abandon();
    void join();

private:
    struct Job {
        const plugin::RouteSpec* route{nullptr};
        std::shared_ptr<ExchangeState> exchange;
    };
    struct Worker {
        std::unique_ptr<Thread> thread;
    };
    void work(bool long_class);
    void handle(const Job& job);

    Unit& unit_;
    std::unique_ptr<Signal> quick_signal_, long_signal_;
    mutable std::mutex mutex_;  // guards what follows
    std::deque<Job> quick_, long_;
    std::vector<Worker> quick_workers_, long_workers_;
    std::size_t long_busy_{0};  // running or waiting
    bool stopping_{false};
};

std::string describe_request(const net::ServerExchange& exchange);

}  // namespace capstan::control
