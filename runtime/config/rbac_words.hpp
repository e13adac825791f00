// What a rule of permissions may say, in the operator's configuration and in manifests alike.
// Pure; thread: any.
#pragma once

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

namespace capstan::config {

// Without "*", which only a configuration accepts.
inline constexpr std::array<std::string_view, 11> kRbacVerbs = {"get",
                                                                "list",
                                                                "watch",
                                                                "create",
                                                                "update",
                                                                "patch",
                                                                "delete",
                                                                "deletecollection",
                                                                "bind",
                                                                "escalate",
                                                                "impersonate"};

inline bool is_rbac_verb(std::string_view text) noexcept {
    return std::find(kRbacVerbs.begin(), kRbacVerbs.end(), text) != kRbacVerbs.end();
}

// What is wrong with an API group; "" when nothing is. `is_name`: what a DNS name is to the caller.
template <class IsName>
std::string rbac_group_problem(const std::string& group, IsName is_name) {
    return group.empty() || group == "*" || is_name(group)
               ? std::string()
               : "\"" + group + "\" is no API group; the core group is \"\"";
}

// The same of a resource: "pods", "pods/log", "*", "*/scale".
template <class IsName>
std::string rbac_resource_problem(const std::string& resource, IsName is_name) {
    const auto good = [&](std::string_view part) { return part == "*" || is_name(part); };
    const std::string_view whole = resource;
    const std::size_t slash = whole.find('/');
    return good(whole.substr(0, slash)) &&
                   (slash == std::string_view::npos || good(whole.substr(slash + 1)))
               ? std::string()
               : "\"" + resource +
                     "\" is no resource; write plurals in small letters, such as "
                     "statefulsets or pods/log";
}

}  // namespace capstan::config
