// Server-side apply reads a configuration through the schema before it merges it.
#include "runtime/local/apiserver/apply_typed.hpp"

#include "runtime/local/apiserver/apply_field_set.hpp"
#include "runtime/local/apiserver/apply_shape.hpp"

namespace capstan::local {
namespace {

std::string_view kind_text(const json::Value& value) {
    switch (value.kind()) {
        case json::Kind::string: return "string";
        case json::Kind::boolean: return "boolean";
        case json::Kind::array: return "list";
        case json::Kind::object: return "map";
        default: return "number";
    }
}

// What the type wants, when the value is something else; empty: it fits.
std::string_view expected(const SchemaNode& node, const json::Value& value) {
    const bool number = value.if_int() != nullptr || value.if_real() != nullptr;
    if (node.int_or_string || value.is_null()) {
        return {};
    }
    switch (node.type) {
        case SchemaType::any: return {};
        case SchemaType::string: return value.is_string() ? "" : "string";
        case SchemaType::boolean: return value.kind() == json::Kind::boolean ? "" : "boolean";
        case SchemaType::integer:
        case SchemaType::number: return number ? "" : "numeric (int or float)";
        case SchemaType::array: return value.is_array() ? "" : "list";
        case SchemaType::object: return value.is_object() ? "" : "map";
    }
    return {};
}

Result<void> check(const json::Value& value,
                   const SchemaNode* node,
                   bool at_root,
                   FieldPath& path) {
    if (node != nullptr) {
        if (const auto wanted = expected(*node, value); !wanted.empty()) {
            return fail(Code::invalid,
                        to_text(path) + ": expected " + std::string(wanted) + ", got " +
                            std::string(kind_text(value)));
        }
    }
    if (const json::Object* members = value.if_object()) {
        for (const json::Member& member : *members) {
            path.push_back("f:" + member.key);
            CAPSTAN_TRY(check(member.value, member_schema(node, member.key, at_root), false, path));
            path.pop_back();
        }
    } else if (const json::Array* items = value.if_array(); items != nullptr && node != nullptr) {
        for (std::size_t i = 0; i < items->size(); ++i) {
            path.push_back("i:" + std::to_string(i));
            CAPSTAN_TRY(check((*items)[i], node->items.get(), false, path));
            path.pop_back();
        }
    }
    return ok();
}

}  // namespace

Result<void> check_types(const json::Value& object, const ObjectSchema& schema) {
    FieldPath path;
    return check(object, schema.root, true, path);
}

Result<void> check_typed(const json::Value& config, const ObjectSchema& schema) {
    CAPSTAN_TRY(check_types(config, schema));
    auto stated = to_field_set(config, schema);
    return stated ? ok() : Result<void>(fail(std::move(stated).error()));
}

}  // namespace capstan::local
