// What Kubernetes validates beyond OpenAPI: lists of type set and map, embedded resources.
#include "runtime/local/apiserver/schema_internal.hpp"

#include <unordered_set>

namespace capstan::local {

using Errors = std::vector<FieldError>;

void validate_lists(const SchemaNode& node,
                    const json::Value& value,
                    const std::string& path,
                    Errors& errors) {
    if (const json::Object* object = value.if_object()) {
        for (const json::Member& member : *object) {
            if (const SchemaNode* child = node.child(member.key)) {
                validate_lists(*child, member.value, member_path(path, member.key), errors);
            }
        }
        return;
    }
    const json::Array* array = value.if_array();
    if (array == nullptr || node.items == nullptr) {
        return;
    }
    std::unordered_set<std::string> seen;
    for (std::size_t i = 0; i < array->size(); ++i) {
        const json::Value& item = (*array)[i];
        if (node.list_type == ListType::set && !seen.insert(json::dump_sorted(item)).second) {
            add_error(errors, duplicate_value(item_path(path, i), item));
        }
        if (node.list_type == ListType::map && item.is_object()) {
            json::Value keys = json::object();
            for (const std::string& key : node.map_keys) {
                if (const json::Value* part = item.find(key)) {
                    keys.set(key, *part);
                }
            }
            if (!seen.insert(json::dump_sorted(keys)).second) {
                add_error(errors, duplicate_value(item_path(path, i), keys));
            }
        }
        validate_lists(*node.items, item, item_path(path, i), errors);
    }
}

void validate_embedded(const SchemaNode& node,
                       const json::Value& value,
                       const std::string& path,
                       Errors& errors) {
    if (const json::Object* object = value.if_object()) {
        if (node.embedded_resource) {
            for (const std::string name : {"apiVersion", "kind"}) {
                const json::Value* found = value.find(name);
                if (found == nullptr || !found->is_string() || found->if_string()->empty()) {
                    add_error(errors, required_value(member_path(path, name), "must not be empty"));
                }
            }
            if (const json::Value* metadata = value.find("metadata");
                metadata != nullptr && !metadata->is_object()) {
                add_error(errors,
                          wrong_type(SchemaNode{}, *metadata, member_path(path, "metadata")));
            }
        }
        for (const json::Member& member : *object) {
            if (const SchemaNode* child = node.child(member.key)) {
                validate_embedded(*child, member.value, member_path(path, member.key), errors);
            }
        }
        return;
    }
    if (const json::Array* array = value.if_array(); array != nullptr && node.items != nullptr) {
        for (std::size_t i = 0; i < array->size(); ++i) {
            validate_embedded(*node.items, (*array)[i], item_path(path, i), errors);
        }
    }
}

}  // namespace capstan::local
