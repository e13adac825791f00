// openAPIV3Schema (JSON) -> SchemaNode tree, with the rules of structural schemas.
#include "runtime/local/apiserver/schema_internal.hpp"

#include <algorithm>
#include <array>

namespace capstan::local {

namespace {

constexpr std::array<std::string_view, 5> kForbidden{
    "$ref", "definitions", "dependencies", "patternProperties", "additionalItems"};

// What a place in the schema may carry.
enum class Role : std::uint8_t {
    root,
    field,    // a specified field, item or additional property: must have a type
    junctor,  // inside allOf, anyOf, oneOf, not: bounds only
};

class Compiler {
public:
    Result<std::unique_ptr<SchemaNode>> compile(const json::Value& schema,
                                                const std::string& path,
                                                Role role,
                                                std::size_t depth) {
        if (depth > kSchemaDepthMax || ++nodes_ > kSchemaNodesMax) {
            return fail(Code::too_large,
                        path + ": the schema is deeper than " + std::to_string(kSchemaDepthMax) +
                            " levels or has more than " + std::to_string(kSchemaNodesMax) +
                            " nodes");
        }
        if (!schema.is_object()) {
            return invalid_schema(path, "Invalid value: must be an object");
        }
        auto node = std::make_unique<SchemaNode>();
        CAPSTAN_TRY(check_forbidden(schema, path, role));
        CAPSTAN_TRY(read_extensions(schema, path, *node));
        CAPSTAN_TRY(read_type(schema, path, role, *node));
        CAPSTAN_TRY(read_children(schema, path, role, depth, *node));
        CAPSTAN_TRY(read_rules(schema, path, node->rules));
        CAPSTAN_TRY(read_junctors(schema, path, depth, node->rules));
        CAPSTAN_TRY(check_list(path, *node));
        CAPSTAN_TRY(read_cel(schema, path, role, *node));
        if (const json::Value* value = schema.find("default");
            value != nullptr && !value->is_null()) {
            node->default_value = *value;
        }
        return node;
    }

private:
    static Result<void> check_forbidden(const json::Value& schema,
                                        const std::string& path,
                                        Role role) {
        for (const std::string_view name : kForbidden) {
            if (schema.find(name) != nullptr) {
                return invalid_schema(path + "." + std::string(name),
                                      "Forbidden: " + std::string(name) + " is not supported");
            }
        }
        if (json::View(schema)["uniqueItems"].bool_or(false)) {
            return invalid_schema(path + ".uniqueItems",
                                  "Forbidden: uniqueItems cannot be set to true since the runtime "
                                  "complexity becomes quadratic");
        }
        if (role != Role::junctor) {
            return ok();
        }
        const bool int_or_string_branch =
            schema.find("type") != nullptr && schema.if_object()->size() == 1;
        for (const std::string_view name :
             {"type", "default", "additionalProperties", "nullable"}) {
            if (schema.find(name) != nullptr && !(name == "type" && int_or_string_branch)) {
                return invalid_schema(path + "." + std::string(name),
                                      "Forbidden: must be empty to be structural");
            }
        }
        return ok();
    }

    static Result<void> read_extensions(const json::Value& schema,
                                        const std::string& path,
                                        SchemaNode& node) {
        const json::View view(schema);
        node.preserve_unknown_fields = view["x-kubernetes-preserve-unknown-fields"].bool_or(false);
        node.int_or_string = view["x-kubernetes-int-or-string"].bool_or(false);
        node.embedded_resource = view["x-kubernetes-embedded-resource"].bool_or(false);
        node.nullable = view["nullable"].bool_or(false);
        const std::string_view list = view["x-kubernetes-list-type"].string_or("atomic");
        if (list == "set") {
            node.list_type = ListType::set;
        } else if (list == "map") {
            node.list_type = ListType::map;
        } else if (list != "atomic") {
            return invalid_schema(path + ".x-kubernetes-list-type",
                                  "Unsupported value: \"" + std::string(list) +
                                      R"(": supported values: "atomic", "map", "set")");
        }
        for (const json::Value& key : view["x-kubernetes-list-map-keys"].array()) {
            if (key.is_string()) {
                node.map_keys.push_back(*key.if_string());
            }
        }
        const std::string_view map = view["x-kubernetes-map-type"].string_or("granular");
        if (map == "atomic") {
            node.map_type = MapType::atomic;
        } else if (map != "granular") {
            return invalid_schema(path + ".x-kubernetes-map-type",
                                  "Unsupported value: \"" + std::string(map) +
                                      R"(": supported values: "atomic", "granular")");
        }
        return ok();
    }

    static Result<void> read_type(const json::Value& schema,
                                  const std::string& path,
                                  Role role,
                                  SchemaNode& node) {
        struct Named {
            std::string_view name;
            SchemaType type;
        };
        static constexpr std::array<Named, 6> kTypes{
            {{"object", SchemaType::object},
             {"array", SchemaType::array},
             {"string", SchemaType::string},
             {"integer", SchemaType::integer},
             {"number", SchemaType::number},
             {"boolean", SchemaType::boolean}},
        };
        const std::string_view name = json::View(schema)["type"].string_or("");
        if (name.empty()) {
            if (role == Role::root) {
                return invalid_schema(path + ".type",
                                      "Required value: must not be empty at the root");
            }
            if (role == Role::field && !node.int_or_string && !node.preserve_unknown_fields) {
                return invalid_schema(
                    path + ".type",
                    "Required value: must not be empty for specified object fields, array "
                    "items and additional properties");
            }
            return ok();
        }
        const auto found = std::find_if(
            kTypes.begin(), kTypes.end(), [&](const Named& n) { return n.name == name; });
        if (found == kTypes.end()) {
            return invalid_schema(path + ".type",
                                  "Unsupported value: \"" + std::string(name) + "\"");
        }
        if (node.int_or_string) {
            return invalid_schema(
                path + ".type",
                "Invalid value: must be empty if x-kubernetes-int-or-string is true");
        }
        if (role == Role::root && found->type != SchemaType::object) {
            return invalid_schema(path + ".type", "Invalid value: must be object at the root");
        }
        if (node.embedded_resource && found->type != SchemaType::object) {
            return invalid_schema(
                path + ".type",
                "Invalid value: must be object if x-kubernetes-embedded-resource is true");
        }
        node.type = found->type;
        return ok();
    }

    Result<void> read_children(const json::Value& schema,
                               const std::string& path,
                               Role role,
                               std::size_t depth,
                               SchemaNode& node) {
        const Role below = role == Role::junctor ? Role::junctor : Role::field;
        if (const json::Value* properties = schema.find("properties"); properties != nullptr) {
            if (!properties->is_object()) {
                return invalid_schema(path + ".properties", "Invalid value: must be an object");
            }
            for (const json::Member& member : *properties->if_object()) {
                CAPSTAN_TRY(
                    auto child,
                    compile(
                        member.value, path + ".properties[" + member.key + "]", below, depth + 1));
                node.properties.push_back({member.key, std::move(child)});
            }
            std::sort(
                node.properties.begin(),
                node.properties.end(),
                [](const SchemaProperty& a, const SchemaProperty& b) { return a.name < b.name; });
        }
        if (const json::Value* items = schema.find("items"); items != nullptr) {
            if (items->is_array()) {
                return invalid_schema(path + ".items",
                                      "Forbidden: items must be a schema object and not an array");
            }
            CAPSTAN_TRY(node.items, compile(*items, path + ".items", below, depth + 1));
        } else if (node.type == SchemaType::array) {
            return invalid_schema(path + ".items", "Required value: must be specified");
        }
        return read_additional(schema, path, depth, node);
    }

    Result<void> read_additional(const json::Value& schema,
                                 const std::string& path,
                                 std::size_t depth,
                                 SchemaNode& node) {
        const json::Value* additional = schema.find("additionalProperties");
        if (additional == nullptr) {
            return ok();
        }
        const std::string where = path + ".additionalProperties";
        if (!node.properties.empty()) {
            return invalid_schema(
                where, "Forbidden: additionalProperties and properties are mutual exclusive");
        }
        if (const bool* allowed = additional->if_bool()) {
            if (!*allowed) {
                return invalid_schema(where,
                                      "Forbidden: additionalProperties cannot be set to false");
            }
            node.additional_properties = std::make_unique<SchemaNode>();
            node.additional_properties->preserve_unknown_fields = true;
            node.additional_properties->nullable = true;
            return ok();
        }
        CAPSTAN_TRY(node.additional_properties,
                    compile(*additional, where, Role::field, depth + 1));
        return ok();
    }

    static Result<void> read_rules(const json::Value& schema,
                                   const std::string& path,
                                   ValueRules& rules) {
        const json::View view(schema);
        if (const std::string_view text = view["pattern"].string_or(""); !text.empty()) {
            auto pattern = Pattern::compile(text);
            if (!pattern) {
                Error error = pattern.error();
                return fail(with_context(std::move(error), path + ".pattern"));
            }
            rules.pattern = std::move(pattern).value();
        }
        rules.format = std::string(view["format"].string_or(""));
        read_number(view["minimum"], rules.minimum);
        read_number(view["maximum"], rules.maximum);
        read_number(view["multipleOf"], rules.multiple_of);
        if (rules.multiple_of && *rules.multiple_of <= 0) {
            return invalid_schema(path + ".multipleOf", "Invalid value: must be greater than 0");
        }
        rules.exclusive_minimum = view["exclusiveMinimum"].bool_or(false);
        rules.exclusive_maximum = view["exclusiveMaximum"].bool_or(false);
        read_size(view["minLength"], rules.length_min);
        read_size(view["maxLength"], rules.length_max);
        read_size(view["minItems"], rules.items_min);
        read_size(view["maxItems"], rules.items_max);
        read_size(view["minProperties"], rules.properties_min);
        read_size(view["maxProperties"], rules.properties_max);
        rules.enumeration = view["enum"].array();
        for (const json::Value& name : view["required"].array()) {
            if (!name.is_string()) {
                return invalid_schema(path + ".required", "Invalid value: must be strings");
            }
            rules.required.push_back(*name.if_string());
        }
        return ok();
    }

    static void read_number(const json::View& view, std::optional<double>& out) {
        if (auto number = view.as_real(); number) {
            out = number.value();
        }
    }
    static void read_size(const json::View& view, std::optional<std::size_t>& out) {
        if (auto number = view.as_int(); number && number.value() >= 0) {
            out = static_cast<std::size_t>(number.value());
        }
    }

    Result<void> read_junctors(const json::Value& schema,
                               const std::string& path,
                               std::size_t depth,
                               ValueRules& rules) {
        CAPSTAN_TRY(read_branches(schema, "allOf", path, depth, rules.all_of));
        CAPSTAN_TRY(read_branches(schema, "anyOf", path, depth, rules.any_of));
        CAPSTAN_TRY(read_branches(schema, "oneOf", path, depth, rules.one_of));
        if (const json::Value* negated = schema.find("not"); negated != nullptr) {
            CAPSTAN_TRY(rules.negated, compile(*negated, path + ".not", Role::junctor, depth + 1));
        }
        return ok();
    }

    Result<void> read_branches(const json::Value& schema,
                               std::string_view name,
                               const std::string& path,
                               std::size_t depth,
                               std::vector<std::unique_ptr<SchemaNode>>& out) {
        std::size_t index = 0;
        for (const json::Value& branch : json::View(schema)[name].array()) {
            const std::string where =
                path + "." + std::string(name) + "[" + std::to_string(index++) + "]";
            CAPSTAN_TRY(auto node, compile(branch, where, Role::junctor, depth + 1));
            out.push_back(std::move(node));
        }
        return ok();
    }

    static Result<void> read_cel(const json::Value& schema,
                                 const std::string& path,
                                 Role role,
                                 SchemaNode& node) {
        const json::View rules = json::View(schema)["x-kubernetes-validations"];
        if (role == Role::junctor && !rules.array().empty()) {
            return invalid_schema(path + ".x-kubernetes-validations",
                                  "Forbidden: must be empty to be structural");
        }
        for (const json::Value& rule : rules.array()) {
            const json::View view(rule);
            CelRule& read = node.cel_rules.emplace_back();
            read.rule = view["rule"].string_or("");
            read.message = view["message"].string_or("");
            read.message_expression = view["messageExpression"].string_or("");
            read.reason_name = view["reason"].string_or("");
            read.field_path = view["fieldPath"].string_or("");
            read.optional_old = view["optionalOldSelf"].bool_or(false);
        }
        return ok();
    }

    std::size_t nodes_{0};
};

}  // namespace

Result<StructuralSchema> StructuralSchema::compile(const json::Value& schema) {
    Compiler compiler;
    CAPSTAN_TRY(auto root, compiler.compile(schema, "openAPIV3Schema", Role::root, 0));
    CAPSTAN_TRY(check_junctors(*root, "openAPIV3Schema"));
    CAPSTAN_TRY(check_defaults(*root, "openAPIV3Schema"));
    CAPSTAN_TRY(auto shapes, compile_rules(*root, "openAPIV3Schema"));
    return StructuralSchema(std::move(root), std::move(shapes));
}

}  // namespace capstan::local
