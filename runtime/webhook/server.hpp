// Answers the API server's admission reviews: from an HTTP request to a handler and back.
//
//     webhook::Server webhooks(loop, metrics, {{"/validate--v1-configmap", handler}});
//     net::make_http_server(loop, options, webhooks.handler());
//
// | what                                              | answer                                    |
// | denied, allowed                                   | 200, a review                             |
// | the handler failed (error, panic)                 | 200, a review: not allowed, code 500      |
// | malformed, another content type                   | 400, a review: not allowed, code 400      |
// | over kReviewBytesMax                              | 413                                       |
// | no answer in time; plugin not running; overloaded | 504; 503: failurePolicy decides           |
// | another path, another method                      | 404, 405                                  |
// Every request ends by the time its query gives (`?timeout=10s`), whatever the handler or a slow
// sender does. Bodies are parsed on the loop. Metrics: controller_runtime_webhook_*, label
// `webhook` is the path. Thread: [io].
#pragma once

#include "runtime/kube/admission.hpp"
#include "runtime/net/http.hpp"
#include "runtime/net/loop.hpp"
#include "runtime/obs/metrics.hpp"

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace capstan::webhook {

inline constexpr std::size_t kReviewsInFlightMax = 64;  // then 503; each holds one body

struct Endpoint {
    std::string path;
    kube::AdmissionHandler handler;
};

class Server {
public:
    // Requires: paths differ.
    Server(net::Loop& loop, obs::Metrics& metrics, std::vector<Endpoint> endpoints);
    ~Server();
    Server(const Server&) = delete;
    Server& operator=(const Server&) = delete;

    net::ServerHandler handler();  // good beyond *this: then every answer is 503

private:
    struct State;
    std::shared_ptr<State> state_;  // shared with requests in flight
};

}  // namespace capstan::webhook
