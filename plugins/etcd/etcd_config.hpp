// The configuration of etcd: for the whole cluster in etcd-druid's shape, and for one
// member as etcd reads it.
//
// Pure. Facts: etcd-druid's config map (component configmap). Thread: any.
#pragma once

#include "plugins/etcd/cluster.hpp"

#include <string>

namespace capstan::etcd {

// With maps of URLs by member, as the key etcd.conf.yaml of the ConfigMap carries it.
json::Value cluster_config(const Cluster& cluster);
// A complete configuration of one member.
json::Value member_config(const Cluster& cluster, const Member& member);
// What the hash of a member's configuration covers: all that a running etcd must be restarted for.
std::string restart_relevant(const json::Value& member_config);

}  // namespace capstan::etcd
