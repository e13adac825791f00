// The Kubernetes kinds the embedded API server knows without a CRD: names, list types,
// defaults, light validation.
//
// Facts from the Kubernetes API reference (1.34). Not complete schemas: unknown fields are kept,
// and a list the table does not name is atomic. Thread: any (immutable, pure functions).
#pragma once

#include "capstan/json.hpp"
#include "capstan/object_ref.hpp"
#include "runtime/local/apiserver/schema_error.hpp"
#include "runtime/local/apiserver/schema_structural.hpp"

#include <string>
#include <vector>

namespace capstan::local {

struct BuiltinKind {
    std::string group;  // "" for the core group
    std::string version;
    std::string kind;
    std::string plural;
    std::string singular;
    std::vector<std::string> short_names;
    bool namespaced{true};
    std::vector<std::string> subresources;  // "status", "scale", "log"
    std::vector<std::string> categories;
    bool create_only{false};  // authorization reviews: nothing is stored, only POST exists
};

const std::vector<BuiltinKind>& builtin_kinds();               // all, grouped by API group
const BuiltinKind* builtin_kind(const GroupVersionKind& gvk);  // nullptr: not builtin

// List types and map keys for server-side apply and strategic merge (a list of type map merges by
// map_keys; for strategic merge with more than one key the first is the patch merge key). Never
// null for a builtin kind; nullptr for others. Children not named: granular maps, atomic lists.
const SchemaNode* builtin_schema(const GroupVersionKind& gvk);

// What a real server fills in on create and update for the kinds our plugins write. Also Secret
// stringData -> data. Never touches metadata. No-op for kinds without defaults;
// CustomResourceDefinitions have their own (crd.hpp).
void apply_builtin_defaults(const GroupVersionKind& gvk, json::Value& object);

// What a real server takes from the stored object when an update leaves it out: Service
// clusterIP and clusterIPs.
void keep_allocated_fields(const GroupVersionKind& gvk,
                           const json::Value& old_object,
                           json::Value& new_object);

// Job only, on create, once metadata.uid and metadata.name are set: spec.selector and the
// pod labels batch.kubernetes.io/controller-uid and job-name (and their old spellings),
// unless spec.manualSelector.
void generate_job_selector(json::Value& job);

// Required fields and values a controller would trip over. Requires: defaults applied.
std::vector<FieldError> validate_builtin(const GroupVersionKind& gvk, const json::Value& object);

// Immutable fields: StatefulSet spec, Job template and selector, PVC spec, ConfigMap and Secret
// with `immutable`, Secret type, roleRef of bindings, Service clusterIP, Pod spec.
std::vector<FieldError> validate_builtin_update(const GroupVersionKind& gvk,
                                                const json::Value& old_object,
                                                const json::Value& new_object);

}  // namespace capstan::local
