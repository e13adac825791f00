// GET …/pods/NAME/log on the local node: in one piece, or followed until the
// container ends. Thread: [io].
#pragma once

#include "runtime/local/apiserver/api_types.hpp"
#include "runtime/local/node/node.hpp"
#include "runtime/net/http.hpp"

#include <memory>

namespace capstan::cli {

// `node` may be nullptr (not started yet): 503.
void serve_pod_log(local::Node* node,
                   const local::PodLogRequest& request,
                   std::shared_ptr<net::ServerExchange> exchange);

}  // namespace capstan::cli
