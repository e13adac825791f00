// The managed objects of one Etcd, one builder per file: what we apply, field by field.
//
// Pure. A builder writes exactly the fields this plugin owns; list fields that the API
// server replaces whole carry its defaults too, so that the object read back equals what
// was applied. Thread: any.
#pragma once

#include "plugins/etcd/cluster.hpp"

#include <string>
#include <vector>

namespace capstan::etcd {

json::Value service_account(const Cluster& cluster);
json::Value role(const Cluster& cluster);
json::Value role_binding(const Cluster& cluster);
json::Value member_lease(const Cluster& cluster, const Member& member);
json::Value pod_disruption_budget(const Cluster& cluster);
json::Value client_service(const Cluster& cluster);
json::Value peer_service(const Cluster& cluster);
// Without its token: that one is random, and given by who creates it (api_token.hpp).
json::Value api_token_secret(const Cluster& cluster);
// `hashes`: of each member's configuration, in the order of cluster.members.
json::Value config_map(const Cluster& cluster, const std::vector<std::string>& hashes);
// Without the annotation create-as-learner: that one is given by the POST that creates a
// member, never applied.
json::Value etcd_member(const Cluster& cluster,
                        const Member& member,
                        const std::string& config_hash);
json::Value stateful_set(const Cluster& cluster);

}  // namespace capstan::etcd
