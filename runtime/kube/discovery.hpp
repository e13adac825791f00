// What discovery documents of an API server say. Inside of kube. Thread: any (pure).
#pragma once

#include "capstan/json.hpp"
#include "runtime/kube/resources.hpp"

#include <functional>
#include <map>
#include <string>
#include <string_view>

namespace capstan::kube {

// Parameters in this order: some servers and caches compare them as text.
inline constexpr std::string_view kAggregatedAccept =
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,"
    "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json";

// By kind; what the host can address.
using Kinds = std::map<std::string, Resource, std::less<>>;

// APIResourceList of one group and version.
Kinds parse_resource_list(const json::Value& list, const GroupVersionKind& of);

struct DiscoveredVersion {
    bool stale{false};  // its extension server did not answer: unknown, not absent
    Kinds kinds;
};
// True when the server answered with an APIGroupDiscoveryList; old ones answer something else.
bool is_aggregated(std::string_view content_type);
// By "group/version" ("v1" for the core group), of those that `wanted` names only.
std::map<std::string, DiscoveredVersion> parse_aggregated(
    const json::Value& list, const std::function<bool(const std::string& api_version)>& wanted);

bool is_path_segment(std::string_view text);

}  // namespace capstan::kube
