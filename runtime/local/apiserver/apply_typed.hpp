// Objects seen through their merge schema: field sets, comparison, merge and removal
// for server-side apply.
//
// Follows structured-merge-diff v6 (typed.TypedValue). A null schema node means "deduced": granular
// maps, atomic lists. Pure; thread: any.
#pragma once

#include "runtime/local/apiserver/apply_field_set.hpp"
#include "runtime/local/apiserver/schema_structural.hpp"

#include "capstan/error.hpp"
#include "capstan/json.hpp"

#include <optional>
#include <string>

namespace capstan::local {

// Schema of a whole object: `root` for everything but metadata, whose list types are
// the same for every kind.
struct ObjectSchema {
    const SchemaNode* root{nullptr};  // borrowed; may be null
};

// The fields `object` states: leaves, empty maps, and items of associative lists.
// Errors: invalid (an item without its key, two items with one key).
Result<FieldSet> to_field_set(const json::Value& object, const ObjectSchema& schema);

// Whether each value has the type of the schema. Errors: invalid (".spec.count: expected numeric
// (int or float), got string").
Result<void> check_types(const json::Value& object, const ObjectSchema& schema);

// Whether a configuration does, and its lists have the keys they need, each once.
Result<void> check_typed(const json::Value& config, const ObjectSchema& schema);

struct Comparison {
    FieldSet added;     // only in the right one
    FieldSet removed;   // only in the left one
    FieldSet modified;  // leaves that differ

    bool same() const noexcept { return added.empty() && removed.empty() && modified.empty(); }
};
Comparison compare(const json::Value& left, const json::Value& right, const ObjectSchema& schema);

// `config` laid over `live`: maps by key, associative lists by their keys,
// everything else replaced.
json::Value merge_typed(const json::Value& live,
                        const json::Value& config,
                        const ObjectSchema& schema);

// `object` without the members of `fields`; a map or associative list left empty goes too.
json::Value remove_fields(const json::Value& object,
                          const FieldSet& fields,
                          const ObjectSchema& schema);

}  // namespace capstan::local
