#include "runtime/cli/webhook_configuration.hpp"

#include <gtest/gtest.h>

#include <ostream>
#include <string>

namespace capstan::cli {
namespace {

constexpr std::string_view kManifest = R"({
  "schema": 1, "id": "guard.example.com", "version": "1.0.0", "abi": {"major": 1},
  "requires": {"extensions": ["capstan.webhook/1"]},
  "webhooks": [
    {"name": "owner", "kind": "mutating", "gvk": "v1/ConfigMap", "reinvocationPolicy": "IfNeeded",
     "rules": [{"groups": [""], "versions": ["v1"], "resources": ["configmaps"], "operations": ["CREATE"]}]},
    {"name": "limits", "kind": "validating", "gvk": "v1/ConfigMap", "failurePolicy": "Ignore",
     "matchPolicy": "Exact", "sideEffects": "NoneOnDryRun", "timeoutSeconds": 3,
     "objectSelector": {"matchLabels": {"a": "b"}}, "matchConditions": [{"name": "n", "expression": "true"}],
     "rules": [{"groups": [""], "versions": ["v1"], "resources": ["configmaps"], "operations": ["UPDATE"],
                "scope": "Namespaced"}]}]})";
constexpr const char* kCa = "-----BEGIN CERTIFICATE-----\n";

json::Value made(const WebhookTarget& target) {
    return webhook_configurations("capstan", target, {plugin::parse_manifest(kManifest).value()});
}

TEST(WebhookConfiguration, SaysWhatTheManifestSays) {
    const json::Value list = made({"svc", "ns", 443, "", kCa});
    const json::View items = json::View(list)["items"];
    EXPECT_EQ(items[0]["kind"].string_or(""), "MutatingWebhookConfiguration");
    EXPECT_EQ(
        json::dump(*items[0]["webhooks"][0].value()),
        R"({"name":"owner.guard.example.com","admissionReviewVersions":["v1","v1beta1"],)"
        R"("clientConfig":{"caBundle":"LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCg==",)"
        R"("service":{"name":"svc","namespace":"ns","path":"/mutate--v1-configmap","port":443}},)"
        R"("rules":[{"apiGroups":[""],"apiVersions":["v1"],"resources":["configmaps"],)"
        R"("operations":["CREATE"],"scope":"*"}],"failurePolicy":"Fail","matchPolicy":"Equivalent",)"
        R"("sideEffects":"None","timeoutSeconds":10,"reinvocationPolicy":"IfNeeded"})");
    EXPECT_EQ(items[1]["kind"].string_or(""), "ValidatingWebhookConfiguration");
    EXPECT_EQ(
        json::dump(*items[1]["webhooks"][0].value()),
        R"({"name":"limits.guard.example.com","admissionReviewVersions":["v1","v1beta1"],)"
        R"("clientConfig":{"caBundle":"LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0tCg==",)"
        R"("service":{"name":"svc","namespace":"ns","path":"/validate--v1-configmap","port":443}},)"
        R"("rules":[{"apiGroups":[""],"apiVersions":["v1"],"resources":["configmaps"],)"
        R"("operations":["UPDATE"],"scope":"Namespaced"}],"failurePolicy":"Ignore",)"
        R"("matchPolicy":"Exact","sideEffects":"NoneOnDryRun","timeoutSeconds":3,)"
        R"("objectSelector":{"matchLabels":{"a":"b"}},)"
        R"("matchConditions":[{"name":"n","expression":"true"}]})");
}

TEST(WebhookConfiguration, TakesAUrlInstead) {
    const json::Value list = made({"", "", 443, "https://127.0.0.1:9443", kCa});
    EXPECT_EQ(json::View(list)["items"][0]["webhooks"][0]["clientConfig"]["url"].string_or(""),
              "https://127.0.0.1:9443/mutate--v1-configmap");
}

struct TargetRow {
    const char* name;
    WebhookTarget target;
    const char* problem;
};
std::ostream& operator<<(std::ostream& out, const TargetRow& row) {
    return out << row.name;
}
class RefusedTarget : public ::testing::TestWithParam<TargetRow> {};

TEST_P(RefusedTarget, SaysWhy) {
    const auto checked = check_target(GetParam().target);
    ASSERT_FALSE(checked);
    EXPECT_NE(checked.error().message.find(GetParam().problem), std::string::npos)
        << checked.error().message;
}

INSTANTIATE_TEST_SUITE_P(
    Rules,
    RefusedTarget,
    ::testing::Values(
        TargetRow{"nothing", {"", "", 443, "", kCa}, "give either --service"},
        TargetRow{"both", {"s", "n", 443, "https://h:1", kCa}, "give either --service"},
        TargetRow{"no_namespace", {"s", "", 443, "", kCa}, "needs --namespace"},
        TargetRow{
            "service_name", {"My_Service", "n", 443, "", kCa}, "--service: \"My_Service\" is no"},
        TargetRow{
            "service_digit", {"1st", "n", 443, "", kCa}, "--service: \"1st\" is no Service name"},
        TargetRow{"service_host", {"s.n.svc", "n", 443, "", kCa}, "--service: \"s.n.svc\" is no"},
        TargetRow{
            "namespace_name", {"s", "N", 443, "", kCa}, "--namespace: \"N\" is no namespace name"},
        TargetRow{"plain", {"", "", 443, "http://h:1", kCa}, "https:// only"},
        TargetRow{"with_path", {"", "", 443, "https://h:1/x", kCa}, "give host and port"},
        TargetRow{"key",
                  {"s", "n", 443, "", std::string(kCa) + "-----BEGIN PRIVATE KEY-----\n"},
                  "holds a private key"},
        TargetRow{"no_ca", {"s", "n", 443, "", "x"}, "holds no PEM certificate"}),
    [](const auto& row) { return row.param.name; });

TEST(RefusedTargets, NamesOfObjectsAreChecked) {
    EXPECT_TRUE(check_object_name("--name", "capstan.example-1"));
    for (const char* name : {"", "Capstan", "a_b", "-a", "a-", "a..b", "a/b"}) {
        const auto checked = check_object_name("--name", name);
        ASSERT_FALSE(checked) << name;
        EXPECT_TRUE(
            checked.error().message.starts_with("--name: \"" + std::string(name) + "\" is no"))
            << checked.error().message;
    }
}

TEST(RefusedTargets, GoodOnesAreTaken) {
    EXPECT_TRUE(check_target({"s", "n", 443, "", kCa}));
    EXPECT_TRUE(check_target({"", "", 443, "https://h:1", kCa}));
}

}  // namespace
}  // namespace capstan::cli
