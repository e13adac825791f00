// NodeApi on the embedded API server's core, in the same process, as system:masters.
//
// A watch that ends (timeout, 410) is opened again after a list, and what the list no longer has is
// reported as deleted. Thread: [io].
#pragma once

#include "runtime/local/node/node_api.hpp"
#include "runtime/net/loop.hpp"

#include <memory>

namespace capstan::local {

class ApiServer;

inline constexpr std::string_view kNodeUser = "system:node:local";

// Both are borrowed and outlive the result.
std::unique_ptr<NodeApi> make_node_api(net::Loop& loop, ApiServer& server);

}  // namespace capstan::local
