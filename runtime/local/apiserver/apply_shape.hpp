// How one value is treated by merge and comparison, and the path element of a list
// item. Used by apply_*.cpp.
#pragma once

#include "runtime/local/apiserver/schema_structural.hpp"

#include "capstan/json.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace capstan::local {

enum class Shape : std::uint8_t { leaf, map, list_set, list_map };

// Shape by schema and value; a null or absent value has the shape of the other side.
Shape shape_of(const SchemaNode* node, const json::Value& value);

// The node of member `name`. At the root, metadata has one schema for all kinds.
const SchemaNode* member_schema(const SchemaNode* node, std::string_view name, bool at_root);
// True when the member is a key of an open map (labels), not a field of a structure.
bool is_open_member(const SchemaNode* node, std::string_view name);

// `k:{…}` or `v:…`; nullopt when a key field is absent and has no default, or
// the item is no object.
std::optional<std::string> item_element(const SchemaNode* list,
                                        Shape shape,
                                        const json::Value& item);

// Items of an associative list by path element; of equal ones the first counts.
// Borrowed from the list.
using ItemIndex = std::map<std::string, const json::Value*, std::less<>>;
ItemIndex index_items(const SchemaNode* list, Shape shape, const json::Value& value);

}  // namespace capstan::local
