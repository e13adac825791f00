#include "runtime/cli/render_objects.hpp"

#include "runtime/config/yaml.hpp"

#include <algorithm>
#include <array>
#include <string_view>
#include <tuple>

namespace capstan::cli {
namespace {

constexpr std::array<std::string_view, 8> kServerFields{"uid",
                                                        "resourceVersion",
                                                        "generation",
                                                        "creationTimestamp",
                                                        "deletionTimestamp",
                                                        "deletionGracePeriodSeconds",
                                                        "managedFields",
                                                        "selfLink"};

// "": every other kind.
constexpr std::array<std::string_view, 30> kOrder{"Namespace",
                                                  "CustomResourceDefinition",
                                                  "PriorityClass",
                                                  "StorageClass",
                                                  "NetworkPolicy",
                                                  "ResourceQuota",
                                                  "LimitRange",
                                                  "PodDisruptionBudget",
                                                  "ServiceAccount",
                                                  "Secret",
                                                  "ConfigMap",
                                                  "PersistentVolume",
                                                  "PersistentVolumeClaim",
                                                  "ClusterRole",
                                                  "ClusterRoleBinding",
                                                  "Role",
                                                  "RoleBinding",
                                                  "Lease",
                                                  "Service",
                                                  "Endpoints",
                                                  "EndpointSlice",
                                                  "",
                                                  "DaemonSet",
                                                  "Pod",
                                                  "ReplicaSet",
                                                  "Deployment",
                                                  "StatefulSet",
                                                  "Job",
                                                  "CronJob",
                                                  "Ingress"};

std::size_t rank_of(std::string_view kind) {
    const auto known = std::find(kOrder.begin(), kOrder.end(), kind);
    const auto found =
        known == kOrder.end() ? std::find(kOrder.begin(), kOrder.end(), std::string_view()) : known;
    return static_cast<std::size_t>(found - kOrder.begin());
}

auto place_of(const json::Value& object) {
    const json::View view(object);
    const std::string_view kind = view["kind"].string_or("");
    return std::tuple(rank_of(kind),
                      kind,
                      view["apiVersion"].string_or(""),
                      view["metadata"]["namespace"].string_or(""),
                      view["metadata"]["name"].string_or(""));
}

void erase_server_fields(json::Value& object) {
    json::Value* metadata = object.find("metadata");
    for (const std::string_view field : kServerFields) {
        metadata->erase(field);
    }
}

// Of claims in a StatefulSet, which the server fills in as if they were objects.
void erase_claims_status(json::Value& object) {
    json::Value* claims = object.pointer("/spec/volumeClaimTemplates");
    if (claims != nullptr && claims->if_array() != nullptr) {
        for (json::Value& claim : *claims->if_array()) {
            claim.erase("status");
        }
    }
}

// Templates of pods and claims may carry an empty one.
void erase_empty_times(json::Value& value) {
    if (json::Object* members = value.if_object()) {
        std::erase_if(*members, [](const json::Member& member) {
            return member.key == "creationTimestamp" && member.value.is_null();
        });
        for (json::Member& member : *members) {
            erase_empty_times(member.value);
        }
    } else if (json::Array* items = value.if_array()) {
        for (json::Value& item : *items) {
            erase_empty_times(item);
        }
    }
}

}  // namespace

json::Value as_given(json::Value object) {
    erase_server_fields(object);
    object.find("metadata")->erase("ownerReferences");
    object.erase("status");
    return object;
}

json::Value as_printed(json::Value object, const RenderShape& shape) {
    erase_server_fields(object);
    erase_empty_times(object);
    if (!shape.status) {
        object.erase("status");
        erase_claims_status(object);
    }
    json::Value* metadata = object.find("metadata");
    json::Value* owners = metadata->find("ownerReferences");
    if (owners != nullptr && !shape.owners) {
        metadata->erase("ownerReferences");
    } else if (owners != nullptr && owners->if_array() != nullptr) {
        for (json::Value& owner : *owners->if_array()) {
            owner.set("uid", kNoUid);
        }
    }
    return object;
}

void sort_for_apply(std::vector<json::Value>& objects) {
    std::sort(objects.begin(), objects.end(), [](const json::Value& a, const json::Value& b) {
        return place_of(a) < place_of(b);
    });
}

std::string to_text(const std::vector<json::Value>& objects, const RenderShape& shape) {
    if (shape.as_json) {
        const json::Value list = {
            {"apiVersion", "v1"}, {"kind", "List"}, {"items", json::Array(objects)}};
        return json::dump_pretty(list) + "\n";
    }
    std::string text;
    for (const json::Value& object : objects) {
        text += "---\n" + config::to_yaml(object);
    }
    return text;
}

}  // namespace capstan::cli
