#include "plugins/etcd/plan.hpp"

#include "plugins/etcd/components/components.hpp"
#include "plugins/etcd/etcd_config.hpp"
#include "plugins/etcd/rollout.hpp"

#include <algorithm>

namespace capstan::etcd {

namespace {

bool has_annotation(const api::Etcd& etcd, std::string_view key) {
    return etcd.metadata.annotations.contains(std::string(key));
}

bool asked_for(const api::Etcd& etcd) {
    for (std::string_view key : {kAnnotationOperation, kAnnotationOperationOld}) {
        auto found = etcd.metadata.annotations.find(std::string(key));
        if (found != etcd.metadata.annotations.end() && found->second == "reconcile") {
            return true;
        }
    }
    return false;
}

Step patch_etcd(const api::Etcd& etcd, json::Value operations, std::string code) {
    Step step;
    step.kind = Step::Kind::patch;
    step.code = std::move(code);
    step.gvk = GroupVersionKind::from_api_version(api::kApiVersion, api::kEtcdKind);
    step.key = {etcd.metadata.ns, etcd.metadata.name};
    step.object = std::move(operations);
    return step;
}

json::Value test(std::string_view path, json::Value value) {
    return {{"op", "test"}, {"path", path}, {"value", std::move(value)}};
}

Step add_finalizer(const api::Etcd& etcd) {
    json::Value list = json::list();
    for (const std::string& present : etcd.metadata.finalizers) {
        list.push_back(present);
    }
    list.push_back(kFinalizer);
    return patch_etcd(etcd,
                      json::list({
                          test("/metadata/uid", etcd.metadata.uid),
                          test("/metadata/resourceVersion", etcd.metadata.resource_version),
                          {{"op", "add"}, {"path", "/metadata/finalizers"}, {"value", list}},
                      }),
                      "FINALIZER");
}

Step remove_finalizer(const api::Etcd& etcd) {
    const auto& all = etcd.metadata.finalizers;
    const auto at = std::find(all.begin(), all.end(), kFinalizer) - all.begin();
    const std::string path = "/metadata/finalizers/" + std::to_string(at);
    return patch_etcd(etcd,
                      json::list({
                          test(path, kFinalizer),
                          {{"op", "remove"}, {"path", path}},
                      }),
                      "FINALIZER");
}

Step drop_operation_annotations(const api::Etcd& etcd) {
    json::Value operations = json::list();
    for (std::string_view key : {kAnnotationOperation, kAnnotationOperationOld}) {
        auto found = etcd.metadata.annotations.find(std::string(key));
        if (found != etcd.metadata.annotations.end()) {
            const std::string path = "/metadata/annotations/" + json::escape_pointer_token(key);
            operations.push_back(test(path, found->second));
            operations.push_back({{"op", "remove"}, {"path", path}});
        }
    }
    return patch_etcd(etcd, std::move(operations), "ANNOTATION");
}

Step child_step(Step::Kind kind, std::string code, json::Value object) {
    const json::View view(object);
    Step step;
    step.kind = kind;
    step.code = std::move(code);
    step.gvk = GroupVersionKind::from_api_version(view["apiVersion"].string_or(""),
                                                  view["kind"].string_or(""));
    step.key = {std::string(view["metadata"]["namespace"].string_or("")),
                std::string(view["metadata"]["name"].string_or(""))};
    step.object = std::move(object);
    return step;
}

bool member_exists(const World& world, const std::string& name) {
    return std::any_of(world.members.begin(),
                       world.members.end(),
                       [&](const api::EtcdMember& member) { return member.metadata.name == name; });
}

// A member that is added to a running cluster joins as learner. The annotation is part of the POST
// only: applied, it would come back after the steward removed it.
void add_member_steps(const World& world,
                      const Cluster& cluster,
                      const Rollout& rollout,
                      std::vector<Step>& steps) {
    for (std::size_t i = 0; i < cluster.members.size(); ++i) {
        const Member& member = cluster.members[i];
        json::Value object = etcd_member(cluster, member, rollout.hashes[i]);
        const bool joins = world.set_replicas && *world.set_replicas > 0 &&
                           i >= static_cast<std::size_t>(*world.set_replicas);
        if (joins && !member_exists(world, member.name)) {
            json::Value posted = object;
            posted["metadata"]["annotations"].set(kAnnotationCreateAsLearner, "true");
            steps.push_back(child_step(Step::Kind::create, "ETCD_MEMBER", std::move(posted)));
        }
        steps.push_back(child_step(Step::Kind::apply, "ETCD_MEMBER", std::move(object)));
    }
}

void remove_surplus_members(const World& world, const Cluster& cluster, std::vector<Step>& steps) {
    for (const api::EtcdMember& member : world.members) {
        const bool wanted =
            std::any_of(cluster.members.begin(), cluster.members.end(), [&](const Member& one) {
                return one.name == member.metadata.name;
            });
        if (!wanted) {
            Step step;
            step.kind = Step::Kind::remove;
            step.code = "ETCD_MEMBER";
            step.gvk = GroupVersionKind::from_api_version(api::kApiVersion, api::kEtcdMemberKind);
            step.key = {member.metadata.ns, member.metadata.name};
            steps.push_back(std::move(step));
        }
    }
}

Plan refuse(const World& world, const Refusal& why, std::string code) {
    Plan plan;
    plan.report = Report{};
    plan.report->state = "Error";
    plan.report->description = why.message;
    plan.report->problems.push_back({std::move(code), why.message});
    plan.report->refused = why;
    const auto& status = world.etcd.status;
    if (!status || !status->last_operation || status->last_operation->description != why.message) {
        plan.event_reason = why.reason;
        plan.event_note = why.message;
    }
    return plan;
}

Plan deletion_plan(const World& world) {
    Plan plan;
    const api::Etcd& etcd = world.etcd;
    if (!etcd.metadata.has_finalizer(kFinalizer)) {
        return plan;
    }
    if (world.children.empty()) {
        // Nobody may list Secrets, so it is asked for once, whether it is there or not.
        Step token;
        token.kind = Step::Kind::remove;
        token.code = "API_TOKEN";
        token.gvk = GroupVersionKind::from_api_version("v1", "Secret");
        token.key = {etcd.metadata.ns, Cluster::api_token_of(etcd.metadata.name)};
        plan.last.push_back(std::move(token));
        plan.last.push_back(remove_finalizer(etcd));
        return plan;
    }
    // The StatefulSet alone first: its members keep their rights and their records while they stop.
    const bool set_is_there = world.children.front().gvk.kind == "StatefulSet";
    for (const Child& child : world.children) {
        Step step;
        step.kind = Step::Kind::remove;
        step.code = "CHILD";
        for (const ChildKind& kind : child_kinds()) {
            step.code = kind.gvk == child.gvk.to_string() ? std::string(kind.code) : step.code;
        }
        step.gvk = child.gvk;
        step.key = child.key;
        plan.steps.push_back(std::move(step));
        if (set_is_there) {
            break;
        }
    }
    plan.report = Report{};
    plan.report->type = "Delete";
    plan.report->state = "Processing";
    plan.report->description = set_is_there ? "Waiting for the StatefulSet to be gone"
                                            : "Waiting for all children to be gone";
    plan.again = kLookAgain;
    return plan;
}

// One that is there cannot be seen, since nobody may list Secrets: the ConfigMap, which is applied
// after it, tells. A new spec and a person who asks make it again where it is gone.
bool needs_api_token(const World& world, const Cluster& cluster) {
    const auto& status = world.etcd.status;
    const bool known = world.api_token_named && status &&
                       status->observed_generation == world.etcd.metadata.generation;
    return !cluster.backup_tls() && (!known || asked_for(world.etcd));
}

Result<std::vector<std::string>> target_hashes(const World& world, const Cluster& cluster) {
    std::vector<std::string> hashes;
    for (const Member& member : cluster.members) {
        CAPSTAN_TRY(
            auto hash,
            world.sha256(world.sha256_context, restart_relevant(member_config(cluster, member))));
        hashes.push_back(std::move(hash));
    }
    return hashes;
}

// What the garbage collector does as well, when it comes to it: taken over with their status they
// would tell the stewards of a cluster that is no more.
Plan replace_members_before(const World& world) {
    Plan plan;
    for (const ObjectKey& key : world.members_before) {
        Step step;
        step.kind = Step::Kind::remove_before;
        step.code = "ETCD_MEMBER";
        step.gvk = GroupVersionKind::from_api_version(api::kApiVersion, api::kEtcdMemberKind);
        step.key = key;
        plan.steps.push_back(std::move(step));
    }
    plan.report = Report{};
    plan.report->state = "Processing";
    plan.report->description = "Waiting for EtcdMember " + world.members_before.front().name +
                               " of the Etcd of this name before it to be gone";
    plan.again = kLookAgain;
    return plan;
}

Result<Plan> spec_plan(const World& world, const Cluster& cluster) {
    const api::Etcd& etcd = world.etcd;
    Plan plan;
    CAPSTAN_TRY(auto targets, target_hashes(world, cluster));
    std::vector<std::string> names;
    for (const Member& member : cluster.members) {
        names.push_back(member.name);
    }
    const Rollout rollout = plan_rollout(world.members, names, targets);

    const auto apply = [&](std::string code, json::Value object) {
        plan.steps.push_back(child_step(Step::Kind::apply, std::move(code), std::move(object)));
    };
    if (!etcd.metadata.has_finalizer(kFinalizer)) {
        plan.steps.push_back(add_finalizer(etcd));
    }
    apply("SERVICE_ACCOUNT", service_account(cluster));
    apply("ROLE", role(cluster));
    apply("ROLE_BINDING", role_binding(cluster));
    for (const Member& member : cluster.members) {
        apply("MEMBER_LEASE", member_lease(cluster, member));
    }
    add_member_steps(world, cluster, rollout, plan.steps);
    apply("POD_DISRUPTION_BUDGET", pod_disruption_budget(cluster));
    apply("CLIENT_SERVICE", client_service(cluster));
    apply("PEER_SERVICE", peer_service(cluster));
    if (needs_api_token(world, cluster)) {
        plan.steps.push_back(
            child_step(Step::Kind::create_token, "API_TOKEN", api_token_secret(cluster)));
    }
    apply("CONFIGMAP", config_map(cluster, targets));
    apply("STATEFULSET", stateful_set(cluster));
    remove_surplus_members(world, cluster, plan.steps);

    plan.report = Report{};
    plan.report->observed_generation = etcd.metadata.generation;
    plan.report->references = true;
    if (rollout.waiting_for.empty()) {
        plan.report->state = "Succeeded";
        plan.report->description = "All children are as the spec says";
    } else {
        plan.report->state = "Processing";
        plan.report->description =
            "Waiting for member " + rollout.waiting_for + " to run with its new configuration";
        plan.again = kLookAgain;
    }
    if (asked_for(etcd)) {
        plan.last.push_back(drop_operation_annotations(etcd));
    }
    return plan;
}

}  // namespace

Result<Plan> make_plan(const World& world, const Settings& settings) {
    const api::Etcd& etcd = world.etcd;
    if (etcd.metadata.deleting()) {
        return deletion_plan(world);
    }
    if (has_annotation(etcd, kAnnotationSuspend)) {
        Plan plan;
        plan.event_reason = "SpecReconciliationSkipped";
        plan.event_note = "Annotation " + std::string(kAnnotationSuspend) +
                          " is set: the spec is not carried out";
        return plan;
    }
    const bool never = !etcd.status || !etcd.status->observed_generation;
    if (!settings.auto_reconcile && !asked_for(etcd) && !never) {
        return Plan{};
    }
    if (const auto why = refusal(etcd, world.member_gate, world.members)) {
        return refuse(world, *why, "ERR_SPEC_NOT_SUPPORTED");
    }
    auto cluster = resolve(etcd, settings);
    if (!cluster) {
        return refuse(world, {"SpecInvalid", cluster.error().message}, "ERR_SPEC_INVALID");
    }
    if (!world.members_before.empty()) {
        return replace_members_before(world);
    }
    return spec_plan(world, cluster.value());
}

}  // namespace capstan::etcd
