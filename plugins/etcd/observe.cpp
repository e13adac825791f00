#include "plugins/etcd/observe.hpp"

#include "plugins/etcd/cluster.hpp"

#include <algorithm>

namespace capstan::etcd {

namespace {

Result<std::string> host_sha256(const void* context, std::string_view text) {
    return static_cast<const HostTables*>(context)->sha256_hex(text);
}

std::string children_selector(const std::string& etcd) {
    return "app.kubernetes.io/managed-by=" + std::string(kManagedBy) +
           ",app.kubernetes.io/part-of=" + etcd;
}

Result<void> observe_members(Call& call, World& world) {
    const api::ObjectMeta& meta = world.etcd.metadata;
    const std::string group_kind =
        std::string(api::kGroup) + "/" + std::string(api::kEtcdMemberKind);
    CAPSTAN_TRY(auto objects, call.cache().list(group_kind, meta.ns, children_selector(meta.name)));
    for (const json::Value& object : objects) {
        api::EtcdMember member;
        CAPSTAN_TRY(api::decode(json::View(object), member));
        if (member.metadata.controller_uid() == meta.uid) {
            world.members.push_back(std::move(member));
        } else if (of_etcd_before(member.metadata, meta)) {
            world.members_before.push_back({member.metadata.ns, member.metadata.name});
        }
    }
    return ok();
}

Result<void> observe_stateful_set(Call& call, World& world) {
    const api::ObjectMeta& meta = world.etcd.metadata;
    auto object = call.cache().get_value("apps/StatefulSet", {meta.ns, meta.name});
    if (!object) {
        return object.error().code == Code::not_found ? Result<void>(ok()) : fail(object.error());
    }
    api::ObjectMeta owner;
    const json::View view(object.value());
    CAPSTAN_TRY(api::decode(view["metadata"], owner));
    if (owner.controller_uid() == meta.uid) {
        world.set_replicas = static_cast<std::int32_t>(view["spec"]["replicas"].int_or(1));
    }
    return ok();
}

Result<void> observe_config_map(Call& call, World& world) {
    const api::ObjectMeta& meta = world.etcd.metadata;
    auto object = call.cache().get_value("ConfigMap", {meta.ns, meta.name + "-config"});
    if (!object) {
        return object.error().code == Code::not_found ? Result<void>(ok()) : fail(object.error());
    }
    const json::View map(object.value());
    const auto steward = json::parse(map["data"]["steward.yaml"].string_or("{}"));
    world.api_token_named = steward && json::View(steward.value())["apiTokenSecret"].present();
    return ok();
}

Result<void> observe_children(Call& call, World& world) {
    const api::ObjectMeta& meta = world.etcd.metadata;
    std::vector<Child> others;
    for (const ChildKind& kind : child_kinds()) {
        CAPSTAN_TRY(auto gvk, GroupVersionKind::parse(kind.gvk));
        CAPSTAN_TRY(auto objects,
                    call.cache().list(gvk.group_kind(), meta.ns, children_selector(meta.name)));
        for (const json::Value& object : objects) {
            api::ObjectMeta child;
            CAPSTAN_TRY(api::decode(json::View(object)["metadata"], child));
            if (child.controller_uid() == meta.uid) {
                (gvk.kind == "StatefulSet" ? world.children : others)
                    .push_back({gvk, {child.ns, child.name}});
            }
        }
    }
    world.children.insert(world.children.end(), others.begin(), others.end());
    return ok();
}

}  // namespace

const std::vector<ChildKind>& child_kinds() {
    static const std::vector<ChildKind> kinds = {
        {"v1/ServiceAccount", "SERVICE_ACCOUNT"},
        {"rbac.authorization.k8s.io/v1/Role", "ROLE"},
        {"rbac.authorization.k8s.io/v1/RoleBinding", "ROLE_BINDING"},
        {"coordination.k8s.io/v1/Lease", "MEMBER_LEASE"},
        {"druid.gardener.cloud/v1alpha1/EtcdMember", "ETCD_MEMBER"},
        {"policy/v1/PodDisruptionBudget", "POD_DISRUPTION_BUDGET"},
        {"v1/Service", "SERVICE"},
        {"v1/ConfigMap", "CONFIGMAP"},
        {"apps/v1/StatefulSet", "STATEFULSET"},
    };
    return kinds;
}

Result<std::optional<World>> observe(Call& call, const ObjectKey& key) {
    const std::string group_kind = std::string(api::kGroup) + "/" + std::string(api::kEtcdKind);
    auto object = call.cache().get_value(group_kind, key);
    if (!object) {
        if (object.error().code == Code::not_found) {
            return std::optional<World>();
        }
        return fail(object.error());
    }
    World world;
    CAPSTAN_TRY(api::decode(json::View(object.value()), world.etcd));
    world.member_gate = call.enabled(kMemberGate);
    world.now = call.wall_now();
    world.sha256 = host_sha256;
    world.sha256_context = &call.host();
    CAPSTAN_TRY(observe_members(call, world));
    CAPSTAN_TRY(observe_stateful_set(call, world));
    CAPSTAN_TRY(observe_config_map(call, world));
    if (world.etcd.metadata.deleting()) {
        CAPSTAN_TRY(observe_children(call, world));
    }
    return std::optional<World>(std::move(world));
}

bool of_etcd_before(const api::ObjectMeta& child, const api::ObjectMeta& etcd) {
    return std::any_of(child.owner_references.begin(),
                       child.owner_references.end(),
                       [&](const api::OwnerReference& owner) {
                           return owner.controller && owner.kind == api::kEtcdKind &&
                                  owner.api_version == api::kApiVersion &&
                                  owner.name == etcd.name && owner.uid != etcd.uid;
                       });
}

const api::Transition* present_state(const api::EtcdMember& member) noexcept {
    if (!member.status || member.status->transitions.empty()) {
        return nullptr;
    }
    return &member.status->transitions.back();
}

}  // namespace capstan::etcd
