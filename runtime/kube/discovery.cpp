#include "runtime/kube/discovery.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace capstan::kube {
namespace {

std::vector<std::string> texts(json::View list) {
    std::vector<std::string> out;
    for (const json::Value& item : list.array()) {
        out.emplace_back(json::View(item).string_or(""));
    }
    return out;
}

DiscoveredVersion read_version(json::View version, const std::string& group) {
    DiscoveredVersion found;
    found.stale = version["freshness"].string_or("Current") == "Stale";
    for (const json::Value& item : version["resources"].array()) {
        const json::View entry(item);
        const std::string_view plural = entry["resource"].string_or("");
        std::string kind(entry["responseKind"]["kind"].string_or(""));
        if (kind.empty() || !is_path_segment(plural)) {
            continue;  // a resource with nothing but subresources, or one nobody can address
        }
        Resource resource;
        resource.gvk = {group, std::string(version["version"].string_or("")), kind};
        resource.plural = plural;
        resource.namespaced = entry["scope"].string_or("Namespaced") != "Cluster";
        resource.verbs = texts(entry["verbs"]);
        for (const json::Value& below : entry["subresources"].array()) {
            resource.subresources.emplace_back(json::View(below)["subresource"].string_or(""));
        }
        found.kinds.emplace(std::move(kind), std::move(resource));
    }
    return found;
}

}  // namespace

bool is_path_segment(std::string_view text) {
    return !text.empty() && text != "." && text != ".." &&
           text.find_first_of("/%?# ") == std::string_view::npos &&
           std::none_of(text.begin(), text.end(), [](char c) {
               return static_cast<unsigned char>(c) < 0x21 || c == 0x7f;
           });
}

// Legacy discovery document, APIResourceList.
Kinds parse_resource_list(const json::Value& list, const GroupVersionKind& of) {
    Kinds kinds;
    std::vector<std::string> subresources;
    for (const json::Value& item : json::View(list)["resources"].array()) {
        const json::View entry(item);
        const std::string_view name = entry["name"].string_or("");
        if (name.find('/') != std::string_view::npos) {
            subresources.emplace_back(name);
            continue;
        }
        const std::string kind(entry["kind"].string_or(""));
        if (kind.empty() || !is_path_segment(name)) {
            continue;
        }
        Resource resource{{of.group, of.version, kind},
                          std::string(name),
                          entry["namespaced"].bool_or(true),
                          {},
                          {}};
        for (const json::Value& verb : entry["verbs"].array()) {
            resource.verbs.emplace_back(verb.is_string() ? *verb.if_string() : "");
        }
        kinds.emplace(kind, std::move(resource));
    }
    for (const std::string& full : subresources) {
        const std::size_t slash = full.find('/');
        for (auto& [kind, resource] : kinds) {
            if (resource.plural == std::string_view(full).substr(0, slash)) {
                resource.subresources.push_back(full.substr(slash + 1));
            }
        }
    }
    return kinds;
}

bool is_aggregated(std::string_view content_type) {
    return content_type.find("g=apidiscovery.k8s.io") != std::string_view::npos &&
           content_type.find("as=APIGroupDiscoveryList") != std::string_view::npos;
}

std::map<std::string, DiscoveredVersion> parse_aggregated(
    const json::Value& list, const std::function<bool(const std::string& api_version)>& wanted) {
    std::map<std::string, DiscoveredVersion> found;
    for (const json::Value& item : json::View(list)["items"].array()) {
        const json::View entry(item);
        const std::string group(entry["metadata"]["name"].string_or(""));
        for (const json::Value& each : entry["versions"].array()) {
            const json::View version(each);
            const std::string name(version["version"].string_or(""));
            const std::string api_version = group.empty() ? name : group + "/" + name;
            if (wanted(api_version)) {
                found[api_version] = read_version(version, group);
            }
        }
    }
    return found;
}

}  // namespace capstan::kube
