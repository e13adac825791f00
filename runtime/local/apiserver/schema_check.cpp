// What a compiled schema must be as a whole: list types that fit their items, and nothing that is
// named only inside allOf, anyOf, oneOf or not.
#include "runtime/local/apiserver/schema_internal.hpp"

#include <algorithm>

namespace capstan::local {

Failure invalid_schema(const std::string& path, std::string_view what) {
    return fail(Code::invalid, path + ": " + std::string(what));
}

namespace {

Result<void> check_map_keys(const std::string& path, const SchemaNode& node) {
    for (const std::string& key : node.map_keys) {
        const SchemaNode* property = node.items->property(key);
        if (property == nullptr) {
            return invalid_schema(
                path + ".x-kubernetes-list-map-keys",
                "Invalid value: \"" + key + "\": entries must all be names of item properties");
        }
        if (property->type == SchemaType::object || property->type == SchemaType::array) {
            return invalid_schema(path + ".items.properties[" + key + "].type",
                                  "Invalid value: must be a scalar type if parent array's "
                                  "x-kubernetes-list-type is map");
        }
        const std::vector<std::string>& required = node.items->rules.required;
        if (!property->default_value &&
            std::find(required.begin(), required.end(), key) == required.end()) {
            return invalid_schema(
                path + ".items.properties[" + key + "].default",
                "Required value: this property is in x-kubernetes-list-map-keys, so it must have a "
                "default or be a required property");
        }
    }
    return ok();
}

// Fields named inside a junctor must be specified outside of it, so that pruning knows them.
Result<void> check_junctor_fields(const SchemaNode& node,
                                  const SchemaNode& outside,
                                  const std::string& path) {
    for (const SchemaProperty& property : node.properties) {
        const SchemaNode* other = outside.child(property.name);
        const std::string where = path + ".properties[" + property.name + "]";
        if (other == nullptr) {
            if (outside.preserve_unknown_fields) {
                continue;
            }
            return invalid_schema(
                where,
                "Required value: because it is defined in a junctor and must be specified outside");
        }
        CAPSTAN_TRY(check_junctor_fields(*property.schema, *other, where));
    }
    if (node.items != nullptr) {
        if (outside.items == nullptr) {
            return invalid_schema(path + ".items",
                                  "Required value: because it is defined in a junctor");
        }
        CAPSTAN_TRY(check_junctor_fields(*node.items, *outside.items, path + ".items"));
    }
    return ok();
}

}  // namespace

Result<void> check_list(const std::string& path, const SchemaNode& node) {
    if (node.list_type == ListType::map) {
        if (node.type != SchemaType::array || node.items->type != SchemaType::object) {
            return invalid_schema(path + ".items.type",
                                  "Invalid value: must be object if parent array's "
                                  "x-kubernetes-list-type is map");
        }
        if (node.map_keys.empty()) {
            return invalid_schema(
                path + ".x-kubernetes-list-map-keys",
                "Required value: must not be empty if x-kubernetes-list-type is map");
        }
        return check_map_keys(path, node);
    }
    if (!node.map_keys.empty()) {
        return invalid_schema(path + ".x-kubernetes-list-map-keys",
                              "Forbidden: must be empty if x-kubernetes-list-type is not map");
    }
    if (node.list_type == ListType::set) {
        if (node.type != SchemaType::array) {
            return invalid_schema(
                path + ".type",
                "Invalid value: must be array if x-kubernetes-list-type is specified");
        }
        const SchemaNode& item = *node.items;
        const bool list = item.type == SchemaType::array && item.list_type != ListType::atomic;
        const bool map = item.type == SchemaType::object && item.map_type != MapType::atomic;
        if (list || map || item.nullable) {
            return invalid_schema(
                path + ".items",
                "Invalid value: items of a set must be scalars, atomic maps or atomic "
                "lists and not nullable");
        }
    }
    return ok();
}

Result<void> check_junctors(const SchemaNode& node, const std::string& path) {
    for (const auto* branches : {&node.rules.all_of, &node.rules.any_of, &node.rules.one_of}) {
        for (const auto& branch : *branches) {
            CAPSTAN_TRY(check_junctor_fields(*branch, node, path));
        }
    }
    if (node.rules.negated != nullptr) {
        CAPSTAN_TRY(check_junctor_fields(*node.rules.negated, node, path));
    }
    for (const SchemaProperty& property : node.properties) {
        CAPSTAN_TRY(check_junctors(*property.schema, path + ".properties[" + property.name + "]"));
    }
    if (node.items != nullptr) {
        CAPSTAN_TRY(check_junctors(*node.items, path + ".items"));
    }
    if (node.additional_properties != nullptr) {
        CAPSTAN_TRY(check_junctors(*node.additional_properties, path + ".additionalProperties"));
    }
    return ok();
}

}  // namespace capstan::local
