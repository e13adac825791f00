// The conditions this plugin keeps: Ready, AllMembersReady, AllMembersUpdated, BackupReady,
// ClusterIDMismatch.
//
// Pure. Types, statuses and reasons are etcd-druid's where the case is; quorum is
// counted from spec.replicas.
#pragma once

#include "plugins/custodian/members.hpp"

#include <vector>

namespace capstan::custodian {

struct Conditions {
    std::vector<api::Condition> all;  // by type
    MonotonicTime next_look{kNever};  // from now until one may change by age alone
};

// A condition whose content did not change keeps its times. BackupReady is absent where no backups
// are asked for.
Conditions make_conditions(const World& world, const Assessment& assessment);

// True for the types above.
bool is_ours(std::string_view condition_type) noexcept;

}  // namespace capstan::custodian
