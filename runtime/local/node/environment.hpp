// Command, arguments and environment of a container, as they are on this machine.
//
// The kubelet's rules for env, envFrom, field references and $(NAME), then mount paths and host
// aliases replaced. Pure but for the lookups. Thread: owning.
#pragma once

#include "capstan/error.hpp"
#include "capstan/json.hpp"
#include "capstan/object_ref.hpp"
#include "runtime/local/node/path_map.hpp"

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace capstan::local {

inline constexpr std::size_t kEnvironmentMax = 1'000;  // variables of one container

using ObjectLookup = std::function<Result<json::Value>(const GroupVersionKind&, const ObjectKey&)>;

struct EnvironmentContext {
    const json::Value& pod;
    std::string pod_ip;
    std::string node_name;
    const PathMap& paths;
    std::vector<std::string> aliases;  // host aliases of this pod itself
    ObjectLookup lookup;
};

// "$(A)" by its value, "$$(A)" by "$(A)"; unknown names stay as they are.
std::string expand_variables(std::string_view text,
                             const std::map<std::string, std::string>& values);

// A field of the pod: metadata.name, metadata.labels['x'], status.podIP … Errors: unsupported.
Result<std::string> field_of_pod(const EnvironmentContext& context, std::string_view path);

struct ContainerText {
    std::vector<std::string> command;
    std::vector<std::string> args;
    std::map<std::string, std::string> env;  // only what the manifest says
};
// Errors: not_found (a named ConfigMap, Secret or key is absent and not optional),
// unsupported, too_large.
Result<ContainerText> build_container_text(const json::Value& container,
                                           const EnvironmentContext& context);

std::vector<std::string> strings_of(const json::View& list);
Result<std::string> decode_base64(std::string_view text);  // Errors: invalid

}  // namespace capstan::local
