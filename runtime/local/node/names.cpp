#include "runtime/local/node/names.hpp"

#include "runtime/local/node/objects.hpp"

#include <algorithm>
#include <set>

namespace capstan::local {
namespace {

constexpr std::int64_t kReplicasMax = 200;

std::vector<ObjectKey> members_of(const ObjectKey& set_key, const json::Value& set) {
    const auto spec = json::View(set)["spec"];
    const auto replicas = std::clamp<std::int64_t>(spec["replicas"].int_or(1), 0, kReplicasMax);
    const auto first = std::clamp<std::int64_t>(spec["ordinals"]["start"].int_or(0), 0, 1'000'000);
    std::vector<ObjectKey> out;
    for (auto ordinal = first; ordinal < first + replicas; ++ordinal) {
        out.push_back({set_key.ns, set_key.name + "-" + std::to_string(ordinal)});
    }
    return out;
}

std::vector<NamedPod> named_pods(const Mirror& mirror, const AddressBook& addresses) {
    static const json::Value kNoLabels = json::object();
    std::vector<NamedPod> pods;
    std::set<ObjectKey> seen;
    for (const auto& [key, pod] : mirror.all(kPodKind)) {
        const auto address = addresses.known(key);
        if (!address || phase_of(pod) == "Succeeded" || phase_of(pod) == "Failed") {
            continue;
        }
        const auto spec = json::View(pod)["spec"];
        const auto* labels = pod.pointer("/metadata/labels");
        seen.insert(key);
        pods.push_back({key,
                        std::string(spec["hostname"].string_or(key.name)),
                        std::string(spec["subdomain"].string_or("")),
                        *address,
                        is_pod_ready(pod),
                        is_deleting(pod),
                        labels == nullptr ? &kNoLabels : labels});
    }
    for (const auto& [key, set] : mirror.all(kStatefulSetKind)) {
        const auto service = json::View(set)["spec"]["serviceName"].string_or("");
        for (const auto& member : members_of(key, set)) {
            const auto address = addresses.known(member);
            if (address && !seen.contains(member)) {
                pods.push_back(
                    {member, member.name, std::string(service), *address, false, false, nullptr});
            }
        }
    }
    return pods;
}

}  // namespace

Result<void> reserve_addresses(const Mirror& mirror, AddressBook& addresses) {
    for (const auto& [key, set] : mirror.all(kStatefulSetKind)) {
        for (const auto& member : members_of(key, set)) {
            CAPSTAN_TRY(addresses.address_of(member));
        }
    }
    for (const auto& [key, pod] : mirror.all(kPodKind)) {
        CAPSTAN_TRY(addresses.address_of(key));
    }
    return ok();
}

json::Value build_pod_map(const PodMapInput& input,
                          const Mirror& mirror,
                          const AddressBook& addresses) {
    std::vector<NamedService> services;
    for (const auto& [key, service] : mirror.all(kServiceKind)) {
        const auto spec = json::View(service)["spec"];
        services.push_back(
            {key, spec["selector"].value(), spec["publishNotReadyAddresses"].bool_or(false)});
    }
    return build_pod_map(input, named_pods(mirror, addresses), services);
}

}  // namespace capstan::local
