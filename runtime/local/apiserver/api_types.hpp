// What goes into and comes out of the embedded API server's core: requests,
// answers, users, watch sinks.
//
// Values without behaviour. Thread: any.
#pragma once

#include "runtime/local/apiserver/rbac.hpp"

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace capstan::local {

struct ApiRequest {
    std::string method{"GET"};
    std::string target;        // path and query, still escaped: "/api/v1/pods?limit=5"
    std::string content_type;  // of `body`; decides the kind of patch
    std::string accept;
    std::string body;        // at most kBodyBytesMax (api_server.hpp)
    std::string user_agent;  // default field manager: the part before '/'
    User user;               // empty name: system:anonymous
};

struct ApiResponse {
    int status{200};
    std::string content_type{"application/json"};
    std::vector<std::pair<std::string, std::string>> headers;  // Retry-After, Warning
    std::string body;
};

// Where a watch's events go. Called inside ApiServer::open_watch, handle and tick; neither function
// may call the server, but either may destroy the watch's own handle.
struct WatchSink {
    // one or more whole JSON events, each ended by '\n'
    std::function<void(std::string_view lines)> on_lines;
    // last call: timeout, 410, or the server is shutting down
    std::function<void()> on_end;
};

// A running watch; destroying it ends the watch, no call of the sink follows.
class WatchHandle {
public:
    virtual ~WatchHandle() = default;
};

// GET …/pods/NAME/log, checked: the pod exists and the user may read it.
struct PodLogRequest {
    std::string ns;
    std::string pod;
    std::string uid;
    std::string container;  // empty: the only one, or the first
    bool follow{false};
    bool previous{false};
    bool timestamps{false};
    long long tail_lines{-1};  // -1: all
    long long since_seconds{-1};
    long long limit_bytes{-1};
};

}  // namespace capstan::local
