// Threads that answer a plugin's routes: two for the quick ones, up to four for the long ones. A
// thread in a quick handler that is past its fence is replaced, up to kQuickStuckMax.
// Internal to runtime/control.
#pragma once

#include "runtime/control/call.hpp"
#include "runtime/control/core.hpp"

#include <algorithm>
#include <deque>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

namespace capstan::control {

// Threads in quick handlers that did not return by their fence; as many are replaced.
inline constexpr std::size_t kQuickStuckMax = 16;

// One incoming request while a plugin answers it. The exchange belongs to the loop.
struct ExchangeState {
    // shared as ServerHandler gives it; used on the loop only
    std::shared_ptr<net::ServerExchange> exchange;
    std::string request_json;
    std::weak_ptr<CallState> call;
    bool head_sent{false};  // handler's thread only
    bool ended{false};
    bool reading{false};  // loop only
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
    void stop();                                  // what waits is answered 503 [any]
    void replace_worker(const CallState& stuck);  // [lifecycle]
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
    void start_thread(bool long_class);
    void work(bool long_class);
    void handle(const Job& job);
    bool quick_wanted();  // requires the lock; true: one more was counted
    // requires the lock
    std::size_t quick_max() const {
        return kQuickThreads + std::min(stuck_.size(), kQuickStuckMax);
    }

    Unit& unit_;
    std::unique_ptr<Signal> quick_signal_, long_signal_;
    mutable std::mutex mutex_;  // guards what follows
    std::deque<Job> quick_, long_;
    std::vector<Worker> quick_workers_, long_workers_;
    std::size_t long_busy_{0};                        // running or waiting
    std::size_t quick_alive_{0};                      // threads that have not ended
    std::set<const CallState*> quick_calls_, stuck_;  // in a handler; of these, past their fence
    bool stopping_{false};
};

std::string describe_request(const net::ServerExchange& exchange);

}  // namespace capstan::control
