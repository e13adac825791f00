// JSON Merge Patch (RFC 7386). Pure; thread: any.
#pragma once

#include "capstan/json.hpp"

namespace capstan::local {

// null removes a member, arrays are replaced whole.
void apply_merge_patch(json::Value& target, const json::Value& patch);

}  // namespace capstan::local
