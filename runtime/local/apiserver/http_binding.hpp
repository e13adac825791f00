// The API server on HTTP: exchanges to handle() and open_watch(), watch streams with a bounded
// backlog, and the timer that drives tick().
//
// Works with any net::ServerHandler user: the real server, or the simulator's in-process
// transport. Thread: loop.
#pragma once

#include "runtime/local/apiserver/api_server.hpp"
#include "runtime/local/apiserver/authenticator.hpp"
#include "runtime/net/http.hpp"
#include "runtime/net/loop.hpp"

#include <cstddef>
#include <functional>
#include <memory>

namespace capstan::local {

// a watcher this far behind is cut off
inline constexpr std::size_t kWatchBacklogBytesMax = 16u * 1024 * 1024;

struct HttpBindingOptions {
    std::size_t watch_backlog_bytes_max{kWatchBacklogBytesMax};
    // Takes over a checked pods/log request and its exchange; null:
    // ApiServerOptions::pod_log answers in one piece.
    std::function<void(const PodLogRequest&, std::shared_ptr<net::ServerExchange>)> pod_log;
};

class HttpBinding {
public:
    // Borrowed: all three outlive *this. Sets the server's wake callback.
    HttpBinding(net::Loop& loop,
                ApiServer& server,
                const Authenticator& authenticator,
                HttpBindingOptions options = {});
    ~HttpBinding();  // ends every watch stream; exchanges that come later get 503
    HttpBinding(const HttpBinding&) = delete;
    HttpBinding& operator=(const HttpBinding&) = delete;

    // For make_http_server. May outlive *this.
    net::ServerHandler handler();

private:
    struct State;
    // shared: handlers and callbacks of exchanges look whether it is still open
    std::shared_ptr<State> state_;
};

}  // namespace capstan::local
