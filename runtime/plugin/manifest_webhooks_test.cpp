#include "runtime/plugin/manifest.hpp"
#include "runtime/plugin/testing_manifest.hpp"

#include <gtest/gtest.h>

#include <string>

namespace capstan::plugin {
namespace {

constexpr std::string_view kManifest = R"({
  "schema": 1, "id": "guard.example.com", "version": "1.0.0", "abi": {"major": 1},
  "requires": {"extensions": ["capstan.webhook/1"]},
  "webhooks": [
    {"name": "defaults", "kind": "mutating", "gvk": "apps/v1/StatefulSet",
     "rules": [{"groups": ["apps"], "versions": ["v1"], "resources": ["statefulsets"], "operations": ["CREATE"]}],
     "reinvocationPolicy": "IfNeeded", "failurePolicy": "Ignore", "timeoutSeconds": 3, "sideEffects": "NoneOnDryRun"},
    {"name": "limits", "kind": "validating", "path": "/limits",
     "rules": [{"groups": [""], "versions": ["*"], "resources": ["configmaps"], "operations": ["CREATE", "UPDATE"],
                "scope": "Namespaced"}],
     "matchPolicy": "Exact", "namespaceSelector": {"matchLabels": {"guarded": "yes"}},
     "matchConditions": [{"name": "people", "expression": "true"}]}]})";

TEST(ManifestWebhooks, ReadsThem) {
    const Result<Manifest> parsed = parse_manifest(kManifest);
    ASSERT_TRUE(parsed) << parsed.error().message;
    const auto& webhooks = parsed.value().webhooks;
    ASSERT_EQ(webhooks.size(), 2U);
    EXPECT_TRUE(webhooks[0].mutating);
    EXPECT_EQ(webhooks[0].path, "/mutate-apps-v1-statefulset");
    EXPECT_EQ(webhooks[0].failure_policy, "Ignore");
    EXPECT_EQ(webhooks[0].reinvocation_policy, "IfNeeded");
    EXPECT_EQ(webhooks[0].side_effects, "NoneOnDryRun");
    EXPECT_EQ(webhooks[0].timeout_seconds, 3U);
    EXPECT_TRUE(webhooks[0].namespace_selector.is_null());
    EXPECT_FALSE(webhooks[1].mutating);
    EXPECT_EQ(webhooks[1].path, "/limits");
    EXPECT_EQ(webhooks[1].failure_policy, "Fail");
    EXPECT_EQ(webhooks[1].match_policy, "Exact");
    EXPECT_EQ(webhooks[1].side_effects, "None");
    EXPECT_EQ(webhooks[1].timeout_seconds, 10U);
    EXPECT_EQ(webhooks[1].rules.front().scope, "Namespaced");
    EXPECT_TRUE(webhooks[1].namespace_selector.is_object());
    EXPECT_TRUE(webhooks[1].match_conditions.is_array());
}

TEST(ManifestWebhooks, PathsFollowTheConvention) {
    EXPECT_EQ(webhook_path(false, {"", "v1", "ConfigMap"}), "/validate--v1-configmap");
    EXPECT_EQ(webhook_path(true, {"druid.gardener.cloud", "v1alpha1", "Etcd"}),
              "/mutate-druid-gardener-cloud-v1alpha1-etcd");
}

using Row = ManifestRow;
class RefusedWebhook : public testing::TestWithParam<Row> {};

TEST_P(RefusedWebhook, SaysWhatAndWhere) {
    expect_refused(kManifest, GetParam());
}

INSTANTIATE_TEST_SUITE_P(
    Rules,
    RefusedWebhook,
    testing::Values(
        Row{"kind",
            R"("kind": "mutating")",
            R"("kind": "converting")",
            "/webhooks/0/kind: \"converting\" is none of mutating, validating"},
        Row{"no_path",
            R"("gvk": "apps/v1/StatefulSet",)",
            "",
            "/webhooks/0/path: needs either \"path\", or \"gvk\" for the usual path"},
        Row{"two_paths",
            R"("path": "/limits")",
            R"("path": "/limits", "gvk": "v1/ConfigMap")",
            "/webhooks/1/path: needs either \"path\", or \"gvk\" for the usual path"},
        Row{"path_with_query",
            R"("/limits")",
            R"("/limits?x")",
            "/webhooks/1/path: expected a path that begins with '/', without query or blanks"},
        Row{"same_path",
            R"("/limits")",
            R"("/mutate-apps-v1-statefulset")",
            "/webhooks/1: the path /mutate-apps-v1-statefulset is there twice; give one of them a "
            "\"path\""},
        Row{"operation",
            R"(["CREATE"])",
            R"(["MAKE"])",
            "/webhooks/0/rules/0/operations: \"MAKE\" is none of CREATE, UPDATE, DELETE, CONNECT, "
            "*"},
        Row{"no_resources",
            R"("resources": ["configmaps"])",
            R"("resources": [])",
            "/webhooks/1/rules/0/resources: must not be empty"},
        Row{"timeout",
            R"("timeoutSeconds": 3)",
            R"("timeoutSeconds": 31)",
            "/webhooks/0/timeoutSeconds: expected an integer from 1 to 30"},
        Row{"validating_again",
            R"("matchPolicy": "Exact")",
            R"("reinvocationPolicy": "IfNeeded")",
            "/webhooks/1/reinvocationPolicy: only mutating webhooks are asked again"},
        Row{"selector",
            R"({"matchLabels": {"guarded": "yes"}})",
            R"("guarded=yes")",
            "/webhooks/1/namespaceSelector: expected an object"},
        Row{"unknown_member",
            R"("matchPolicy")",
            R"("matchpolicy")",
            "/webhooks/1/matchpolicy: unknown member; did you mean \"matchPolicy\"?"},
        Row{"same_name",
            R"("name": "limits")",
            R"("name": "defaults")",
            "/webhooks/1/name: \"defaults\" is there twice"}),
    [](const auto& row) { return row.param.name; });

}  // namespace
}  // namespace capstan::plugin
