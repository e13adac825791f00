// The conditions this plugin keeps: Ready, AllMembersReady, AllMembersUpdated, ClusterIDMismatch.
//
// Pure. Types, statuses and reasons are etcd-druid's where the case is; quorum is
// counted from spec.replicas.
#pragma once

#include "plugins/custodian/members.hpp"

#include <vector>

namespace capstan::custodian {

// By type. A condition whose content did not change keeps its times.
std::vector<api::Condition> make_conditions(const World& world, const Assessment& assessment);

// True for the types above.
bool is_ours(std::string_view condition_type) noexcept;

}  // namespace capstan::custodian
