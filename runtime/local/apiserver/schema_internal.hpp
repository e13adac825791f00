// Shared by schema_*.cpp; not for others.
#pragma once

#include "runtime/local/apiserver/schema_structural.hpp"

namespace capstan::local {

using Failure = decltype(fail(Code::invalid, std::string()));

// "spec.x: Invalid value: …" about the schema itself.
Failure invalid_schema(const std::string& path, std::string_view what);
// x-kubernetes-list-type of one node: fits its type, its items and its keys. Errors: invalid.
Result<void> check_list(const std::string& path, const SchemaNode& node);
// Fields named inside a junctor are specified outside of it, in the whole tree. Errors: invalid.
Result<void> check_junctors(const SchemaNode& node, const std::string& path);

// Up to kFieldErrorsMax are kept.
void add_error(std::vector<FieldError>& errors, FieldError error);
FieldError wrong_type(const SchemaNode& node, const json::Value& value, const std::string& path);
// Adds what is wrong with `value` at `path` ("" for the root) to `errors`, up to kFieldErrorsMax.
void validate_node(const SchemaNode& node,
                   const json::Value& value,
                   const std::string& path,
                   std::vector<FieldError>& errors);
// Duplicates in lists of type set and map.
void validate_lists(const SchemaNode& node,
                    const json::Value& value,
                    const std::string& path,
                    std::vector<FieldError>& errors);
// apiVersion, kind and metadata of embedded resources.
void validate_embedded(const SchemaNode& node,
                       const json::Value& value,
                       const std::string& path,
                       std::vector<FieldError>& errors);

std::string_view type_name(SchemaType type);  // "object"; "" for any

// Compiles every rule; the nodes borrow the shapes returned. Errors: invalid, with the rule.
Result<std::shared_ptr<const cel::Shape>> compile_rules(SchemaNode& root, const std::string& path);
// Adds what the rules say; where `errors` tells of wrong types already, that they were not asked.
void validate_rules(const SchemaNode& root,
                    const json::Value& object,
                    const json::Value* old,
                    std::vector<FieldError>& errors);

// Removes unknown fields below `value`; paths of removed ones are added to `removed`,
// up to kPrunedPathsMax.
void prune_node(const SchemaNode& node,
                json::Value& value,
                const std::string& path,
                bool resource,
                std::vector<std::string>& removed);
void default_node(const SchemaNode& node, json::Value& value);

// Every default must itself be valid and fully specified by the schema. Errors: invalid.
Result<void> check_defaults(const SchemaNode& node, const std::string& path);

// Whether `text` is of OpenAPI format `format`; formats the API server does not
// know are always right.
bool matches_format(const std::string& format, const std::string& text);

// "spec" + "replicas" -> "spec.replicas"; keys with characters of their own in brackets.
std::string member_path(const std::string& path, const std::string& name);
std::string item_path(const std::string& path, std::size_t index);

}  // namespace capstan::local
