#include "runtime/local/apiserver/builtin_kinds.hpp"

#include <algorithm>

namespace capstan::local {

namespace {

// One kind, all of version v1; the singular is the kind in lower case. Lists are words.
struct Row {
    std::string_view group, kind, plural;
    std::string_view short_names;
    bool namespaced;
    std::string_view subresources;
    std::string_view categories;
    bool create_only{false};
};

constexpr std::string_view kExtensions = "apiextensions.k8s.io";
constexpr std::string_view kAuthorization = "authorization.k8s.io";
constexpr std::string_view kRbac = "rbac.authorization.k8s.io";
constexpr std::string_view kCrd = "CustomResourceDefinition";
constexpr std::string_view kCrds = "customresourcedefinitions";
constexpr std::string_view kLocalReview = "LocalSubjectAccessReview";
constexpr std::string_view kReview = "SelfSubjectAccessReview";

// clang-format off
constexpr Row kRows[] = {
    {"", "ConfigMap", "configmaps", "cm", true, "", ""},
    {"", "Endpoints", "endpoints", "ep", true, "", ""},
    {"", "Event", "events", "ev", true, "", ""},
    {"", "Namespace", "namespaces", "ns", false, "status finalize", ""},
    {"", "Node", "nodes", "no", false, "status", ""},
    {"", "PersistentVolumeClaim", "persistentvolumeclaims", "pvc", true, "status", ""},
    {"", "PersistentVolume", "persistentvolumes", "pv", false, "status", ""},
    {"", "Pod", "pods", "po", true, "status log", "all"},
    {"", "Secret", "secrets", "", true, "", ""},
    {"", "ServiceAccount", "serviceaccounts", "sa", true, "token", ""},
    {"", "Service", "services", "svc", true, "status", "all"},
    {kExtensions, kCrd, kCrds, "crd crds", false, "status", "api-extensions"},
    {"apps", "ControllerRevision", "controllerrevisions", "", true, "", ""},
    {"apps", "StatefulSet", "statefulsets", "sts", true, "status scale", "all"},
    {kAuthorization, kReview, "selfsubjectaccessreviews", "", false, "", "", true},
    {kAuthorization, "SubjectAccessReview", "subjectaccessreviews", "", false, "", "", true},
    {kAuthorization, kLocalReview, "localsubjectaccessreviews", "", true, "", "", true},
    {"authentication.k8s.io", "SelfSubjectReview", "selfsubjectreviews", "", false, "", "", true},
    {"batch", "CronJob", "cronjobs", "cj", true, "status", "all"},
    {"batch", "Job", "jobs", "", true, "status", "all"},
    {"coordination.k8s.io", "Lease", "leases", "", true, "", ""},
    {"events.k8s.io", "Event", "events", "ev", true, "", ""},
    {"policy", "PodDisruptionBudget", "poddisruptionbudgets", "pdb", true, "status", ""},
    {kRbac, "ClusterRoleBinding", "clusterrolebindings", "", false, "", ""},
    {kRbac, "ClusterRole", "clusterroles", "", false, "", ""},
    {kRbac, "RoleBinding", "rolebindings", "", true, "", ""},
    {kRbac, "Role", "roles", "", true, "", ""},
};
// clang-format on

std::vector<std::string> words(std::string_view text) {
    std::vector<std::string> out;
    while (!text.empty()) {
        const std::size_t end = std::min(text.find(' '), text.size());
        out.emplace_back(text.substr(0, end));
        text.remove_prefix(std::min(end + 1, text.size()));
    }
    return out;
}

std::string lower_case(std::string_view text) {
    std::string out(text);
    for (char& c : out) {
        c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    }
    return out;
}

std::vector<BuiltinKind> make_kinds() {
    std::vector<BuiltinKind> kinds;
    for (const Row& row : kRows) {
        BuiltinKind kind;
        kind.group = row.group;
        kind.version = "v1";
        kind.kind = row.kind;
        kind.plural = row.plural;
        kind.singular = lower_case(row.kind);
        kind.short_names = words(row.short_names);
        kind.namespaced = row.namespaced;
        kind.subresources = words(row.subresources);
        kind.categories = words(row.categories);
        kind.create_only = row.create_only;
        kinds.push_back(std::move(kind));
    }
    return kinds;
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
