// The running cluster as its members see it: who is in it, who answers, and the few changes a
// member makes for itself. Never asks the etcd beside this steward. Thread: the call's.
#pragma once

#include "plugins/steward-bridge/configuration.hpp"
#include "plugins/steward-bridge/etcd_gateway.hpp"
#include "plugins/steward-bridge/pod_map.hpp"
#include "plugins/steward-bridge/start_plan.hpp"

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace capstan::steward {

inline constexpr std::chrono::milliseconds kMemberCallTimeout{5'000};
inline constexpr std::chrono::milliseconds kListTimeout{2'000};

// Who of the list is this member: by name, else by one of its peer URLs.
const ListedMember* find_own(const MemberList& list,
                             const std::string& name,
                             const std::vector<std::string>& peer_urls);
StartFacts::List standing_of(const ListedMember* own);

// How many of the other voters have to answer before `own_id` may be removed: a quorum of today's.
std::size_t answers_needed(const MemberList& list, const std::string& own_id);

// initial-cluster for etcd: every member with all of its peer URLs, `own` under `name`. A member
// that has told no name yet gets its id for one.
std::string initial_cluster_of(const MemberList& list,
                               const std::string& own_id,
                               const std::string& name);

class RunningCluster {
public:
    // `tls` for client URLs. All borrowed but tls.
    RunningCluster(Call& call, const Configuration& configuration, const PodMap& map, HttpTls tls);

    // The list of the first member that answers; it is the one asked from then on.
    std::optional<MemberList> find();
    // Enough of the others are in this cluster and see a leader.
    bool quorum_without(const MemberList& list, const std::string& own_id);

    // Requires: find() gave a list. Errors: as of Gateway.
    Result<MemberList> add_learner(const std::vector<std::string>& peer_urls);
    Result<MemberList> remove(const std::string& id);
    Result<MemberList> promote(const std::string& id);

private:
    Gateway gateway_;
    std::vector<std::string> endpoints_;
    std::string chosen_;
};

}  // namespace capstan::steward
