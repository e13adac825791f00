// The resources the server knows: builtin ones and those of CustomResourceDefinitions, by
// group, version and plural.
#pragma once

#include "runtime/local/apiserver/apply_typed.hpp"
#include "runtime/local/apiserver/openapi.hpp"
#include "runtime/local/apiserver/schema_structural.hpp"
#include "runtime/local/apiserver/status.hpp"

#include "capstan/json.hpp"
#include "capstan/object_ref.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace capstan::local {

inline constexpr std::size_t kCrdsMax = 1000;

// Paths of the scale subresource, as RFC 6901 pointers.
struct ScalePaths {
    std::string spec_replicas;
    std::string status_replicas;
    std::string selector;  // empty: none
};

// One served (group, version, resource). Immutable.
struct ResourceKind {
    GroupVersionKind gvk;
    std::string plural;
    std::string singular;
    std::vector<std::string> short_names;
    std::vector<std::string> categories;
    std::vector<std::string> subresources;
    bool namespaced{true};
    bool custom{false};
    bool create_only{false};
    std::string storage;              // id in the store: "apps/statefulsets", "pods"
    std::string storage_api_version;  // of the stored objects
    std::vector<std::string> selectable_fields;
    ScalePaths scale;

    // Custom resources only. Shared by the kinds of one CRD and requests in flight.
    std::shared_ptr<const StructuralSchema> schema;
    json::Value raw_schema;
    json::Value printer_columns;  // list or null
    bool terminating{false};      // the CRD is being deleted: no creates

    bool has_subresource(std::string_view name) const noexcept;
    bool has_status() const noexcept { return has_subresource("status"); }
    ObjectSchema merge_schema() const;
    std::string list_kind() const { return gvk.kind + "List"; }
};
// shared: a CRD may go while a watch still runs
using KindPtr = std::shared_ptr<const ResourceKind>;

class Registry {
public:
    Registry();  // the builtin kinds

    KindPtr find(std::string_view group, std::string_view version, std::string_view plural) const;
    KindPtr find_kind(const GroupVersionKind& gvk) const;
    // Any served version of a storage id, the storage version first; null when it
    // is not served any more.
    KindPtr by_storage(std::string_view storage) const;
    bool has_group_version(std::string_view group, std::string_view version) const;

    // Replaces what the CRD `name` had registered.
    void set_crd(const std::string& name, std::vector<KindPtr> kinds);
    void erase_crd(const std::string& name);

    // In the order of discovery: builtin first, then CRDs by name; within a
    // group newest version first.
    const std::vector<KindPtr>& kinds() const noexcept { return kinds_; }
    std::uint64_t generation() const noexcept { return generation_; }  // moves with every change
    std::vector<OpenApiKind> openapi_kinds() const;                    // borrows from the kinds

private:
    void rebuild();
    std::vector<KindPtr> builtin_;
    std::map<std::string, std::vector<KindPtr>> crds_;
    std::vector<KindPtr> kinds_;
    std::map<std::string, KindPtr, std::less<>> by_path_;  // "group/version/plural"
    std::uint64_t generation_{0};
};

std::string storage_id(std::string_view group, std::string_view plural);

// Kubernetes' order of version names: v2, v1, v1beta2, v1beta1, v1alpha1, then the rest by text.
bool version_before(std::string_view a, std::string_view b);

}  // namespace capstan::local
