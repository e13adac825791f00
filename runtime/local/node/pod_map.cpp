#include "runtime/local/node/pod_map.hpp"

#include "runtime/local/node/objects.hpp"

namespace capstan::local {
namespace {

void add_name(json::Value& names,
              const std::string& name,
              const ObjectKey& owner,
              const std::string& own_ns,
              const json::Value& value) {
    if (owner.ns == own_ns) {
        names.set(name, value);
    }
    for (const std::string_view end : {"", ".svc", ".svc.cluster.local"}) {
        names.set(name + "." + owner.ns + std::string(end), value);
    }
}

}  // namespace

json::Value build_pod_map(const PodMapInput& input,
                          const std::vector<NamedPod>& pods,
                          const std::vector<NamedService>& services) {
    json::Value paths = json::object();
    for (const auto& [inside, outside] : input.paths->entries()) {
        paths.set(inside, outside);
    }
    json::Value names = json::object();
    for (const auto& service : services) {
        json::Value addresses = json::list();
        for (const auto& pod : pods) {
            const bool takes =
                pod.labels != nullptr && (service.publish_not_ready || (pod.ready && !pod.ending));
            if (takes && pod.key.ns == service.key.ns && matches(pod.labels, service.selector)) {
                addresses.push_back(pod.address);
            }
        }
        add_name(names, service.key.name, service.key, input.ns, addresses);
    }
    for (const auto& pod : pods) {
        if (!pod.subdomain.empty()) {
            add_name(names, pod.hostname + "." + pod.subdomain, pod.key, input.ns, pod.address);
        }
    }
    for (const auto& alias : input.aliases) {
        names.set(alias, input.pod_ip);
    }
    json::Value map = {
        {"paths", std::move(paths)},
        {"names", std::move(names)},
        {"podIP", input.pod_ip},
        {"apiServer",
         {{"url", input.api_url}, {"caFile", input.ca_file}, {"tokenFile", input.token_file}}},
    };
    if (!input.steward_token_file.empty()) {
        map.set("stewardTokenFile", input.steward_token_file);
    }
    return map;
}

}  // namespace capstan::local
