// Strategic merge patch: what `kubectl apply` and `kubectl patch` send for builtin kinds.
//
// Lists with a merge key (from the kind's schema, else the well-known ones: containers by name,
// ownerReferences by uid, conditions by type …) merge by it; primitive set lists take the union;
// all others are replaced. Directives: $patch (replace, delete, merge), $deleteFromPrimitiveList/F,
// $setElementOrder/F, $retainKeys. Pure; thread: any.
#pragma once

#include "runtime/local/apiserver/schema_structural.hpp"
#include "runtime/local/apiserver/status.hpp"

#include "capstan/json.hpp"

namespace capstan::local {

// `schema` may be null. Errors: 400 for malformed directives, list items without merge key.
Answer<json::Value> apply_strategic_patch(const json::Value& object,
                                          const json::Value& patch,
                                          const SchemaNode* schema);

}  // namespace capstan::local
