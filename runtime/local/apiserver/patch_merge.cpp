#include "runtime/local/apiserver/patch_merge.hpp"

namespace capstan::local {

void drop_nulls(json::Value& value) {
    if (json::Object* members = value.if_object()) {
        std::erase_if(*members, [](const json::Member& member) { return member.value.is_null(); });
        for (json::Member& member : *members) {
            drop_nulls(member.value);
        }
    } else if (json::Array* items = value.if_array()) {
        for (json::Value& item : *items) {
            drop_nulls(item);
        }
    }
}

void apply_merge_patch(json::Value& target, const json::Value& patch) {
    const json::Object* members = patch.if_object();
    if (members == nullptr) {
        const bool replaces_map = target.is_object();
        target = patch;
        if (!replaces_map) {  // as the library of kube-apiserver
            drop_nulls(target);
        }
        return;
    }
    if (!target.is_object()) {
        target = json::object();
    }
    for (const json::Member& member : *members) {
        if (member.value.is_null()) {
            target.erase(member.key);
        } else {
            apply_merge_patch(target[member.key], member.value);
        }
    }
}

}  // namespace capstan::local
