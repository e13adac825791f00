// The roles every Kubernetes API server starts with, as far as the builtin kinds here go.
#include "runtime/local/apiserver/rbac.hpp"

#include <utility>

namespace capstan::local {

namespace {

constexpr const char* kApiVersion = "rbac.authorization.k8s.io/v1";

json::Value words(std::initializer_list<const char*> list) {
    json::Array out;
    for (const char* word : list) {
        out.emplace_back(word);
    }
    return json::Value(std::move(out));
}

json::Value metadata(const char* name) {
    return {{"name", name}, {"labels", {{"kubernetes.io/bootstrapping", "rbac-defaults"}}}};
}

json::Value cluster_role(const char* name, json::Array rules) {
    return {{"apiVersion", kApiVersion},
            {"kind", "ClusterRole"},
            {"metadata", metadata(name)},
            {"rules", json::Value(std::move(rules))}};
}

json::Value binding(const char* name, std::initializer_list<std::string_view> groups) {
    json::Value subjects = json::list();
    for (const std::string_view group : groups) {
        subjects.push_back(
            {{"apiGroup", "rbac.authorization.k8s.io"}, {"kind", "Group"}, {"name", group}});
    }
    return {{"apiVersion", kApiVersion},
            {"kind", "ClusterRoleBinding"},
            {"metadata", metadata(name)},
            {"roleRef",
             {{"apiGroup", "rbac.authorization.k8s.io"}, {"kind", "ClusterRole"}, {"name", name}}},
            {"subjects", std::move(subjects)}};
}

json::Value rule(std::initializer_list<const char*> groups,
                 std::initializer_list<const char*> resources,
                 json::Value verbs) {
    return {
        {"apiGroups", words(groups)}, {"resources", words(resources)}, {"verbs", std::move(verbs)}};
}

json::Value paths(std::initializer_list<const char*> urls) {
    return {{"nonResourceURLs", words(urls)}, {"verbs", words({"get"})}};
}

// What a user of a namespace works with; `verbs` is what sets view, edit and admin apart.
void workload_rules(json::Array& rules, const json::Value& verbs) {
    rules.push_back(rule({""},
                         {"configmaps",
                          "endpoints",
                          "persistentvolumeclaims",
                          "pods",
                          "serviceaccounts",
                          "services"},
                         verbs));
    rules.push_back(
        rule({"apps"}, {"statefulsets", "statefulsets/scale", "controllerrevisions"}, verbs));
    rules.push_back(rule({"batch"}, {"jobs", "cronjobs"}, verbs));
    rules.push_back(rule({"policy"}, {"poddisruptionbudgets"}, verbs));
}

void reading_rules(json::Array& rules) {
    const json::Value read = words({"get", "list", "watch"});
    workload_rules(rules, read);
    rules.push_back(rule({""}, {"events", "namespaces", "pods/log", "pods/status"}, read));
    rules.push_back(rule({"events.k8s.io"}, {"events"}, read));
}

void editing_rules(json::Array& rules) {
    reading_rules(rules);
    rules.push_back(rule({""}, {"secrets"}, words({"get", "list", "watch"})));
    const json::Value write = words({"create", "delete", "deletecollection", "patch", "update"});
    workload_rules(rules, write);
    rules.push_back(rule({""}, {"secrets"}, write));
    rules.push_back(rule(
        {"coordination.k8s.io"},
        {"leases"},
        words(
            {"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"})));
}

json::Value everything() {
    json::Array rules;
    rules.push_back(
        {{"apiGroups", words({"*"})}, {"resources", words({"*"})}, {"verbs", words({"*"})}});
    rules.push_back({{"nonResourceURLs", words({"*"})}, {"verbs", words({"*"})}});
    return cluster_role("cluster-admin", std::move(rules));
}

}  // namespace

std::vector<json::Value> bootstrap_rbac() {
    json::Array discovery{paths({"/api",
                                 "/api/*",
                                 "/apis",
                                 "/apis/*",
                                 "/healthz",
                                 "/livez",
                                 "/openapi",
                                 "/openapi/*",
                                 "/readyz",
                                 "/version",
                                 "/version/"})};
    json::Array info{paths({"/healthz", "/livez", "/readyz", "/version", "/version/"})};
    json::Array basic{rule({"authorization.k8s.io"},
                           {"selfsubjectaccessreviews", "selfsubjectrulesreviews"},
                           words({"create"})),
                      rule({"authentication.k8s.io"}, {"selfsubjectreviews"}, words({"create"}))};
    json::Array view;
    reading_rules(view);
    json::Array edit;
    editing_rules(edit);
    json::Array admin;
    editing_rules(admin);
    admin.push_back(rule(
        {"rbac.authorization.k8s.io"},
        {"roles", "rolebindings"},
        words(
            {"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"})));
    return {
        everything(),
        cluster_role("system:discovery", std::move(discovery)),
        cluster_role("system:public-info-viewer", std::move(info)),
        cluster_role("system:basic-user", std::move(basic)),
        cluster_role("admin", std::move(admin)),
        cluster_role("edit", std::move(edit)),
        cluster_role("view", std::move(view)),
        binding("cluster-admin", {kGroupMasters}),
        binding("system:discovery", {kGroupAuthenticated}),
        binding("system:public-info-viewer", {kGroupAuthenticated, kGroupUnauthenticated}),
        binding("system:basic-user", {kGroupAuthenticated}),
    };
}

}  // namespace capstan::local
