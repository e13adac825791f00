// The embedded API server's core behind a net::ServerHandler, in process: for LocalTransport. The
// user is a master.
//
// Watches can be made to misbehave one event at a time: held back, or cut before an event, which
// then never arrives. Thread: the loop's.
#pragma once

#include "runtime/local/apiserver/api_server.hpp"
#include "runtime/net/http.hpp"
#include "runtime/net/loop.hpp"

#include <deque>
#include <functional>
#include <memory>

namespace capstan::test {

// What happens to one event of an open watch; the events of the watch's start are left alone.
struct WatchFault {
    std::chrono::nanoseconds hold{0};  // it arrives that much later, and what follows behind it
    std::size_t lag{0};                // with hold: or as soon as so many others came after it
    // The stream breaks instead and the event is lost to it. For `outage` no watch opens again.
    bool cut{false};
    bool cut_all{false};  // every open watch breaks
    std::chrono::nanoseconds outage{0};
    bool expire{false};  // at the end of the outage the server has forgotten its history: 410
};

// A write of the process, after it was carried out.
struct SeenWrite {
    const std::string& method;
    const std::string& target;
    int status{0};
    bool changed{false};  // the store
    const std::string& answer;
};

// Owns the server and its ticks.
class ApiHost {
public:
    ApiHost(net::Loop& loop, std::unique_ptr<local::ApiServer> server);
    ~ApiHost();

    net::ServerHandler handler();
    local::ApiServer& server() noexcept { return *server_; }
    // A request of a person, answered at once. Never a watch.
    local::ApiResponse ask(std::string method,
                           std::string target,
                           std::string body = {},
                           std::string content_type = "application/json");
    // Makes or changes ConfigMap ns/`name`: data {value: `value`}. The status code.
    int put_config_map(const std::string& name, const std::string& value);

    // Asked for each piece of an open watch (one event, seldom more); empty: no faults.
    std::function<WatchFault(std::string_view lines)> watch_faults;
    std::function<void(const SeenWrite&)> on_write;
    void cut_watches(const WatchFault& fault);  // all that are open

private:
    struct Feed;
    void serve(const std::shared_ptr<net::ServerExchange>& exchange, std::string body);
    void serve_watch(const std::shared_ptr<net::ServerExchange>& exchange,
                     const local::ApiRequest& request);
    void take(const std::shared_ptr<Feed>& feed, std::string_view lines);
    void pass_on(const std::weak_ptr<Feed>& weak);  // what is due
    void cut(const std::shared_ptr<Feed>& feed, const WatchFault& fault);
    void arm();

    net::Loop& loop_;
    std::unique_ptr<local::ApiServer> server_;
    std::unique_ptr<net::Timer> tick_;
    std::vector<std::weak_ptr<Feed>> feeds_;
    MonotonicTime armed_for_{kNever};
    MonotonicTime no_watch_before_{0};
    bool expire_{false};
};

}  // namespace capstan::test
