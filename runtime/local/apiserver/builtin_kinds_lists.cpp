// How the lists and maps of builtin kinds merge: the x-kubernetes-list-type facts of the
// Kubernetes 1.34 API reference.
#include "runtime/local/apiserver/builtin_kinds.hpp"

#include <algorithm>
#include <array>
#include <map>

namespace capstan::local {

namespace {

// One field of one type that does not merge by default (structures field by
// field, lists as a whole).
//   "T"            a structure of type T         "~T"      a structure replaced as a whole
//   "[k1,k2]T"     list of T, merged by keys     "set"     list of scalars, merged as a set
//   "{}"           a map replaced as a whole
struct Row {
    std::string_view type;
    std::string_view field;
    std::string_view merge;
};

constexpr Row kRows[] = {
    {"ObjectMeta", "ownerReferences", "[uid]OwnerReference"},
    {"ObjectMeta", "finalizers", "set"},

    {"Container", "ports", "[containerPort,protocol]ContainerPort"},
    {"Container", "env", "[name]EnvVar"},
    {"Container", "volumeMounts", "[mountPath]VolumeMount"},
    {"Container", "volumeDevices", "[devicePath]VolumeDevice"},
    {"Container", "resources", "ResourceRequirements"},
    {"ResourceRequirements", "claims", "[name]ResourceClaim"},
    {"EnvVar", "valueFrom", "EnvVarSource"},
    {"EnvVarSource", "fieldRef", "~ObjectFieldSelector"},
    {"EnvVarSource", "resourceFieldRef", "~ResourceFieldSelector"},
    {"EnvVarSource", "configMapKeyRef", "~ConfigMapKeySelector"},
    {"EnvVarSource", "secretKeyRef", "~SecretKeySelector"},

    {"PodSpec", "containers", "[name]Container"},
    {"PodSpec", "initContainers", "[name]Container"},
    {"PodSpec", "ephemeralContainers", "[name]Container"},
    {"PodSpec", "volumes", "[name]Volume"},
    {"PodSpec", "imagePullSecrets", "[name]LocalObjectReference"},
    {"PodSpec", "hostAliases", "[ip]HostAlias"},
    {"PodSpec",
     "topologySpreadConstraints",
     "[topologyKey,whenUnsatisfiable]TopologySpreadConstraint"},
    {"PodSpec", "schedulingGates", "[name]PodSchedulingGate"},
    {"PodSpec", "resourceClaims", "[name]PodResourceClaim"},
    {"PodSpec", "nodeSelector", "{}"},
    {"PodSpec", "affinity", "Affinity"},
    {"Affinity", "nodeAffinity", "NodeAffinity"},
    {"NodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "~NodeSelector"},
    {"TopologySpreadConstraint", "labelSelector", "~LabelSelector"},
    {"Volume", "secret", "SecretVolumeSource"},
    {"Volume", "csi", "CsiVolumeSource"},
    {"CsiVolumeSource", "nodePublishSecretRef", "~LocalObjectReference"},
    {"PodTemplateSpec", "metadata", "ObjectMeta"},
    {"PodTemplateSpec", "spec", "PodSpec"},

    {"Pod", "spec", "PodSpec"},
    {"Pod", "status", "PodStatus"},
    {"PodStatus", "conditions", "[type]Condition"},
    {"PodStatus", "podIPs", "[ip]PodIp"},
    {"PodStatus", "resourceClaimStatuses", "[name]PodResourceClaimStatus"},

    {"StatefulSet", "spec", "StatefulSetSpec"},
    {"StatefulSet", "status", "ConditionStatus"},
    {"StatefulSetSpec", "selector", "~LabelSelector"},
    {"StatefulSetSpec", "template", "PodTemplateSpec"},
    {"ConditionStatus", "conditions", "[type]Condition"},

    // JobStatus.conditions is atomic for apply, though strategic merge patch knows the key `type`.
    {"Job", "spec", "JobSpec"},
    {"Job", "status", "JobStatus"},
    {"JobSpec", "selector", "~LabelSelector"},
    {"JobSpec", "template", "PodTemplateSpec"},
    {"JobStatus", "uncountedTerminatedPods", "UncountedTerminatedPods"},
    {"UncountedTerminatedPods", "failed", "set"},
    {"UncountedTerminatedPods", "succeeded", "set"},
    {"CronJob", "spec", "CronJobSpec"},
    {"CronJobSpec", "jobTemplate", "JobTemplateSpec"},
    {"JobTemplateSpec", "metadata", "ObjectMeta"},
    {"JobTemplateSpec", "spec", "JobSpec"},

    {"Service", "spec", "ServiceSpec"},
    {"Service", "status", "ConditionStatus"},
    {"ServiceSpec", "ports", "[port,protocol]ServicePort"},
    {"ServiceSpec", "selector", "{}"},
    {"ServiceAccount", "secrets", "[name]ObjectReference"},

    {"PersistentVolumeClaim", "spec", "PersistentVolumeClaimSpec"},
    {"PersistentVolumeClaim", "status", "ConditionStatus"},
    {"PersistentVolumeClaimSpec", "selector", "~LabelSelector"},
    {"PersistentVolumeClaimSpec", "dataSource", "~TypedLocalObjectReference"},
    {"PersistentVolume", "spec", "PersistentVolumeSpec"},
    {"PersistentVolumeSpec", "nodeAffinity", "VolumeNodeAffinity"},
    {"VolumeNodeAffinity", "required", "~NodeSelector"},

    {"Namespace", "status", "ConditionStatus"},
    {"Node", "spec", "NodeSpec"},
    {"Node", "status", "NodeStatus"},
    {"NodeSpec", "podCIDRs", "set"},
    {"NodeStatus", "conditions", "[type]Condition"},
    {"NodeStatus", "addresses", "[type]NodeAddress"},
    {"CustomResourceDefinition", "status", "ConditionStatus"},

    {"PodDisruptionBudget", "spec", "PodDisruptionBudgetSpec"},
    {"PodDisruptionBudget", "status", "ConditionStatus"},
    {"PodDisruptionBudgetSpec", "selector", "~LabelSelector"},

    {"Event", "involvedObject", "~ObjectReference"},
    {"Event", "related", "~ObjectReference"},
    {"Event", "regarding", "~ObjectReference"},
    {"RoleBinding", "roleRef", "~RoleRef"},
    {"ClusterRoleBinding", "roleRef", "~RoleRef"},
};

// The scalar types of map keys; all others are strings.
SchemaType key_type(std::string_view key) {
    return key == "containerPort" || key == "port" ? SchemaType::integer : SchemaType::string;
}

std::unique_ptr<SchemaNode> build_type(std::string_view type);

std::unique_ptr<SchemaNode> build_map_list(std::string_view keys, std::string_view item_type) {
    auto node = std::make_unique<SchemaNode>();
    node->type = SchemaType::array;
    node->list_type = ListType::map;
    node->items = build_type(item_type);
    while (!keys.empty()) {
        const std::size_t comma = std::min(keys.find(','), keys.size());
        const std::string key(keys.substr(0, comma));
        keys.remove_prefix(std::min(comma + 1, keys.size()));
        auto property = std::make_unique<SchemaNode>();
        property->type = key_type(key);
        if (key == "protocol") {
            property->default_value = json::Value("TCP");
        }
        node->items->properties.push_back({key, std::move(property)});
        node->map_keys.push_back(key);
    }
    std::sort(node->items->properties.begin(),
              node->items->properties.end(),
              [](const SchemaProperty& a, const SchemaProperty& b) { return a.name < b.name; });
    return node;
}

std::unique_ptr<SchemaNode> build_field(std::string_view merge) {
    if (merge == "set") {
        auto node = std::make_unique<SchemaNode>();
        node->type = SchemaType::array;
        node->list_type = ListType::set;
        node->items = std::make_unique<SchemaNode>();
        node->items->type = SchemaType::string;
        return node;
    }
    if (merge.starts_with('[')) {
        const std::size_t close = merge.find(']');
        return build_map_list(merge.substr(1, close - 1), merge.substr(close + 1));
    }
    if (merge == "{}" || merge.starts_with('~')) {
        auto node = build_type("");
        node->map_type = MapType::atomic;
        return node;
    }
    return build_type(merge);
}

// Types nest a handful of levels and never contain themselves.
std::unique_ptr<SchemaNode> build_type(std::string_view type) {
    auto node = std::make_unique<SchemaNode>();
    node->type = SchemaType::object;
    for (const Row& row : kRows) {
        if (row.type == type) {
            node->properties.push_back({std::string(row.field), build_field(row.merge)});
        }
    }
    std::sort(node->properties.begin(),
              node->properties.end(),
              [](const SchemaProperty& a, const SchemaProperty& b) { return a.name < b.name; });
    return node;
}

std::map<GroupVersionKind, std::unique_ptr<SchemaNode>> build_all() {
    std::map<GroupVersionKind, std::unique_ptr<SchemaNode>> out;
    for (const BuiltinKind& kind : builtin_kinds()) {
        auto root = build_type(kind.kind);
        root->properties.push_back({"metadata", build_type("ObjectMeta")});
        std::sort(root->properties.begin(),
                  root->properties.end(),
                  [](const SchemaProperty& a, const SchemaProperty& b) { return a.name < b.name; });
        out.emplace(GroupVersionKind{kind.group, kind.version, kind.kind}, std::move(root));
    }
    return out;
}

}  // namespace

const SchemaNode* builtin_schema(const GroupVersionKind& gvk) {
    static const auto schemas = build_all();
    const auto found = schemas.find(gvk);
    return found == schemas.end() ? nullptr : found->second.get();
}

}  // namespace capstan::local
