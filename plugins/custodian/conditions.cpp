#include "plugins/custodian/conditions.hpp"

#include "plugins/custodian/backup.hpp"

#include <algorithm>
#include <iterator>

namespace capstan::custodian {

namespace {

constexpr std::string_view kTypes[] = {
    "AllMembersReady", "AllMembersUpdated", kBackupReady, "ClusterIDMismatch", "Ready"};
constexpr std::string_view kNotChecked = "NotChecked";

struct Finding {
    std::string_view status, reason;
    std::string message;
};

std::int32_t count(const Assessment& assessment, std::string_view status) {
    return static_cast<std::int32_t>(std::count_if(
        assessment.members.begin(), assessment.members.end(), [&](const auto& member) {
            return member.status == status;
        }));
}

std::string of(std::int32_t some, std::int32_t all) {
    return std::to_string(some) + " of " + std::to_string(all) + " members";
}

Finding ready(const World& world, const Assessment& assessment) {
    const std::int32_t replicas = world.etcd.spec.replicas;
    const std::int32_t quorum = replicas / 2 + 1;
    const std::int32_t ready = count(assessment, "Ready");
    const std::int32_t unknown = count(assessment, "Unknown");
    if (assessment.members.empty()) {
        return {"Unknown", "NoMembersInStatus", "No member has reported yet"};
    }
    if (ready >= quorum) {
        return {"True", "Quorate", "A majority of the members is ready"};
    }
    if (ready + unknown >= quorum) {
        return {"Unknown",
                "MembersUnknown",
                of(ready, replicas) + " are ready, of " + std::to_string(unknown) +
                    " nothing is known at present"};
    }
    return {"False",
            "QuorumLost",
            of(ready, replicas) + " are ready, " + std::to_string(quorum) + " are needed"};
}

Finding all_members_ready(const World& world, const Assessment& assessment) {
    const std::int32_t ready = count(assessment, "Ready");
    if (assessment.members.empty()) {
        return {"Unknown", "NoMembersInStatus", "No member has reported yet"};
    }
    if (ready == world.etcd.spec.replicas) {
        return {"True", "AllMembersReady", "All members are ready"};
    }
    return {"False", "NotAllMembersReady", of(ready, world.etcd.spec.replicas) + " are ready"};
}

Finding all_members_updated(const World& world) {
    if (!world.set) {
        return {"Unknown", "StatefulSetNotFound", "The StatefulSet does not exist"};
    }
    const StatefulSet& set = *world.set;
    const bool updated = set.observed_generation == set.generation &&
                         set.updated_replicas == set.replicas &&
                         set.update_revision == set.current_revision;
    return updated ? Finding{"True", "AllMembersUpdated", "All pods are of the present revision"}
                   : Finding{"False",
                             "NotAllMembersUpdated",
                             "At least one pod is not of the present revision yet"};
}

Finding cluster_id_mismatch(const Assessment& assessment) {
    if (assessment.cluster_ids.empty()) {
        return {"Unknown", "NoClusterIDDetected", "No member has reported a cluster id"};
    }
    if (assessment.cluster_ids.size() == 1) {
        return {"False", "NoClusterIDMismatchDetected", "All members report the same cluster id"};
    }
    std::string ids;
    for (const std::string& id : assessment.cluster_ids) {
        ids += (ids.empty() ? "" : ", ") + id;
    }
    return {"True", "MultipleClusterIDsDetected", "Members report different cluster ids: " + ids};
}

const api::Condition* find(const api::Etcd& etcd, std::string_view type) {
    if (etcd.status) {
        for (const api::Condition& condition : etcd.status->conditions) {
            if (condition.type == type) {
                return &condition;
            }
        }
    }
    return nullptr;
}

api::Condition merge(const World& world, std::string_view type, Finding finding) {
    const api::Condition* old = find(world.etcd, type);
    const std::string now = to_rfc3339(world.now);
    if (world.etcd.spec.replicas == 0) {
        finding = {old != nullptr ? std::string_view(old->status) : "Unknown",
                   kNotChecked,
                   "The cluster is scaled down to 0"};
    }
    api::Condition made;
    made.type = type;
    made.status = finding.status;
    made.reason = finding.reason;
    made.message = std::move(finding.message);
    // What was only kept is no finding: it begins anew with the first one.
    const bool same_status = old != nullptr && old->status == made.status &&
                             (old->reason != kNotChecked || made.reason == kNotChecked);
    const bool same = same_status && old->reason == made.reason && old->message == made.message;
    made.last_transition_time = same_status ? old->last_transition_time : now;
    made.last_update_time = same ? old->last_update_time : now;
    return made;
}

}  // namespace

bool is_ours(std::string_view condition_type) noexcept {
    return std::find(std::begin(kTypes), std::end(kTypes), condition_type) != std::end(kTypes);
}

Conditions make_conditions(const World& world, const Assessment& assessment) {
    Conditions made;
    made.all.push_back(merge(world, "AllMembersReady", all_members_ready(world, assessment)));
    made.all.push_back(merge(world, "AllMembersUpdated", all_members_updated(world)));
    if (auto backups = judge_backups(world, find(world.etcd, kBackupReady))) {
        made.next_look = backups->next_look;
        made.all.push_back(merge(
            world, kBackupReady, {backups->status, backups->reason, std::move(backups->message)}));
    }
    made.all.push_back(merge(world, "ClusterIDMismatch", cluster_id_mismatch(assessment)));
    made.all.push_back(merge(world, "Ready", ready(world, assessment)));
    return made;
}

}  // namespace capstan::custodian
