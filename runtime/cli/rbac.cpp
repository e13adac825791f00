#include "runtime/cli/rbac.hpp"

#include "runtime/plugin/inspect.hpp"

#include <algorithm>

namespace capstan::cli {
json::Value cluster_role(const std::string& name,
                         const std::vector<plugin::Manifest>& manifests,
                         bool reviews) {
    json::Value rules = json::list();
    const auto add = [&](const plugin::PermissionRule& rule) {
        json::Value made = {
            {"apiGroups", plugin::list_of(rule.groups)},
            {"resources", plugin::list_of(rule.resources)},
            {"verbs", plugin::list_of(rule.verbs)},
        };
        if (!rule.resource_names.empty()) {
            made.set("resourceNames", plugin::list_of(rule.resource_names));
        }
        const json::Array& present = *rules.if_array();
        if (std::find(present.begin(), present.end(), made) == present.end()) {
            rules.push_back(std::move(made));
        }
    };
    for (const plugin::Manifest& manifest : manifests) {
        std::for_each(manifest.permissions.begin(), manifest.permissions.end(), add);
        std::for_each(manifest.grants.begin(), manifest.grants.end(), add);
    }
    add({{"", "events.k8s.io"}, {"events"}, {"create", "patch"}, {}});
    if (reviews) {
        add({{"authentication.k8s.io"}, {"tokenreviews"}, {"create"}, {}});
        add({{"authorization.k8s.io"}, {"subjectaccessreviews"}, {"create"}, {}});
    }
    return {
        {"apiVersion", "rbac.authorization.k8s.io/v1"},
        {"kind", "ClusterRole"},
        {"metadata", {{"name", name}}},
        {"rules", std::move(rules)},
    };
}

json::Value lease_role(const std::string& name, const std::string& ns, const std::string& lease) {
    json::Value metadata = {{"name", name}};
    if (!ns.empty()) {
        metadata.set("namespace", ns);
    }
    const auto rule = [](json::Value verbs) {
        return json::Value{{"apiGroups", json::list({"coordination.k8s.io"})},
                           {"resources", json::list({"leases"})},
                           {"verbs", std::move(verbs)}};
    };
    json::Value named = rule(json::list({"get", "update"}));
    named.set("resourceNames", json::list({lease}));
    json::Value rules = json::list();
    rules.push_back(std::move(named));
    rules.push_back(rule(json::list({"create"})));
    return {
        {"apiVersion", "rbac.authorization.k8s.io/v1"},
        {"kind", "Role"},
        {"metadata", std::move(metadata)},
        {"rules", std::move(rules)},
    };
}

json::Value cluster_role_binding(const std::string& name, const std::string& user) {
    return {
        {"apiVersion", "rbac.authorization.k8s.io/v1"},
        {"kind", "ClusterRoleBinding"},
        {"metadata", {{"name", name}}},
        {"roleRef",
         {{"apiGroup", "rbac.authorization.k8s.io"}, {"kind", "ClusterRole"}, {"name", name}}},
        {"subjects",
         json::list(
             {{{"apiGroup", "rbac.authorization.k8s.io"}, {"kind", "User"}, {"name", user}}})},
    };
}

}  // namespace capstan::cli
