// The part of Etcd.status that this plugin owns: as it is, and as it shall be.
//
// Owned: conditions of conditions.hpp, members, memberRefs, ready, replicas, currentReplicas,
// readyReplicas. The rest belongs to other plugins and is never sent. Pure. Thread: any.
#pragma once

#include "plugins/custodian/conditions.hpp"

namespace capstan::custodian {

struct Plan {
    json::Value present;              // owned part of the cached status
    json::Value wanted;               // equal to `present`: nothing is sent
    MonotonicTime next_look{kNever};  // from now
};

Plan make_plan(const World& world, const Thresholds& thresholds);

}  // namespace capstan::custodian
