// JSON Merge Patch (RFC 7386). Pure; thread: any.
#pragma once

#include "capstan/json.hpp"

namespace capstan::local {

// null removes a member, arrays are replaced whole.
void apply_merge_patch(json::Value& target, const json::Value& patch);

// Removes every member whose value is null, however deep; elements of arrays stay.
void drop_nulls(json::Value& value);

}  // namespace capstan::local
