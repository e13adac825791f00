#include "runtime/plugin/policy.hpp"

#include "runtime/plugin/manifest_reader.hpp"

#include <algorithm>
#include <optional>
#include <utility>

namespace capstan::plugin {
namespace {

using Texts = std::vector<std::string>;

bool holds(const Texts& list, const std::string& text) {
    return std::find(list.begin(), list.end(), text) != list.end();
}

// Empty: nothing is left.
Texts both(const Texts& left, const Texts& right) {
    if (holds(left, "*")) {
        return right;
    }
    if (holds(right, "*")) {
        return left;
    }
    Texts common;
    std::copy_if(left.begin(), left.end(), std::back_inserter(common), [&](const auto& text) {
        return holds(right, text);
    });
    return common;
}

std::optional<PermissionRule> both(const PermissionRule& left, const PermissionRule& right) {
    PermissionRule rule{both(left.groups, right.groups),
                        both(left.resources, right.resources),
                        both(left.verbs, right.verbs),
                        {}};
    if (left.resource_names.empty() || right.resource_names.empty()) {
        rule.resource_names =
            left.resource_names.empty() ? right.resource_names : left.resource_names;
    } else {
        rule.resource_names = both(left.resource_names, right.resource_names);
        if (rule.resource_names.empty()) {  // would mean every name
            return std::nullopt;
        }
    }
    const bool empty = rule.groups.empty() || rule.resources.empty() || rule.verbs.empty();
    return empty ? std::nullopt : std::optional(std::move(rule));
}

}  // namespace

std::vector<PermissionRule> narrow(const std::vector<PermissionRule>& rules,
                                   const std::vector<PermissionRule>& policy) {
    std::vector<PermissionRule> left;
    for (const PermissionRule& rule : rules) {
        for (const PermissionRule& allowed : policy) {
            if (auto common = both(rule, allowed)) {
                left.push_back(std::move(*common));
            }
        }
    }
    return left;
}

std::vector<std::string> policy_problems(const Manifest& manifest,
                                         const std::vector<PermissionRule>& policy) {
    Manifest narrowed = manifest;
    narrowed.permissions = narrow(manifest.permissions, policy);
    Problems problems;
    check_watch_permissions(narrowed, problems);
    return problems.lines();
}

}  // namespace capstan::plugin
