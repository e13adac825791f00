#include "runtime/local/apiserver/openapi.hpp"

#include <gtest/gtest.h>

namespace capstan::local {
namespace {

const json::Value kSchema = {{"type", "object"}, {"properties", {{"spec", {{"type", "object"}}}}}};

std::vector<OpenApiKind> kinds() {
    return {
        {"", "v1", "Namespace", "namespaces", false, {"status"}, nullptr, false},
        {"", "v1", "Pod", "pods", true, {"status", "log"}, nullptr, false},
        {"authorization.k8s.io",
         "v1",
         "SelfSubjectAccessReview",
         "selfsubjectaccessreviews",
         false,
         {},
         nullptr,
         true},
        {"druid.gardener.cloud", "v1alpha1", "Etcd", "etcds", true, {"status"}, &kSchema, false},
    };
}

bool has_parameter(const json::Value& operation, std::string_view name) {
    for (const json::Value& parameter : json::View(operation)["parameters"].array()) {
        if (json::View(parameter)["name"].string_or("") == name) {
            return true;
        }
    }
    return false;
}

// What kubectl's fieldValidation check does: a PATCH operation of the kind, with that parameter.
bool patch_supports(const json::Value& document,
                    const json::Value& gvk,
                    std::string_view parameter) {
    for (const json::Member& path : *document.find("paths")->if_object()) {
        const json::Value* patch = path.value.find("patch");
        if (patch != nullptr && *patch->find("x-kubernetes-group-version-kind") == gvk &&
            has_parameter(*patch, parameter)) {
            return true;
        }
    }
    return false;
}

TEST(OpenApi, IndexNamesEachGroupVersionOnce) {
    const json::Value index = openapi_v3_index(kinds());
    const json::Object& paths = *index.find("paths")->if_object();
    ASSERT_EQ(paths.size(), 3u);
    EXPECT_EQ(paths[0].key, "api/v1");
    EXPECT_EQ(paths[2].key, "apis/druid.gardener.cloud/v1alpha1");
    EXPECT_TRUE(json::View(paths[2].value)["serverRelativeURL"].string_or("").starts_with(
        "/openapi/v3/apis/druid.gardener.cloud/v1alpha1?hash="));
}

TEST(OpenApi, HashMovesWithTheDocument) {
    const json::Value other = {{"type", "object"},
                               {"properties", {{"spec", {{"type", "string"}}}}}};
    auto changed = kinds();
    changed[3].schema = &other;
    const json::Value before = openapi_v3_index(kinds());
    const json::Value after = openapi_v3_index(changed);
    EXPECT_EQ(*before.pointer("/paths/api~1v1"), *after.pointer("/paths/api~1v1"));
    EXPECT_NE(json::dump(before), json::dump(after));
}

TEST(OpenApi, KubectlFindsFieldValidation) {
    const json::Value etcd = openapi_v3_document(kinds(), "druid.gardener.cloud", "v1alpha1");
    const json::Value core = openapi_v3_document(kinds(), "", "v1");
    const json::Value etcd_gvk = {
        {"group", "druid.gardener.cloud"}, {"version", "v1alpha1"}, {"kind", "Etcd"}};
    const json::Value pod_gvk = {{"group", ""}, {"version", "v1"}, {"kind", "Pod"}};
    EXPECT_TRUE(patch_supports(etcd, etcd_gvk, "fieldValidation"));
    EXPECT_TRUE(patch_supports(core, pod_gvk, "fieldValidation"));
    EXPECT_TRUE(patch_supports(core, pod_gvk, "dryRun"));
    EXPECT_FALSE(patch_supports(core, etcd_gvk, "fieldValidation"));
}

TEST(OpenApi, DoesNotAnnounceStrategicMerge) {
    const json::Value core = openapi_v3_document(kinds(), "", "v1");
    const json::Value* patch =
        core.pointer("/paths/~1api~1v1~1namespaces~1{namespace}~1pods~1{name}/patch");
    ASSERT_NE(patch, nullptr);
    const json::Object& content = *patch->pointer("/requestBody/content")->if_object();
    EXPECT_EQ(content.size(), 3u);
    for (const json::Member& type : content) {
        EXPECT_EQ(type.key.find("strategic"), std::string::npos);
    }
}

TEST(OpenApi, CarriesTheSchemaOfCustomResources) {
    const json::Value etcd = openapi_v3_document(kinds(), "druid.gardener.cloud", "v1alpha1");
    const json::Value* schema =
        etcd.pointer("/components/schemas/cloud.gardener.druid.v1alpha1.Etcd");
    ASSERT_NE(schema, nullptr);
    EXPECT_NE(schema->pointer("/properties/spec"), nullptr);
    EXPECT_NE(schema->pointer("/properties/metadata"), nullptr);
    EXPECT_EQ(*schema->pointer("/x-kubernetes-group-version-kind/0/kind")->if_string(), "Etcd");
}

TEST(OpenApi, ReviewsCanOnlyBeCreated) {
    const json::Value document = openapi_v3_document(kinds(), "authorization.k8s.io", "v1");
    ASSERT_EQ(document.find("paths")->if_object()->size(), 1u);
    const json::Value& item = document.find("paths")->if_object()->front().value;
    EXPECT_NE(item.find("post"), nullptr);
    EXPECT_EQ(item.find("get"), nullptr);
}

// Wire format as written by hand for one kind; kubectl 1.27 reads it.
TEST(OpenApi, ProtobufNamesTheKindAndTheParameter) {
    const std::string bytes = openapi_v2_protobuf(kinds());
    EXPECT_TRUE(
        bytes.starts_with(std::string("\x0a\x03"
                                      "2.0\x12\x15\x0a\x0aKubernetes\x12\x07v1.34.0",
                                      28)));
    EXPECT_NE(bytes.find("\x12\x05query\x22\x0f"
                         "fieldValidation\x32\x06string"),
              std::string::npos);
    EXPECT_NE(
        bytes.find("group: \"druid.gardener.cloud\"\nkind: \"Etcd\"\nversion: \"v1alpha1\"\n"),
        std::string::npos);
    EXPECT_EQ(bytes.find("SelfSubjectAccessReview"), std::string::npos) << "it has no PATCH";
}

TEST(OpenApi, UnknownGroupVersionIsNull) {
    EXPECT_TRUE(openapi_v3_document(kinds(), "apps", "v1").is_null());
}

}  // namespace
}  // namespace capstan::local
