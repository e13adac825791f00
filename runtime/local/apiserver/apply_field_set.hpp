// Sets of field paths and their wire form FieldsV1 (structured-merge-diff's fieldpath.Set).
//
// A path element is kept in its wire spelling: `f:name`, `k:{"name":"x"}`, `v:"x"`,
// `i:0`. Values; thread: any.
#pragma once

#include "capstan/json.hpp"

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace capstan::local {

using FieldPath = std::vector<std::string>;

struct FieldSet {
    bool member{false};  // the path to this node is in the set
    std::map<std::string, FieldSet, std::less<>> children;

    bool empty() const noexcept { return !member && children.empty(); }
    bool has(const FieldPath& path) const;
    const FieldSet* child(std::string_view element) const;
    void insert(const FieldPath& path);  // the root path is not a member
    bool erase_subtree(const FieldPath& path);
    void add(const FieldSet& other);  // union
    FieldSet intersection(const FieldSet& other) const;
    FieldSet difference(const FieldSet& other) const;            // members only
    FieldSet recursive_difference(const FieldSet& other) const;  // members and what is below them
    // Adds every inner node as a member (structured-merge-diff:
    // EnsureNamedFieldsAreMembers, for named fields).
    FieldSet with_parents() const;
    std::vector<FieldPath> paths() const;
    bool operator==(const FieldSet&) const = default;
};

json::Value to_fields_v1(const FieldSet& set);
FieldSet from_fields_v1(const json::Value& fields);  // unknown spellings are skipped

// ".spec.containers[name=\"x\"].image": the form of conflict messages.
std::string to_text(const FieldPath& path);

}  // namespace capstan::local
