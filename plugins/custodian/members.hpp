// The standing of each member: alive by its Lease and its pod, in the cluster by its EtcdMember.
//
// Facts grow old: a lease that was not renewed for a while makes its member Unknown, later
// NotReady; Unknown is never counted as ready. Pure. Source: etcd-druid's member checks; names of
// reasons are theirs where the case is theirs.
#pragma once

#include "plugins/custodian/observe.hpp"

#include <chrono>
#include <vector>

namespace capstan::custodian {

struct Thresholds {
    // from the last renewal to Unknown
    std::chrono::nanoseconds unknown{std::chrono::minutes{1}};
    std::chrono::nanoseconds not_ready{std::chrono::minutes{5}};  // from Unknown to NotReady
};

// status.etcdMember of the plugin's configuration. Errors: invalid (not a positive duration).
Result<Thresholds> read_thresholds(const json::Value& config);

struct Assessment {
    // by name; a member that never held its lease has none
    std::vector<api::MemberSummary> members;
    std::vector<std::string> cluster_ids;  // distinct, sorted
    MonotonicTime next_look{kNever};       // from now until an answer may change by age alone
};

Assessment assess_members(const World& world, const Thresholds& thresholds);

// The member names that the spec asks for, by ordinal.
std::vector<std::string> member_names(const api::Etcd& etcd);

}  // namespace capstan::custodian
