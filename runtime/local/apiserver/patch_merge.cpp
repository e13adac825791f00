#include "runtime/local/apiserver/patch_merge.hpp"

namespace capstan::local {

void apply_merge_patch(json::Value& target, const json::Value& patch) {
    const json::Object* members = patch.if_object();
    if (members == nullptr) {
        target = patch;
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
