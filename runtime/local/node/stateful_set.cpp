#include "runtime/local/node/stateful_set.hpp"

#include "runtime/local/node/objects.hpp"

#include <algorithm>
#include <charconv>
#include <map>

namespace capstan::local {
namespace {

constexpr std::int64_t kReplicasMax = 200;

struct Set {
    const json::Value& object;
    json::View view;
    std::string name;
    std::string revision;
    int first{0};
    int replicas{1};
    bool ordered{true};
};

Set read_set(const json::Value& object) {
    Set set{object, json::View(object), key_of(object).name, template_revision(object)};
    const auto spec = set.view["spec"];
    set.first = static_cast<int>(
        std::clamp<std::int64_t>(spec["ordinals"]["start"].int_or(0), 0, 1'000'000));
    set.replicas =
        static_cast<int>(std::clamp<std::int64_t>(spec["replicas"].int_or(1), 0, kReplicasMax));
    set.ordered = spec["podManagementPolicy"].string_or("OrderedReady") != "Parallel";
    return set;
}

bool is_finished(const json::Value& pod) {
    const auto phase = phase_of(pod);
    return phase == "Failed" || phase == "Succeeded";
}

std::string_view revision_of(const json::Value& pod) {
    return label_of(pod, "controller-revision-hash");
}

json::Value claim_name(const Set& set, std::string_view claim, int ordinal) {
    return std::string(claim) + "-" + set.name + "-" + std::to_string(ordinal);
}

json::Value build_pod(const Set& set, int ordinal) {
    const std::string name = set.name + "-" + std::to_string(ordinal);
    const auto* pod_template = set.object.pointer("/spec/template");
    json::Value pod = {{"apiVersion", "v1"}, {"kind", "Pod"}};
    const auto* meta = pod_template == nullptr ? nullptr : pod_template->find("metadata");
    json::Value metadata = meta != nullptr && meta->is_object() ? *meta : json::object();
    metadata.set("name", name);
    metadata.set("namespace", key_of(set.object).ns);
    auto& labels = metadata["labels"];
    labels.set("apps.kubernetes.io/pod-index", std::to_string(ordinal));
    labels.set("controller-revision-hash", set.revision);
    labels.set("statefulset.kubernetes.io/pod-name", name);
    metadata.set("ownerReferences",
                 json::list({controller_reference(kStatefulSetKind, set.object)}));
    const auto* pod_spec = pod_template == nullptr ? nullptr : pod_template->find("spec");
    json::Value spec = pod_spec != nullptr && pod_spec->is_object() ? *pod_spec : json::object();
    spec.set("hostname", name);
    if (const auto service = set.view["spec"]["serviceName"].string_or(""); !service.empty()) {
        spec.set("subdomain", service);
    }
    json::Value volumes = json::list();
    json::Array claimed;
    for (const auto& claim : set.view["spec"]["volumeClaimTemplates"].array()) {
        const auto volume = json::View(claim)["metadata"]["name"].string_or("");
        volumes.push_back({
            {"name", volume},
            {"persistentVolumeClaim", {{"claimName", claim_name(set, volume, ordinal)}}},
        });
        claimed.emplace_back(volume);
    }
    const json::Value present =
        spec.find("volumes") == nullptr ? json::list() : *spec.find("volumes");
    for (const auto& volume : json::View(present).array()) {
        const json::Value volume_name = json::View(volume)["name"].string_or("");
        if (std::find(claimed.begin(), claimed.end(), volume_name) == claimed.end()) {
            // a claim template takes the place of a volume of the same name
            volumes.push_back(volume);
        }
    }
    if (!volumes.if_array()->empty()) {
        spec.set("volumes", std::move(volumes));
    }
    pod.set("metadata", std::move(metadata));
    pod.set("spec", std::move(spec));
    return pod;
}

void add_claims(const Set& set, int ordinal, std::vector<json::Value>& out) {
    for (const auto& claim_template : set.view["spec"]["volumeClaimTemplates"].array()) {
        const json::View view(claim_template);
        json::Value claim = {{"apiVersion", "v1"}, {"kind", "PersistentVolumeClaim"}};
        json::Value metadata = *view["metadata"].value();
        metadata.set("name", claim_name(set, view["metadata"]["name"].string_or(""), ordinal));
        metadata.set("namespace", key_of(set.object).ns);
        for (const auto& [key, value] : set.view["spec"]["selector"]["matchLabels"].object()) {
            metadata["labels"].set(key, value);
        }
        claim.set("metadata", std::move(metadata));
        if (view["spec"].present()) {
            claim.set("spec", *view["spec"].value());
        }
        out.push_back(std::move(claim));
    }
}

void set_count(json::Value& status, std::string_view key, int count) {
    if (count > 0) {
        status.set(key, count);
    }
}

json::Value build_status(const Set& set, const std::vector<const json::Value*>& pods) {
    const auto old = set.view["status"];
    std::string current(old["currentRevision"].string_or(set.revision));
    int ready = 0;
    int at_current = 0;
    int at_update = 0;
    for (const auto* pod : pods) {
        ready += is_pod_ready(*pod) && phase_of(*pod) == "Running" ? 1 : 0;
        if (!is_deleting(*pod)) {
            at_current += revision_of(*pod) == current ? 1 : 0;
            at_update += revision_of(*pod) == set.revision ? 1 : 0;
        }
    }
    if (current != set.revision && at_update == set.replicas && ready == set.replicas) {
        current = set.revision;  // the update is complete
        at_current = at_update;
    }
    json::Value status = {
        {"observedGeneration", set.view["metadata"]["generation"].int_or(0)},
        {"replicas", pods.size()},
        {"availableReplicas", ready},
        {"currentRevision", current},
        {"updateRevision", set.revision},
        {"collisionCount", old["collisionCount"].int_or(0)},
    };
    set_count(status, "readyReplicas", ready);
    set_count(status, "currentReplicas", at_current);
    set_count(status, "updatedReplicas", at_update);
    if (old["conditions"].present()) {
        status.set("conditions", *old["conditions"].value());
    }
    return status;
}

void remove_pod(StatefulSetPlan& plan, const json::Value& pod) {
    if (!is_deleting(pod)) {
        plan.removals.push_back({key_of(pod).name, uid_of(pod)});
    }
}

// Missing and finished pods; false: an ordered set has to wait.
bool plan_wanted(const Set& set,
                 const std::map<int, const json::Value*>& by_ordinal,
                 StatefulSetPlan& plan) {
    for (int ordinal = set.first; ordinal < set.first + set.replicas; ++ordinal) {
        const auto it = by_ordinal.find(ordinal);
        bool good = false;
        if (it == by_ordinal.end()) {
            add_claims(set, ordinal, plan.claims);
            plan.pods.push_back(build_pod(set, ordinal));
        } else if (is_finished(*it->second)) {
            remove_pod(plan, *it->second);
        } else {
            good = is_pod_ready(*it->second);
        }
        if (set.ordered && !good) {
            plan.waits_for = set.name + "-" + std::to_string(ordinal);
            return false;
        }
    }
    return true;
}

// Pods above the wanted range, from the top; false: an ordered set has to wait.
bool plan_surplus(const Set& set,
                  const std::map<int, const json::Value*>& by_ordinal,
                  StatefulSetPlan& plan) {
    for (auto it = by_ordinal.rbegin(); it != by_ordinal.rend(); ++it) {
        if (it->first >= set.first && it->first < set.first + set.replicas) {
            continue;
        }
        remove_pod(plan, *it->second);
        if (set.ordered) {
            plan.waits_for = "the end of " + key_of(*it->second).name;
            return false;
        }
    }
    return true;
}

void plan_update(const Set& set,
                 const std::map<int, const json::Value*>& by_ordinal,
                 StatefulSetPlan& plan) {
    const auto strategy = set.view["spec"]["updateStrategy"];
    if (strategy["type"].string_or("RollingUpdate") != "RollingUpdate") {
        return;
    }
    const auto partition = strategy["rollingUpdate"]["partition"].int_or(0);
    for (auto it = by_ordinal.rbegin(); it != by_ordinal.rend(); ++it) {
        if (it->first < set.first || it->first >= set.first + set.replicas ||
            it->first < partition) {
            continue;
        }
        const auto& pod = *it->second;
        if (revision_of(pod) != set.revision && !is_deleting(pod)) {
            remove_pod(plan, pod);
            plan.waits_for = "the update of " + key_of(pod).name;
            return;
        }
        if (!is_pod_ready(pod)) {
            plan.waits_for = key_of(pod).name + " to be ready";
            return;
        }
    }
}

}  // namespace

std::string template_revision(const json::Value& set) {
    const auto* pod_template = set.pointer("/spec/template");
    return key_of(set).name + "-" +
           short_digest(pod_template == nullptr ? "" : json::dump_sorted(*pod_template));
}

std::optional<int> ordinal_of(std::string_view set_name, std::string_view pod_name) {
    if (!pod_name.starts_with(set_name) || pod_name.size() < set_name.size() + 2 ||
        pod_name[set_name.size()] != '-') {
        return std::nullopt;
    }
    const auto digits = pod_name.substr(set_name.size() + 1);
    int ordinal = 0;
    const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), ordinal);
    const bool whole =
        parsed.ec == std::errc{} && parsed.ptr == digits.data() + digits.size() && ordinal >= 0;
    return whole && (digits == "0" || digits[0] != '0') ? std::optional(ordinal) : std::nullopt;
}

StatefulSetPlan plan_stateful_set(const json::Value& object,
                                  const std::vector<const json::Value*>& pods) {
    StatefulSetPlan plan;
    const auto set = read_set(object);
    if (is_deleting(object)) {
        const auto status = set.view["status"];
        plan.status = status.present() ? *status.value() : json::object();
        return plan;
    }
    std::map<int, const json::Value*> by_ordinal;
    for (const auto* pod : pods) {
        if (const auto ordinal = ordinal_of(set.name, key_of(*pod).name)) {
            by_ordinal[*ordinal] = pod;
        }
    }
    plan.status = build_status(set, pods);
    if (plan_wanted(set, by_ordinal, plan) && plan_surplus(set, by_ordinal, plan) &&
        plan.pods.empty()) {
        plan_update(set, by_ordinal, plan);
    }
    return plan;
}

}  // namespace capstan::local
