// Role based access control: may this user do that? (rbac.authorization.k8s.io/v1, without
// aggregated ClusterRoles)
//
// Pure: roles and bindings are looked up through RbacObjects. Thread: the caller's.
#pragma once

#include "capstan/json.hpp"

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace capstan::local {

// allowed everything, as in Kubernetes
inline constexpr std::string_view kGroupMasters = "system:masters";
inline constexpr std::string_view kGroupAuthenticated = "system:authenticated";
inline constexpr std::string_view kGroupUnauthenticated = "system:unauthenticated";
inline constexpr std::string_view kUserAnonymous = "system:anonymous";

struct User {
    std::string name;
    std::vector<std::string> groups;
};

// "system:serviceaccount:<ns>:<name>" in groups system:serviceaccounts,
// system:serviceaccounts:<ns>, system:authenticated.
User service_account_user(std::string_view ns, std::string_view name);

struct AuthzAttributes {
    std::string verb;   // "get", "list", …; for non_resource_path the HTTP method in lower case
    std::string group;  // "" for the core group
    std::string resource;           // "pods"
    std::string subresource;        // "status" or ""
    std::string ns;                 // "" for cluster-scoped or across all namespaces
    std::string name;               // "" when there is none
    std::string non_resource_path;  // "/healthz"; when set, the fields group to name are ignored
};

// How authorize() reaches the stored objects. Visitors call back with each object and stop
// when it returns false.
struct RbacObjects {
    using Visit = std::function<bool(const json::Value&)>;
    std::function<void(const Visit&)> cluster_role_bindings;
    std::function<void(std::string_view ns, const Visit&)> role_bindings;
    // nullptr: absent
    std::function<const json::Value*(std::string_view name)> cluster_role;
    // nullptr: absent
    std::function<const json::Value*(std::string_view ns, std::string_view name)> role;
};

bool authorize(const RbacObjects& objects, const User& user, const AuthzAttributes& attributes);

// `pods "x" is forbidden: User "u" cannot get resource "pods" in API group ""
// in the namespace "ns"`.
std::string forbidden_text(const User& user, const AuthzAttributes& attributes);

// Escalation: rights a Role or ClusterRole (ns "" then) grants that `user` does not hold, one text
// per right, empty when the write may pass. The "escalate" verb on the role (for bindings: "bind"
// on the role it names) lifts the check.
std::vector<std::string> escalation_of_role(const RbacObjects& objects,
                                            const User& user,
                                            const json::Value& role,
                                            std::string_view ns);
std::vector<std::string> escalation_of_binding(const RbacObjects& objects,
                                               const User& user,
                                               const json::Value& binding,
                                               std::string_view ns);

// ClusterRoles and ClusterRoleBindings every server starts with:
// system:basic-user, system:discovery, system:public-info-viewer, cluster-admin,
// admin, edit, view; and their bindings.
std::vector<json::Value> bootstrap_rbac();

}  // namespace capstan::local
