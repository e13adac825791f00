// The embedded API server's core behind a net::ServerHandler, in process: for
// LocalTransport. The user is a master.
// Thread: the loop's.
#pragma once

#include "runtime/local/apiserver/api_server.hpp"
#include "runtime/net/http.hpp"
#include "runtime/net/loop.hpp"

#include <memory>

namespace capstan::test {

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

private:
    struct Feed;
    void serve(const std::shared_ptr<net::ServerExchange>& exchange, std::string body);
    void arm();

    net::Loop& loop_;
    std::unique_ptr<local::ApiServer> server_;
    std::unique_ptr<net::Timer> tick_;
    std::vector<std::weak_ptr<Feed>> feeds_;
    MonotonicTime armed_for_{kNever};
};

}  // namespace capstan::test
