// x-kubernetes-validations of a schema, compiled with the types the schema gives.
#include "runtime/local/apiserver/schema_internal.hpp"

#include "runtime/local/cel/cel.hpp"

#include <algorithm>

namespace capstan::local {
namespace {

using cel::Shape;
using cel::ShapeKind;

std::unique_ptr<Shape> make_shape(ShapeKind kind) {
    auto shape = std::make_unique<Shape>();
    shape->kind = kind;
    return shape;
}

ShapeKind kind_of(const SchemaNode& node) {
    switch (node.type) {
        case SchemaType::any: return ShapeKind::dyn;
        case SchemaType::boolean: return ShapeKind::boolean;
        case SchemaType::integer: return ShapeKind::integer;
        case SchemaType::number: return ShapeKind::real;
        case SchemaType::string:
            return node.rules.format == "date-time" || node.rules.format == "date"
                       ? ShapeKind::timestamp
                   : node.rules.format == "duration" ? ShapeKind::duration
                                                     : ShapeKind::string;
        case SchemaType::array:
            return node.list_type == ListType::set   ? ShapeKind::set
                   : node.list_type == ListType::map ? ShapeKind::map_list
                                                     : ShapeKind::list;
        case SchemaType::object:
            return node.additional_properties != nullptr                     ? ShapeKind::map
                   : node.preserve_unknown_fields && node.properties.empty() ? ShapeKind::dyn
                                                                             : ShapeKind::object;
    }
    return ShapeKind::dyn;
}

// What rules see of any resource, whatever its schema says.
void add_resource_fields(Shape& shape) {
    std::erase_if(shape.fields, [](const Shape::Field& field) {
        return field.name == "apiVersion" || field.name == "kind" || field.name == "metadata";
    });
    auto metadata = make_shape(ShapeKind::object);
    for (const char* name : {"name", "generateName"}) {
        metadata->fields.push_back({name, make_shape(ShapeKind::string)});
    }
    shape.fields.push_back({"apiVersion", make_shape(ShapeKind::string)});
    shape.fields.push_back({"kind", make_shape(ShapeKind::string)});
    shape.fields.push_back({"metadata", std::move(metadata)});
}

// Builds the shapes and notes in each node what it needs of them.
std::unique_ptr<Shape> build_shape(SchemaNode& node, bool resource) {
    auto shape = make_shape(kind_of(node));
    node.rules_below = !node.cel_rules.empty();
    for (const SchemaProperty& property : node.properties) {
        shape->fields.push_back({property.name, build_shape(*property.schema, false)});
        node.rules_below = node.rules_below || property.schema->rules_below;
    }
    for (const auto* below : {&node.items, &node.additional_properties}) {
        if (*below != nullptr) {
            shape->of = build_shape(**below, false);
            node.rules_below = node.rules_below || (*below)->rules_below;
        }
    }
    shape->keys = node.map_keys;
    if (shape->kind == ShapeKind::object && (resource || node.embedded_resource)) {
        add_resource_fields(*shape);
    }
    return shape;
}

Failure refused(const std::string& where, std::string_view value, std::string_view why) {
    return invalid_schema(
        where, "Invalid value: " + json::dump(json::Value(value)) + ": " + std::string(why));
}

// ".spec['a-b'].c" -> "spec.a-b.c", which the schema below `node` must know. nullopt: it does not.
std::optional<std::string> normal_path(const SchemaNode& node, std::string_view path) {
    std::string out;
    const SchemaNode* at = &node;
    while (!path.empty()) {
        std::string_view name;
        if (path.starts_with("['")) {
            const std::size_t end = path.find("']");
            if (end == std::string_view::npos) {
                return std::nullopt;
            }
            name = path.substr(2, end - 2);
            path.remove_prefix(end + 2);
        } else if (path.starts_with('.')) {
            path.remove_prefix(1);
            name = path.substr(0, path.find_first_of(".["));
            path.remove_prefix(name.size());
        }
        const bool key = at->additional_properties != nullptr;
        at = name.empty() ? nullptr : at->child(name);
        if (at == nullptr) {
            return std::nullopt;
        }
        out += key           ? "[" + std::string(name) + "]"
               : out.empty() ? std::string(name)
                             : "." + std::string(name);
    }
    return out;
}

class RuleCompiler {
public:
    // `shape` is that of `node`; `uncorrelated`: where old values stop to be known, "" above it.
    Result<void> walk(SchemaNode& node,
                      const Shape& shape,
                      const std::string& path,
                      const std::string& uncorrelated) {
        if (!node.rules_below) {
            return ok();
        }
        node.shape = &shape;
        for (std::size_t i = 0; i < node.cel_rules.size(); ++i) {
            CAPSTAN_TRY(compile(node,
                                node.cel_rules[i],
                                path + ".x-kubernetes-validations[" + std::to_string(i) + "]",
                                uncorrelated));
        }
        const bool lost = !uncorrelated.empty() ||
                          (node.type == SchemaType::object && node.map_type == MapType::atomic);
        const std::string below = lost && uncorrelated.empty() ? path : uncorrelated;
        for (const SchemaProperty& property : node.properties) {
            // apiVersion, kind and metadata have shapes of their own, and rules of theirs no place.
            const Shape* child = shape.field(property.name);
            CAPSTAN_TRY(walk(*property.schema,
                             child == nullptr ? shape : *child,
                             path + ".properties[" + property.name + "]",
                             below));
        }
        if (node.items != nullptr) {
            const std::string where = path + ".items";
            const bool map = node.list_type == ListType::map;
            CAPSTAN_TRY(walk(*node.items, *shape.of, where, map || lost ? below : path));
        }
        if (node.additional_properties != nullptr) {
            CAPSTAN_TRY(walk(
                *node.additional_properties, *shape.of, path + ".additionalProperties", below));
        }
        return ok();
    }

private:
    static Result<std::shared_ptr<const cel::Program>> program(const SchemaNode& node,
                                                               const CelRule& rule,
                                                               const std::string& text,
                                                               const std::string& where,
                                                               ShapeKind result) {
        auto compiled = cel::Program::compile(text, {node.shape, rule.optional_old}, result);
        if (!compiled) {
            return refused(where, text, "compilation failed: " + compiled.error().message);
        }
        return std::make_shared<const cel::Program>(std::move(compiled).assume_value());
    }

    static Result<void> compile(const SchemaNode& node,
                                CelRule& rule,
                                const std::string& path,
                                const std::string& uncorrelated) {
        if (rule.rule.find_first_not_of(" \t\n\r") == std::string::npos) {
            return invalid_schema(path + ".rule", "Required value: rule is not specified");
        }
        CAPSTAN_TRY(rule.program,
                    program(node, rule, rule.rule, path + ".rule", ShapeKind::boolean));
        if (rule.program->uses_old() && !uncorrelated.empty()) {
            return refused(path + ".rule",
                           rule.rule,
                           "oldSelf cannot be used on the uncorrelatable portion of the schema "
                           "within " +
                               uncorrelated);
        }
        if (!rule.message_expression.empty()) {
            CAPSTAN_TRY(rule.message_program,
                        program(node,
                                rule,
                                rule.message_expression,
                                path + ".messageExpression",
                                ShapeKind::string));
        }
        for (const FieldReason reason : {FieldReason::invalid,
                                         FieldReason::required,
                                         FieldReason::forbidden,
                                         FieldReason::duplicate}) {
            if (rule.reason_name.empty() || rule.reason_name == to_string(reason)) {
                rule.reason = reason;
                return read_field_path(node, rule, path);
            }
        }
        return invalid_schema(path + ".reason",
                              "Unsupported value: \"" + rule.reason_name +
                                  "\": supported values: \"FieldValueRequired\", "
                                  "\"FieldValueInvalid\", \"FieldValueForbidden\", "
                                  "\"FieldValueDuplicate\"");
    }

    static Result<void> read_field_path(const SchemaNode& node,
                                        CelRule& rule,
                                        const std::string& path) {
        auto normal = normal_path(node, rule.field_path);
        if (!normal) {
            return refused(path + ".fieldPath",
                           rule.field_path,
                           "fieldPath must be a valid path: does not refer to a valid field");
        }
        rule.field_path = std::move(*normal);
        return ok();
    }
};

}  // namespace

Result<std::shared_ptr<const Shape>> compile_rules(SchemaNode& root, const std::string& path) {
    std::shared_ptr<const Shape> shape = build_shape(root, true);
    if (!root.rules_below) {
        return std::shared_ptr<const Shape>();
    }
    CAPSTAN_TRY(RuleCompiler().walk(root, *shape, path, ""));
    return shape;
}

}  // namespace capstan::local
