// Defaulting, pruning and walking. The algorithms are those of
// apiextensions-apiserver's structural schemas.
#include "runtime/local/apiserver/schema_internal.hpp"

#include <algorithm>

namespace capstan::local {

namespace {

bool is_refused_null(const json::Value& value, const SchemaNode* node) {
    return value.is_null() && node != nullptr && !node->nullable;
}

// Nulls that no default replaced: dropped, so that "x: null" means "x absent".
void drop_nulls(const SchemaNode& node, json::Value& value) {
    if (json::Object* object = value.if_object()) {
        std::erase_if(*object, [&](const json::Member& member) {
            return is_refused_null(member.value, node.child(member.key));
        });
        for (json::Member& member : *object) {
            if (const SchemaNode* child = node.child(member.key)) {
                drop_nulls(*child, member.value);
            }
        }
    } else if (json::Array* array = value.if_array(); array != nullptr && node.items != nullptr) {
        for (json::Value& item : *array) {
            drop_nulls(*node.items, item);
        }
    }
}

void collect_cel(const SchemaNode& node, const std::string& path, std::vector<CelRuleAt>& out) {
    for (const CelRule& rule : node.cel_rules) {
        out.push_back({path, &rule});
    }
    for (const SchemaProperty& property : node.properties) {
        collect_cel(*property.schema, member_path(path, property.name), out);
    }
    if (node.items != nullptr) {
        collect_cel(*node.items, path + "[*]", out);
    }
    if (node.additional_properties != nullptr) {
        collect_cel(*node.additional_properties, path + "[*]", out);
    }
}

bool is_resource_field(const std::string& name) {
    return name == "apiVersion" || name == "kind" || name == "metadata";
}

void prune_object(const SchemaNode& node,
                  json::Object& object,
                  const std::string& path,
                  bool resource,
                  std::vector<std::string>& removed) {
    std::erase_if(object, [&](const json::Member& member) {
        const bool known = node.child(member.key) != nullptr || node.preserve_unknown_fields ||
                           (resource && is_resource_field(member.key));
        if (!known && removed.size() < kPrunedPathsMax) {
            removed.push_back(member_path(path, member.key));
        }
        return !known;
    });
    for (json::Member& member : object) {
        if (resource && is_resource_field(member.key)) {
            continue;  // checked as object metadata, not by the schema
        }
        if (const SchemaNode* child = node.child(member.key)) {
            prune_node(*child,
                       member.value,
                       member_path(path, member.key),
                       child->embedded_resource,
                       removed);
        }
    }
}

}  // namespace

std::string member_path(const std::string& path, const std::string& name) {
    return path.empty() ? name : path + "." + name;
}

std::string item_path(const std::string& path, std::size_t index) {
    return path + "[" + std::to_string(index) + "]";
}

const SchemaNode* SchemaNode::property(std::string_view name) const noexcept {
    const auto found =
        std::lower_bound(properties.begin(),
                         properties.end(),
                         name,
                         [](const SchemaProperty& p, std::string_view n) { return p.name < n; });
    return found != properties.end() && found->name == name ? found->schema.get() : nullptr;
}

const SchemaNode* SchemaNode::child(std::string_view name) const noexcept {
    const SchemaNode* found = property(name);
    return found != nullptr ? found : additional_properties.get();
}

void default_node(const SchemaNode& node, json::Value& value) {
    if (json::Object* object = value.if_object()) {
        for (const SchemaProperty& property : node.properties) {
            if (!property.schema->default_value) {
                continue;
            }
            const json::Value* present = value.find(property.name);
            if (present == nullptr || is_refused_null(*present, property.schema.get())) {
                value.set(property.name, *property.schema->default_value);
            }
        }
        object = value.if_object();
        for (json::Member& member : *object) {
            const SchemaNode* child = node.child(member.key);
            if (child == nullptr) {
                continue;
            }
            if (is_refused_null(member.value, child) && child->default_value) {
                member.value = *child->default_value;
            }
            default_node(*child, member.value);
        }
    } else if (json::Array* array = value.if_array(); array != nullptr && node.items != nullptr) {
        for (json::Value& item : *array) {
            if (is_refused_null(item, node.items.get()) && node.items->default_value) {
                item = *node.items->default_value;
            }
            default_node(*node.items, item);
        }
    }
}

void prune_node(const SchemaNode& node,
                json::Value& value,
                const std::string& path,
                bool resource,
                std::vector<std::string>& removed) {
    if (json::Object* object = value.if_object()) {
        prune_object(node, *object, path, resource, removed);
    } else if (json::Array* array = value.if_array(); array != nullptr && node.items != nullptr) {
        for (std::size_t i = 0; i < array->size(); ++i) {
            prune_node(*node.items,
                       (*array)[i],
                       item_path(path, i),
                       node.items->embedded_resource,
                       removed);
        }
    }
}

Result<void> check_defaults(const SchemaNode& node, const std::string& path) {
    if (node.default_value) {
        json::Value value = *node.default_value;
        std::vector<std::string> removed;
        prune_node(node, value, "default", node.embedded_resource, removed);
        if (!removed.empty()) {
            return fail(
                Code::invalid,
                path + ".default: Invalid value: must not have unknown fields: " + removed.front());
        }
        std::vector<FieldError> errors;
        validate_node(node, value, "default", errors);
        validate_lists(node, value, "default", errors);
        if (!errors.empty()) {
            return fail(Code::invalid, path + "." + errors.front().text());
        }
    }
    for (const SchemaProperty& property : node.properties) {
        CAPSTAN_TRY(check_defaults(*property.schema, path + ".properties[" + property.name + "]"));
    }
    if (node.items != nullptr) {
        CAPSTAN_TRY(check_defaults(*node.items, path + ".items"));
    }
    if (node.additional_properties != nullptr) {
        CAPSTAN_TRY(check_defaults(*node.additional_properties, path + ".additionalProperties"));
    }
    return ok();
}

void StructuralSchema::apply_defaults(json::Value& object, Nulls nulls) const {
    default_node(*root_, object);
    if (nulls == Nulls::drop) {
        drop_nulls(*root_, object);
    }
}

std::vector<std::string> StructuralSchema::prune(json::Value& object) const {
    std::vector<std::string> removed;
    prune_node(*root_, object, "", true, removed);
    return removed;
}

std::vector<FieldError> StructuralSchema::validate(const json::Value& object,
                                                   const json::Value* old) const {
    std::vector<FieldError> errors;
    validate_node(*root_, object, "", errors);
    validate_lists(*root_, object, "", errors);
    validate_embedded(*root_, object, "", errors);
    validate_rules(*root_, object, old, errors);
    return errors;
}

std::vector<CelRuleAt> StructuralSchema::cel_rules() const {
    std::vector<CelRuleAt> rules;
    collect_cel(*root_, "", rules);
    return rules;
}

}  // namespace capstan::local
