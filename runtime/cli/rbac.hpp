// The rights an operator process needs for the plugins it loads, as RBAC objects. Pure.
#pragma once

#include "capstan/json.hpp"
#include "runtime/plugin/manifest.hpp"

#include <string>
#include <vector>

namespace capstan::cli {

// ClusterRole `name`: the union of every manifest's permissions and grants (the API server
// lets nobody grant what he does not have), and what the host itself writes: Events. `reviews`: and
// what listeners.ops.authentication: kubernetes asks.
json::Value cluster_role(const std::string& name,
                         const std::vector<plugin::Manifest>& manifests,
                         bool reviews = false);
// Role `name`: what leader election needs on its one Lease. `create` cannot be bound to a name.
// `ns` empty: the Role names no namespace.
json::Value lease_role(const std::string& name, const std::string& ns, const std::string& lease);
json::Value cluster_role_binding(const std::string& name, const std::string& user);

}  // namespace capstan::cli
