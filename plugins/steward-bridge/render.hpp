// etcd's configuration file for this member. Pure.
#pragma once

#include "capstan/error.hpp"
#include "capstan/json.hpp"
#include "plugins/steward-bridge/pod_map.hpp"

#include <string>
#include <vector>

namespace capstan::steward {

struct RenderOptions {
    // Of a member that joins a running cluster, as that cluster has it: already mapped. Empty: the
    // configuration's, and the cluster is new (or goes on, which etcd sees by its data).
    std::string existing_cluster;
};

// `config`: members.M.config of steward.yaml. Only addresses, paths and the cluster's state are
// changed. The result is JSON, which etcd reads as YAML. Errors: invalid (path of the field),
// not_found (a name without an address yet).
Result<std::string> render_etcd_config(const json::Value& config,
                                       const PodMap& map,
                                       const RenderOptions& options = {});

// This member's peer URLs, each mapped. Errors: as above.
Result<std::vector<std::string>> own_peer_urls(const json::Value& config, const PodMap& map);

}  // namespace capstan::steward
