// The two snapshot leases of etcd-druid, where EtcdMembers are not used: what is backed up, up to
// which revision.
//
// holderIdentity is a revision in decimal and only rises; renewTime of the full lease is the
// creation of the full, of the delta lease now. Leases that do not exist are not made.
#pragma once

#include "plugins/steward-bridge/snapshotter/snapshotter.hpp"

#include "capstan/plugin.hpp"

#include <cstdint>
#include <string>

namespace capstan::steward {

class SnapshotLeases {
public:
    // After each confirmation. Failures are logged once and tried again with the next one.
    void renew(Call& call,
               const std::string& ns,
               const SnapshotterConfig& config,
               const SnapshotFacts& facts);

private:
    Result<void> renew_full(Call& call, const ObjectKey& key, const SnapshotFacts& facts);
    Result<void> renew_delta(Call& call, const ObjectKey& key, const SnapshotFacts& facts);

    std::string full_done_;  // name of the full that the lease says
    std::string problem_;
};

// What the lease holds; 0: nothing yet. Errors: invalid (no number).
Result<std::int64_t> held_revision(const json::Value& lease);

}  // namespace capstan::steward
