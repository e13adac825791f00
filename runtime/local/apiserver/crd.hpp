// CustomResourceDefinition objects: checking them, and turning them into kinds.
#pragma once

#include "runtime/local/apiserver/resource_kind.hpp"
#include "runtime/local/apiserver/schema_error.hpp"

#include "capstan/json.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace capstan::local {

inline constexpr std::string_view kCrdStorage = "apiextensions.k8s.io/customresourcedefinitions";
inline constexpr std::string_view kCrdFinalizer = "customresourcecleanup.apiextensions.k8s.io";

// Defaults of a CRD's spec: singular, listKind, conversion.
void default_crd(json::Value& crd);

// Errors as a real server's: names, versions, storage version, schema that does not compile.
std::vector<FieldError> validate_crd(const json::Value& crd);

// Served versions of a valid CRD.
std::vector<KindPtr> kinds_of_crd(const json::Value& crd);

// Sets status: acceptedNames, storedVersions, NamesAccepted and Established (or Terminating).
// `conflict`: the name another CRD or a builtin kind holds; empty: none. `now`: RFC 3339.
void set_crd_status(json::Value& crd, const std::string& conflict, const std::string& now);

}  // namespace capstan::local
