// Shared by builtin_kinds*.cpp; not for others.
#pragma once

#include "runtime/local/apiserver/builtin_kinds.hpp"

namespace capstan::local {

// Sets `key` when it is absent or null. `object` may be null (it becomes an object);
// other kinds are left alone.
inline void fill(json::Value& object, std::string_view key, json::Value value) {
    if (!object.is_object() && !object.is_null()) {
        return;
    }
    const json::Value* present = object.find(key);
    if (present == nullptr || present->is_null()) {
        object.set(key, std::move(value));
    }
}

// Calls `action` with each object in the list `key` of `object`.
template <class Action>
void for_each_item(json::Value& object, std::string_view key, Action action) {
    json::Value* list = object.find(key);
    if (list == nullptr || list->if_array() == nullptr) {
        return;
    }
    for (json::Value& item : *list->if_array()) {
        if (item.is_object()) {
            action(item);
        }
    }
}

void default_pod_spec(json::Value& spec);  // also of templates
void default_pod(json::Value& pod);

void validate_pod_spec(const json::Value& spec,
                       const std::string& path,
                       std::vector<FieldError>& errors);

}  // namespace capstan::local
