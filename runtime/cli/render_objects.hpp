// What `capstan render` makes of objects before and after the plugins had them. Pure.
#pragma once

#include "capstan/json.hpp"

#include <string>
#include <vector>

namespace capstan::cli {

struct RenderShape {
    bool as_json{false};  // one List; else YAML documents
    bool status{false};   // with status
    bool owners{false};   // with ownerReferences, their uid being kNoUid
};

// The uid of an owner is the cluster's to give. One that does not exist makes the cluster's garbage
// collector delete the object.
inline constexpr const char* kNoUid = "00000000-0000-0000-0000-000000000000";

// As an object is given to a server that does not have it: nothing of another server, no owners
// (their uids are of that server) and no status.
json::Value as_given(json::Value object);

// As it is printed: without what the server alone decides.
json::Value as_printed(json::Value object, const RenderShape& shape);

// In the order in which kubectl could apply them: what others refer to first, kinds that nobody
// knows before the workloads; then by kind, namespace and name.
void sort_for_apply(std::vector<json::Value>& objects);

std::string to_text(const std::vector<json::Value>& objects, const RenderShape& shape);

}  // namespace capstan::cli
