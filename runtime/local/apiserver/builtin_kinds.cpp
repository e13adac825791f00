#include "runtime/local/apiserver/builtin_kinds.hpp"

#include <algorithm>

namespace capstan::local {

namespace {

constexpr const char* kApps = "apps";
constexpr const char* kBatch = "batch";
constexpr const char* kRbac = "rbac.authorization.k8s.io";

// One line a kind: group, version, kind, plural, singular, short names, namespaced,
// subresources, categories.
std::vector<BuiltinKind> make_kinds() {
    return {
        {"", "v1", "ConfigMap", "configmaps", "configmap", {"cm"}, true, {}, {}, false},
        {"", "v1", "Endpoints", "endpoints", "endpoints", {"ep"}, true, {}, {}, false},
        {"", "v1", "Event", "events", "event", {"ev"}, true, {}, {}, false},
        {"",
         "v1",
         "Namespace",
         "namespaces",
         "namespace",
         {"ns"},
         false,
         {"status", "finalize"},
         {},
         false},
        {"", "v1", "Node", "nodes", "node", {"no"}, false, {"status"}, {}, false},
        {"",
         "v1",
         "PersistentVolumeClaim",
         "persistentvolumeclaims",
         "persistentvolumeclaim",
         {"pvc"},
         true,
         {"status"},
         {},
         false},
        {"",
         "v1",
         "PersistentVolume",
         "persistentvolumes",
         "persistentvolume",
         {"pv"},
         false,
         {"status"},
         {},
         false},
        {"", "v1", "Pod", "pods", "pod", {"po"}, true, {"status", "log"}, {"all"}, false},
        {"", "v1", "Secret", "secrets", "secret", {}, true, {}, {}, false},
        {"",
         "v1",
         "ServiceAccount",
         "serviceaccounts",
         "serviceaccount",
         {"sa"},
         true,
         {"token"},
         {},
         false},
        {"", "v1", "Service", "services", "service", {"svc"}, true, {"status"}, {"all"}, false},
        {"apiextensions.k8s.io",
         "v1",
         "CustomResourceDefinition",
         "customresourcedefinitions",
         "customresourcedefinition",
         {"crd", "crds"},
         false,
         {"status"},
         {"api-extensions"},
         false},
        {kApps,
         "v1",
         "ControllerRevision",
         "controllerrevisions",
         "controllerrevision",
         {},
         true,
         {},
         {},
         false},
        {kApps,
         "v1",
         "StatefulSet",
         "statefulsets",
         "statefulset",
         {"sts"},
         true,
         {"status", "scale"},
         {"all"},
         false},
        {"authorization.k8s.io",
         "v1",
         "SelfSubjectAccessReview",
         "selfsubjectaccessreviews",
         "selfsubjectaccessreview",
         {},
         false,
         {},
         {},
         true},
        {kBatch, "v1", "CronJob", "cronjobs", "cronjob", {"cj"}, true, {"status"}, {"all"}, false},
        {kBatch, "v1", "Job", "jobs", "job", {}, true, {"status"}, {"all"}, false},
        {"coordination.k8s.io", "v1", "Lease", "leases", "lease", {}, true, {}, {}, false},
        {"events.k8s.io", "v1", "Event", "events", "event", {"ev"}, true, {}, {}, false},
        {"policy",
         "v1",
         "PodDisruptionBudget",
         "poddisruptionbudgets",
         "poddisruptionbudget",
         {"pdb"},
         true,
         {"status"},
         {},
         false},
        {kRbac,
         "v1",
         "ClusterRoleBinding",
         "clusterrolebindings",
         "clusterrolebinding",
         {},
         false,
         {},
         {},
         false},
        {kRbac, "v1", "ClusterRole", "clusterroles", "clusterrole", {}, false, {}, {}, false},
        {kRbac, "v1", "RoleBinding", "rolebindings", "rolebinding", {}, true, {}, {}, false},
        {kRbac, "v1", "Role", "roles", "role", {}, true, {}, {}, false},
    };
}

}  // namespace

const std::vector<BuiltinKind>& builtin_kinds() {
    static const std::vector<BuiltinKind> kinds = make_kinds();
    return kinds;
}

const BuiltinKind* builtin_kind(const GroupVersionKind& gvk) {
    const auto& kinds = builtin_kinds();
    const auto found = std::find_if(kinds.begin(), kinds.end(), [&](const BuiltinKind& kind) {
        return kind.kind == gvk.kind && kind.group == gvk.group && kind.version == gvk.version;
    });
    return found == kinds.end() ? nullptr : &*found;
}

}  // namespace capstan::local
