#include "plugins/custodian/plan.hpp"

#include <algorithm>

namespace capstan::custodian {

namespace {

json::Value pick(const api::EtcdStatus& status) {
    std::vector<api::Condition> ours;
    std::copy_if(status.conditions.begin(),
                 status.conditions.end(),
                 std::back_inserter(ours),
                 [](const api::Condition& condition) { return is_ours(condition.type); });
    std::sort(
        ours.begin(), ours.end(), [](const auto& a, const auto& b) { return a.type < b.type; });
    std::vector<api::MemberSummary> members = status.members;
    std::sort(members.begin(), members.end(), [](const auto& a, const auto& b) {
        return a.name < b.name;
    });
    std::vector<api::MemberReference> references = status.member_refs;
    std::sort(references.begin(), references.end(), [](const auto& a, const auto& b) {
        return a.name < b.name;
    });
    json::Value out = json::object();
    api::put_present(out, "conditions", ours);
    api::put_present(out, "members", members);
    api::put_present(out, "memberRefs", references);
    api::put_present(out, "ready", status.ready);
    api::put_present(out, "replicas", status.replicas);
    api::put_present(out, "currentReplicas", status.current_replicas);
    api::put_present(out, "readyReplicas", status.ready_replicas);
    return out;
}

}  // namespace

Plan make_plan(const World& world, const Thresholds& thresholds) {
    const Assessment assessment = assess_members(world, thresholds);
    const auto ready_pods = static_cast<std::int32_t>(std::count_if(
        world.pods.begin(), world.pods.end(), [](const auto& pod) { return pod.second.ready; }));
    api::EtcdStatus status;
    Conditions conditions = make_conditions(world, assessment);
    status.conditions = std::move(conditions.all);
    status.members = assessment.members;
    for (const auto& [name, member] : world.members) {
        status.member_refs.push_back({name, member.metadata.uid});
    }
    status.replicas = static_cast<std::int32_t>(world.pods.size());
    status.ready_replicas = ready_pods;
    status.current_replicas = world.set ? world.set->current_replicas : 0;
    status.ready = world.set.has_value() && ready_pods == world.etcd.spec.replicas &&
                   world.pods.size() == static_cast<std::size_t>(world.etcd.spec.replicas);
    return {pick(world.etcd.status.value_or(api::EtcdStatus{})),
            pick(status),
            std::min(assessment.next_look, conditions.next_look)};
}

}  // namespace capstan::custodian
