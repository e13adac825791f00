// OpenAPI v2 in protobuf (gnostic's openapi.v2.Document), as far as kubectl before 1.29 reads it.
#include "runtime/local/apiserver/openapi.hpp"

#include <cstdint>

namespace capstan::local {

namespace {

// Field numbers of gnostic's OpenAPIv2.proto.
constexpr std::uint32_t kDocumentSwagger = 1, kDocumentInfo = 2, kDocumentPaths = 8;
constexpr std::uint32_t kInfoTitle = 1, kInfoVersion = 2;
constexpr std::uint32_t kPathsPath = 2;
constexpr std::uint32_t kNamedName = 1, kNamedValue = 2;  // NamedPathItem and NamedAny
constexpr std::uint32_t kPathItemPatch = 8;
constexpr std::uint32_t kOperationParameters = 8, kOperationVendorExtension = 13;
constexpr std::uint32_t kItemParameter = 1, kParameterNonBody = 2, kNonBodyQuery = 3;
constexpr std::uint32_t kQueryIn = 2, kQueryName = 4, kQueryType = 6;
constexpr std::uint32_t kAnyYaml = 2;

void append_varint(std::string& out, std::uint64_t value) {
    while (value >= 0x80) {
        out += static_cast<char>(static_cast<unsigned char>(value | 0x80));
        value >>= 7;
    }
    out += static_cast<char>(value);
}

// A length-delimited field: strings and messages alike.
std::string field(std::uint32_t number, std::string_view bytes) {
    std::string out;
    append_varint(out, number << 3 | 2u);
    append_varint(out, bytes.size());
    out += bytes;
    return out;
}

std::string query_parameter(std::string_view name) {
    const std::string query =
        field(kQueryIn, "query") + field(kQueryName, name) + field(kQueryType, "string");
    return field(kItemParameter, field(kParameterNonBody, field(kNonBodyQuery, query)));
}

std::string patch_operation(const OpenApiKind& kind) {
    const std::string yaml = "group: \"" + kind.group + "\"\nkind: \"" + kind.kind +
                             "\"\nversion: \"" + kind.version + "\"\n";
    const std::string extension = field(kNamedName, "x-kubernetes-group-version-kind") +
                                  field(kNamedValue, field(kAnyYaml, yaml));
    std::string out;
    for (const char* name : {"dryRun", "fieldManager", "fieldValidation", "force"}) {
        out += field(kOperationParameters, query_parameter(name));
    }
    return out + field(kOperationVendorExtension, extension);
}

}  // namespace

std::string openapi_v2_protobuf(const std::vector<OpenApiKind>& kinds) {
    std::string paths;
    for (const OpenApiKind& kind : kinds) {
        if (kind.create_only) {
            continue;
        }
        const std::string path = "/" + openapi_path(kind.group, kind.version) + "/" +
                                 (kind.namespaced ? "namespaces/{namespace}/" : "") + kind.plural +
                                 "/{name}";
        const std::string item = field(kPathItemPatch, patch_operation(kind));
        paths += field(kPathsPath, field(kNamedName, path) + field(kNamedValue, item));
    }
    return field(kDocumentSwagger, "2.0") +
           field(kDocumentInfo, field(kInfoTitle, "Kubernetes") + field(kInfoVersion, "v1.34.0")) +
           field(kDocumentPaths, paths);
}

}  // namespace capstan::local
