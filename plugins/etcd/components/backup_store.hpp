// What backups need in a member's pod and in its steward's configuration. Pure.
#pragma once

#include "plugins/etcd/cluster.hpp"

#include <vector>

namespace capstan::etcd {

enum class StoreKind : std::uint8_t { none, local, s3, other };
StoreKind store_kind(const api::Etcd& etcd);  // none: no store, or one without a provider

json::Value backup_config(const Cluster& cluster);  // `backup` of steward.yaml; {} without a store

// What the steward's container and its pod get in addition.
struct StorePod {
    std::vector<json::Value> env, volumes, mounts, init_containers;
};
StorePod store_pod(const Cluster& cluster);

}  // namespace capstan::etcd
