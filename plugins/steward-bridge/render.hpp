// etcd's configuration file for this member. Pure.
#pragma once

#include "capstan/error.hpp"
#include "capstan/json.hpp"
#include "plugins/steward-bridge/pod_map.hpp"

#include <string>

namespace capstan::steward {

// `config`: members.M.config of steward.yaml. Only addresses, paths and the cluster's state are
// changed. The result is JSON, which etcd reads as YAML. Errors: invalid (path of the field),
// not_found (a name without an address yet).
Result<std::string> render_etcd_config(const json::Value& config,
                                       const PodMap& map,
                                       bool existing_cluster);

}  // namespace capstan::steward
