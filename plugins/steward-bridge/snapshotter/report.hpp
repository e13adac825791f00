// The facts of snapshots as the member's EtcdMember shows them. Pure.
#pragma once

#include "api/etcd_member.hpp"
#include "plugins/steward-bridge/snapshotter/snapshotter.hpp"

namespace capstan::steward {

// Requires: facts.full, facts.observed_at.
api::Snapshots to_status(const SnapshotFacts& facts);

}  // namespace capstan::steward
