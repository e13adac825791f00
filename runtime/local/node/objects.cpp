#include "runtime/local/node/objects.hpp"

#include "runtime/kube/object.hpp"

namespace capstan::local {

ObjectKey key_of(const json::Value& object) {
    const auto meta = json::View(object)["metadata"];
    return {std::string(meta["namespace"].string_or("")), std::string(meta["name"].string_or(""))};
}

std::string uid_of(const json::Value& object) {
    return std::string(json::View(object)["metadata"]["uid"].string_or(""));
}

bool is_deleting(const json::Value& object) {
    return json::View(object)["metadata"]["deletionTimestamp"].present();
}

bool is_older(const json::Value& a, const json::Value& b) {
    const auto version = [](const json::Value& object) {
        return json::View(object)["metadata"]["resourceVersion"].string_or("");
    };
    return kube::compare_resource_versions(version(a), version(b)).value_or(0) < 0;
}

std::string_view phase_of(const json::Value& pod) {
    const auto* phase = pod.pointer("/status/phase");
    return phase != nullptr && phase->is_string() ? std::string_view(*phase->if_string())
                                                  : std::string_view{};
}

bool is_pod_ready(const json::Value& pod) {
    const auto conditions = json::View(pod)["status"]["conditions"];
    for (const auto& condition : conditions.array()) {
        const json::View view(condition);
        if (view["type"].string_or("") == "Ready") {
            return view["status"].string_or("") == "True" && !is_deleting(pod);
        }
    }
    return false;
}

std::string controller_uid(const json::Value& object) {
    const auto owners = json::View(object)["metadata"]["ownerReferences"];
    for (const auto& owner : owners.array()) {
        const json::View view(owner);
        if (view["controller"].bool_or(false)) {
            return std::string(view["uid"].string_or(""));
        }
    }
    return {};
}

json::Value controller_reference(const GroupVersionKind& kind, const json::Value& owner) {
    return {
        {"apiVersion", kind.api_version()},
        {"kind", kind.kind},
        {"name", key_of(owner).name},
        {"uid", uid_of(owner)},
        {"controller", true},
        {"blockOwnerDeletion", true},
    };
}

std::string_view label_of(const json::Value& object, std::string_view key) {
    const auto* labels = object.pointer("/metadata/labels");
    const auto* value = labels == nullptr ? nullptr : labels->find(key);
    return value != nullptr && value->is_string() ? std::string_view(*value->if_string())
                                                  : std::string_view{};
}

bool matches(const json::Value* labels, const json::Value* selector) {
    if (selector == nullptr || !selector->is_object() || selector->if_object()->empty()) {
        return false;
    }
    for (const auto& [key, value] : *selector->if_object()) {
        const auto* label = labels == nullptr ? nullptr : labels->find(key);
        if (label == nullptr || !(*label == value)) {
            return false;
        }
    }
    return true;
}

std::optional<json::Value> merge_patch_between(const json::Value& from, const json::Value& to) {
    if (!from.is_object() || !to.is_object()) {
        return from == to ? std::nullopt : std::optional(to);
    }
    json::Value patch = json::object();
    for (const auto& [key, value] : *to.if_object()) {
        const auto* old = from.find(key);
        if (old == nullptr) {
            if (!value.is_null()) {
                patch.set(key, value);
            }
        } else if (auto inner = merge_patch_between(*old, value)) {
            patch.set(key, std::move(*inner));
        }
    }
    for (const auto& [key, value] : *from.if_object()) {
        if (to.find(key) == nullptr && !value.is_null()) {
            patch.set(key, nullptr);
        }
    }
    return patch.if_object()->empty() ? std::nullopt : std::optional(std::move(patch));
}

std::string short_digest(std::string_view bytes) {
    constexpr std::string_view kLetters = "bcdfghjklmnpqrstvwxz2456789";
    std::uint64_t hash = 14695981039346656037u;
    for (const char c : bytes) {
        hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
    }
    std::string text;
    for (int i = 0; i < 10; ++i) {
        text += kLetters[hash % kLetters.size()];
        hash /= kLetters.size();
    }
    return text;
}

}  // namespace capstan::local
