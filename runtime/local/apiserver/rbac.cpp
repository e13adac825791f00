#include "runtime/local/apiserver/rbac.hpp"

#include <algorithm>

namespace capstan::local {

namespace {

constexpr std::string_view kGroup = "rbac.authorization.k8s.io";
constexpr std::size_t kRightsMax = 10'000;  // of one role, multiplied out, for the escalation check

bool contains(const json::Array& list, std::string_view text) {
    return std::any_of(list.begin(), list.end(), [text](const json::Value& item) {
        return item.is_string() && *item.if_string() == text;
    });
}

bool contains_or_all(const json::Array& list, std::string_view text) {
    return contains(list, "*") || contains(list, text);
}

bool resource_matches(const json::Array& resources, const AuthzAttributes& wanted) {
    if (contains(resources, "*")) {
        return true;
    }
    if (wanted.subresource.empty()) {
        return contains(resources, wanted.resource);
    }
    return contains(resources, wanted.resource + "/" + wanted.subresource) ||
           contains(resources, "*/" + wanted.subresource);
}

bool path_matches(const json::Array& urls, std::string_view path) {
    return std::any_of(urls.begin(), urls.end(), [path](const json::Value& item) {
        const std::string* url = item.if_string();
        if (url == nullptr) {
            return false;
        }
        const std::string_view prefix =
            std::string_view(*url).substr(0, url->size() - (url->ends_with('*') ? 1 : 0));
        return *url == path || (url->ends_with('*') && path.starts_with(prefix));
    });
}

bool rule_allows(const json::Value& rule, const AuthzAttributes& wanted) {
    const json::View view(rule);
    if (!contains_or_all(view["verbs"].array(), wanted.verb)) {
        return false;
    }
    if (!wanted.non_resource_path.empty()) {
        return path_matches(view["nonResourceURLs"].array(), wanted.non_resource_path);
    }
    const json::Array& names = view["resourceNames"].array();
    return contains_or_all(view["apiGroups"].array(), wanted.group) &&
           resource_matches(view["resources"].array(), wanted) &&
           (names.empty() || (!wanted.name.empty() && contains(names, wanted.name)));
}

bool is_subject(const json::Value& subject, const User& user) {
    const json::View view(subject);
    const std::string_view kind = view["kind"].string_or("");
    const std::string_view name = view["name"].string_or("");
    if (kind == "User") {
        return user.name == name;
    }
    if (kind == "Group") {
        return std::find(user.groups.begin(), user.groups.end(), name) != user.groups.end();
    }
    if (kind == "ServiceAccount") {
        const std::string_view ns = view["namespace"].string_or("");
        return !ns.empty() && user.name == service_account_user(ns, name).name;
    }
    return false;
}

bool binds(const json::Value& binding, const User& user) {
    const json::Array& subjects = json::View(binding)["subjects"].array();
    return std::any_of(subjects.begin(), subjects.end(), [&](const json::Value& s) {
        return is_subject(s, user);
    });
}

const json::Value* role_of(const RbacObjects& objects,
                           const json::Value& binding,
                           std::string_view ns) {
    const json::View reference = json::View(binding)["roleRef"];
    const std::string_view name = reference["name"].string_or("");
    if (reference["kind"].string_or("") == "Role") {
        return ns.empty() ? nullptr : objects.role(ns, name);
    }
    return objects.cluster_role(name);
}

bool role_allows(const json::Value* role, const AuthzAttributes& wanted) {
    if (role == nullptr) {
        return false;
    }
    const json::Array& rules = json::View(*role)["rules"].array();
    return std::any_of(
        rules.begin(), rules.end(), [&](const json::Value& r) { return rule_allows(r, wanted); });
}

bool is_master(const User& user) {
    return std::find(user.groups.begin(), user.groups.end(), kGroupMasters) != user.groups.end();
}

std::string quoted(std::string_view text) {
    return json::dump(json::Value(text));
}

// One right as the API server prints it.
std::string right_text(const AuthzAttributes& right) {
    if (!right.non_resource_path.empty()) {
        return "{NonResourceURLs:[" + quoted(right.non_resource_path) + "], Verbs:[" +
               quoted(right.verb) + "]}";
    }
    const std::string resource =
        right.subresource.empty() ? right.resource : right.resource + "/" + right.subresource;
    std::string text =
        "{APIGroups:[" + quoted(right.group) + "], Resources:[" + quoted(resource) + "]";
    if (!right.name.empty()) {
        text += ", ResourceNames:[" + quoted(right.name) + "]";
    }
    return text + ", Verbs:[" + quoted(right.verb) + "]}";
}

std::vector<std::string> strings(const json::Array& list) {
    std::vector<std::string> out;
    for (const json::Value& item : list) {
        if (item.is_string()) {
            out.push_back(*item.if_string());
        }
    }
    return out;
}

// A rule multiplied out. False: more than kRightsMax.
bool rights_of_rule(const json::Value& rule,
                    std::string_view ns,
                    std::vector<AuthzAttributes>& out) {
    const json::View view(rule);
    const auto urls = strings(view["nonResourceURLs"].array());
    const auto groups = strings(view["apiGroups"].array());
    const auto resources = strings(view["resources"].array());
    auto names = strings(view["resourceNames"].array());
    if (names.empty()) {
        names.emplace_back();
    }
    for (const std::string& verb : strings(view["verbs"].array())) {
        if (out.size() + urls.size() + groups.size() * resources.size() * names.size() >
            kRightsMax) {
            return false;
        }
        for (const std::string& url : urls) {
            out.push_back({verb, "", "", "", "", "", url});
        }
        for (const std::string& group : groups) {
            for (const std::string& resource : resources) {
                const std::size_t slash = std::min(resource.find('/'), resource.size());
                const std::string sub = slash < resource.size() ? resource.substr(slash + 1) : "";
                for (const std::string& name : names) {
                    out.push_back(
                        {verb, group, resource.substr(0, slash), sub, std::string(ns), name, ""});
                }
            }
        }
    }
    return true;
}

// What `role` grants in `ns` and `user` does not hold.
std::vector<std::string> missing_rights(const RbacObjects& objects,
                                        const User& user,
                                        const json::Value& role,
                                        std::string_view ns) {
    std::vector<AuthzAttributes> rights;
    for (const json::Value& rule : json::View(role)["rules"].array()) {
        if (!rights_of_rule(rule, ns, rights)) {
            return {"more than " + std::to_string(kRightsMax) + " rights in one role"};
        }
    }
    std::vector<std::string> missing;
    for (const AuthzAttributes& right : rights) {
        if (!authorize(objects, user, right)) {
            missing.push_back(right_text(right));
        }
    }
    return missing;
}

}  // namespace

User service_account_user(std::string_view ns, std::string_view name) {
    const std::string space(ns);
    return {"system:serviceaccount:" + space + ":" + std::string(name),
            {"system:serviceaccounts",
             "system:serviceaccounts:" + space,
             std::string(kGroupAuthenticated)}};
}

bool authorize(const RbacObjects& objects, const User& user, const AuthzAttributes& attributes) {
    if (is_master(user)) {
        return true;
    }
    bool allowed = false;
    objects.cluster_role_bindings([&](const json::Value& binding) {
        allowed = binds(binding, user) && role_allows(role_of(objects, binding, ""), attributes);
        return !allowed;
    });
    if (allowed || attributes.ns.empty() || !attributes.non_resource_path.empty()) {
        return allowed;
    }
    objects.role_bindings(attributes.ns, [&](const json::Value& binding) {
        allowed = binds(binding, user) &&
                  role_allows(role_of(objects, binding, attributes.ns), attributes);
        return !allowed;
    });
    return allowed;
}

std::string forbidden_text(const User& user, const AuthzAttributes& wanted) {
    if (!wanted.non_resource_path.empty()) {
        return "forbidden: User " + quoted(user.name) + " cannot " + wanted.verb + " path " +
               quoted(wanted.non_resource_path);
    }
    std::string resource = wanted.resource;
    if (!wanted.subresource.empty()) {
        resource += "/" + wanted.subresource;
    }
    std::string text = wanted.resource;
    if (!wanted.group.empty()) {
        text += "." + wanted.group;
    }
    if (!wanted.name.empty()) {
        text += " " + quoted(wanted.name);
    }
    text += " is forbidden: User " + quoted(user.name) + " cannot " + wanted.verb + " resource " +
            quoted(resource) + " in API group " + quoted(wanted.group);
    return text +
           (wanted.ns.empty() ? " at the cluster scope" : " in the namespace " + quoted(wanted.ns));
}

std::vector<std::string> escalation_of_role(const RbacObjects& objects,
                                            const User& user,
                                            const json::Value& role,
                                            std::string_view ns) {
    const std::string name = std::string(json::View(role)["metadata"]["name"].string_or(""));
    const AuthzAttributes escalate{
        "escalate",
        std::string(kGroup),
        ns.empty() ? "clusterroles" : "roles",
        "",
        std::string(ns),
        name,
        "",
    };
    if (authorize(objects, user, escalate)) {
        return {};
    }
    return missing_rights(objects, user, role, ns);
}

std::vector<std::string> escalation_of_binding(const RbacObjects& objects,
                                               const User& user,
                                               const json::Value& binding,
                                               std::string_view ns) {
    const json::View reference = json::View(binding)["roleRef"];
    const bool cluster = reference["kind"].string_or("") == "ClusterRole";
    const std::string name(reference["name"].string_or(""));
    const AuthzAttributes bind{
        "bind",
        std::string(kGroup),
        cluster ? "clusterroles" : "roles",
        "",
        std::string(ns),
        name,
        "",
    };
    if (authorize(objects, user, bind)) {
        return {};
    }
    const json::Value* role = role_of(objects, binding, ns);
    if (role == nullptr) {
        return {std::string(cluster ? "clusterroles" : "roles") + "." + std::string(kGroup) + " " +
                quoted(name) + " not found"};
    }
    return missing_rights(objects, user, *role, ns);
}

}  // namespace capstan::local
