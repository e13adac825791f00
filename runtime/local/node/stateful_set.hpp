// The StatefulSet controller's decisions: which pods and claims should exist, which pod goes next,
// what the status says. Pure.
//
// Follows Kubernetes' controller: OrderedReady and Parallel, RollingUpdate (highest ordinal first,
// each waits for the one before it to be ready; partition) and OnDelete, scale-down from the top.
// Not kept: old revisions, so a pod that is lost in the middle of an update comes back with the new
// template. Source: docs/local.md.
#pragma once

#include "capstan/json.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace capstan::local {

struct PodRemoval {
    std::string name;
    std::string uid;
};

struct StatefulSetPlan {
    std::vector<json::Value> claims;   // to be created when absent
    std::vector<json::Value> pods;     // to be created
    std::vector<PodRemoval> removals;  // to be deleted
    json::Value status;                // whole and desired
    std::string waits_for;             // one phrase for people; empty: nothing
};

std::string template_revision(const json::Value& set);  // "<name>-<digest of the template>"
std::optional<int> ordinal_of(std::string_view set_name, std::string_view pod_name);

// `pods`: those controlled by the set. A set that is being deleted gets an empty plan
// with its present status.
StatefulSetPlan plan_stateful_set(const json::Value& set,
                                  const std::vector<const json::Value*>& pods);

}  // namespace capstan::local
