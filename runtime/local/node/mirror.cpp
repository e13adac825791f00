#include "runtime/local/node/mirror.hpp"

#include "runtime/local/node/objects.hpp"

namespace capstan::local {

void Mirror::watch(const GroupVersionKind& kind) {
    objects_[kind];
    watches_.push_back(
        api_.watch(kind, [this, kind](const NodeChange& change) { take(kind, change); }));
}

void Mirror::put(const GroupVersionKind& kind, json::Value object) {
    objects_[kind].insert_or_assign(key_of(object), std::move(object));
}

const std::map<ObjectKey, json::Value>& Mirror::all(const GroupVersionKind& kind) const {
    return objects_.at(kind);
}

const json::Value* Mirror::find(const GroupVersionKind& kind, const ObjectKey& key) const {
    const auto& objects = objects_.at(kind);
    const auto it = objects.find(key);
    return it == objects.end() ? nullptr : &it->second;
}

std::vector<const json::Value*> Mirror::controlled_by(const GroupVersionKind& kind,
                                                      const std::string& uid) const {
    std::vector<const json::Value*> out;
    for (const auto& [key, object] : all(kind)) {
        if (controller_uid(object) == uid) {
            out.push_back(&object);
        }
    }
    return out;
}

void Mirror::take(const GroupVersionKind& kind, const NodeChange& change) {
    auto& objects = objects_[kind];
    const auto key = key_of(change.object);
    const auto it = objects.find(key);
    if (change.type == NodeChangeType::deleted) {
        // A later object of the same name may be here already, from our own create.
        if (it != objects.end() && uid_of(it->second) == uid_of(change.object)) {
            const auto old = std::move(it->second);
            objects.erase(it);
            on_change_(kind, &old, nullptr);
        }
        return;
    }
    if (it == objects.end()) {
        const auto added = objects.emplace(key, change.object).first;
        on_change_(kind, nullptr, &added->second);
        return;
    }
    if (is_older(change.object, it->second)) {
        return;  // put() was faster
    }
    const auto old = std::exchange(it->second, change.object);
    on_change_(kind, &old, &it->second);
}

}  // namespace capstan::local
