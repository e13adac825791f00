// OpenAPI documents of the embedded API server: what kubectl 1.27 and newer needs
// to validate and apply.
//
// kubectl reads /openapi/v3 and then one document per group version, and looks for the
// `fieldValidation` query parameter of the PATCH operation of a kind
// (x-kubernetes-group-version-kind). The documents carry paths, parameters and, for custom
// resources, the CRD's schema. Pure; thread: any.
#pragma once

#include "capstan/json.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace capstan::local {

struct OpenApiKind {
    std::string group;  // "" for the core group
    std::string version;
    std::string kind;
    std::string plural;
    bool namespaced{true};
    std::vector<std::string> subresources;  // "status", "scale", "log"
    // openAPIV3Schema of a custom resource; nullptr: builtin. Borrowed.
    const json::Value* schema{nullptr};
    bool create_only{false};
};

// "api/v1" or "apis/apps/v1": the key in the index and the path below /openapi/v3/.
std::string openapi_path(std::string_view group, std::string_view version);

// GET /openapi/v3: {"paths": {"apis/apps/v1": {"serverRelativeURL":
// "/openapi/v3/apis/apps/v1?hash=…"}}}. The hash changes when the document of
// that group version does.
json::Value openapi_v3_index(const std::vector<OpenApiKind>& kinds);

// GET /openapi/v3/<openapi_path>. Null when no kind belongs to it.
json::Value openapi_v3_document(const std::vector<OpenApiKind>& kinds,
                                std::string_view group,
                                std::string_view version);

// GET /openapi/v2 as JSON: names and kinds only.
json::Value openapi_v2_document(const std::vector<OpenApiKind>& kinds);

// GET /openapi/v2 with this Accept: the PATCH operations and their query parameters, which is where
// kubectl 1.27 and 1.28 look whether the server validates fields. They take no JSON here; kubectl
// 1.29 and newer read v3.
inline constexpr std::string_view kOpenApiV2Accept =
    "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";
// of the answer: "@" is not allowed in a media type
inline constexpr std::string_view kOpenApiV2Type =
    "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
std::string openapi_v2_protobuf(const std::vector<OpenApiKind>& kinds);

}  // namespace capstan::local
