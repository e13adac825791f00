#include "runtime/config/operator_config.hpp"

#include "runtime/config/yaml.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <functional>
#include <set>
#include <sstream>

namespace capstan::config {
namespace {

constexpr std::string_view kHead =
    "apiVersion: config.capstan.dev/v1alpha1\nkind: OperatorConfig\n";

Result<OperatorConfig> decode(std::string_view rest) {
    const std::string text = std::string(kHead) + std::string(rest);
    CAPSTAN_TRY(const auto document, load(text, "f"));
    return decode_operator_config(document);
}

std::string error_of(std::string_view rest) {
    const auto config = decode(rest);
    return config ? "accepted" : config.error().message;
}

TEST(OperatorConfig, HasDefaults) {
    const OperatorConfig config = decode("").value();
    EXPECT_TRUE(config.plugins.empty());
    EXPECT_EQ(config.ops.port, 8080);
    EXPECT_EQ(config.ops.address, "127.0.0.1");
    EXPECT_FALSE(config.api.enabled);
    EXPECT_FALSE(config.leader_election.enabled);
    EXPECT_EQ(config.graceful_stop, std::chrono::seconds(30));
}

TEST(OperatorConfig, ReadsEveryKey) {
    const OperatorConfig config =
        decode(
            "plugins:\n"
            "  etcd: {path: /p/etcd.so, featureGates: {A: true, B: false}, controllers: {etcd: "
            "{maxConcurrent: 8}}, permissions: [{groups: [apps], resources: ['*'], verbs: [get], "
            "resourceNames: [a]}], config: {x: [1]}}\n"
            "  custodian.capstan.dev: {enabled: false}\n"
            "  compaction:\n"
            "  mute: {permissions: []}\n"
            "pluginDirs: [/a, /b]\n"
            "kubeconfig: /k\n"
            "context: c\n"
            "namespaces: [one, two]\n"
            "listeners:\n"
            "  ops: {address: \"::\", port: 9000}\n"
            "  api: {port: 9443, tls: {certificateFile: /c, keyFile: /k, clientCaFile: /ca, "
            "clientAuth: require}}\n"
            "logging: {level: debug}\n"
            "limits: {requestsInFlight: 5, requestTimeout: 5s, reconcileTimeout: 1m, "
            "cacheSyncTimeout: 1m30s}\n"
            "gracefulStop: 0\n"
            "leaderElection: {enabled: true, leaseName: l, leaseNamespace: n, identity: i, "
            "leaseDuration: 30s, "
            "renewDeadline: 20s, retryPeriod: 4s}\n")
            .value();
    EXPECT_EQ(config.plugins.size(), 4u);
    EXPECT_TRUE(config.plugins.at("mute").permissions->empty()) << "an empty list permits nothing";
    EXPECT_FALSE(config.plugins.at("compaction").permissions);
    const PluginConfig& etcd = config.plugins.at("etcd");
    EXPECT_EQ(etcd.path, "/p/etcd.so");
    EXPECT_EQ(etcd.feature_gates, (std::map<std::string, bool>{{"A", true}, {"B", false}}));
    EXPECT_EQ(etcd.controllers.at("etcd").max_concurrent, 8);
    ASSERT_EQ(etcd.permissions->size(), 1u);
    EXPECT_EQ(etcd.permissions->front().groups, (std::vector<std::string>{"apps"}));
    EXPECT_EQ(etcd.permissions->front().resource_names, (std::vector<std::string>{"a"}));
    EXPECT_EQ(json::dump(etcd.config), "{\"x\":[1]}");
    EXPECT_FALSE(config.plugins.at("custodian.capstan.dev").enabled);
    EXPECT_TRUE(config.plugins.at("compaction").enabled) << "a name alone means all defaults";
    EXPECT_EQ(config.plugin_dirs, (std::vector<std::string>{"/a", "/b"}));
    EXPECT_EQ(config.ops.address, "::");
    EXPECT_TRUE(config.api.enabled);
    EXPECT_EQ(config.api.tls.client_auth, "require");
    EXPECT_EQ(config.limits.cache_sync_timeout, std::chrono::seconds(90));
    EXPECT_EQ(config.graceful_stop, std::chrono::seconds(0));
    EXPECT_EQ(config.leader_election.lease_namespace, "n");
    EXPECT_EQ(config.leader_election.identity, "i");
}

// What stands between "<!-- begin NAME …" and "<!-- end NAME" in docs/operations.md.
std::string generated_part(const std::string& name) {
    std::ifstream file(std::string(std::getenv("CAPSTAN_SOURCE_ROOT")) + "/docs/operations.md");
    std::stringstream text;
    text << file.rdbuf();
    const std::string all = text.str();
    const std::size_t begin = all.find("<!-- begin " + name);
    const std::size_t from = all.find('\n', begin) + 1;
    const std::size_t to = all.find("<!-- end " + name, from);
    return begin == std::string::npos || to == std::string::npos ? "" : all.substr(from, to - from);
}

TEST(OperatorConfig, ReferenceInTheDocumentationIsThatOfTheCode) {
    EXPECT_EQ(generated_part("config"), operator_config_reference())
        << "docs/operations.md is stale; remedy: tools/gen-operations BUILD_DIRECTORY";
}

TEST(OperatorConfig, ReferenceHasEveryKeyThatIsPrinted) {
    std::set<std::string> known;
    for (const FieldShape& field : operator_config_fields()) {
        EXPECT_TRUE(known.insert(field.path).second) << field.path << " is there twice";
    }
    OperatorConfig config;
    config.plugins["NAME"].controllers["NAME"].max_concurrent = 1;
    config.plugins["NAME"].path = "/p";
    config.ops.tls.certificate_file = config.api.tls.certificate_file = "/c";
    const std::function<void(const json::Value&, const std::string&)> walk =
        [&](const json::Value& value, const std::string& path) {
            for (const json::Member& member : json::View(value).object()) {
                const std::string below = path + "/" + std::string(member.key);
                EXPECT_TRUE(known.contains(below) || below.ends_with("/NAME")) << below;
                walk(member.value, below);
            }
        };
    walk(to_json(config), "");
    EXPECT_TRUE(known.contains("/leaderElection/retryPeriod"));
}

TEST(OperatorConfig, ReportsEverythingAtOnce) {
    EXPECT_EQ(
        error_of("loging: {}\n"
                 "plugins:\n"
                 "  etcd:\n"
                 "    enabled: yes\n"
                 "    controllers: {etcd: {maxConcurent: 3}, x: {maxConcurrent: 17}}\n"
                 "    featureGates: {A: \"true\"}\n"
                 "listeners: {ops: {port: 70000}}\n"
                 "gracefulStop: 15\n"),
        "f:6: /plugins/etcd/enabled: expected true or false, found string \"yes\"\n"
        "f:8: /plugins/etcd/featureGates/A: expected true or false, found string \"true\"\n"
        "f:7: /plugins/etcd/controllers/etcd/maxConcurent: unknown key \"maxConcurent\", did "
        "you mean \"maxConcurrent\"?\n"
        "f:7: /plugins/etcd/controllers/x/maxConcurrent: 17 is not between 1 and 16\n"
        "f:9: /listeners/ops/port: 70000 is not between 0 and 65535\n"
        "f:10: /gracefulStop: expected a duration with unit such as \"15s\", from 0s to 3600s, "
        "found integer 15\n"
        "f:3: /loging: unknown key \"loging\", did you mean \"logging\"?");
}

struct RefusedRow {
    const char* name;
    const char* text;
    const char* expected;
};

class OperatorConfigRefuses : public ::testing::TestWithParam<RefusedRow> {};

TEST_P(OperatorConfigRefuses, WithThisText) {
    EXPECT_NE(error_of(GetParam().text).find(GetParam().expected), std::string::npos)
        << error_of(GetParam().text);
}

INSTANTIATE_TEST_SUITE_P(
    All,
    OperatorConfigRefuses,
    ::testing::Values(
        RefusedRow{"duration_bare",
                   "leaderElection: {leaseDuration: 15}\n",
                   "/leaderElection/leaseDuration: expected a duration"},
        RefusedRow{"duration_empty", "gracefulStop: \"\"\n", "/gracefulStop: \"\" is no duration"},
        RefusedRow{"duration_days", "gracefulStop: 4d\n", "\"4d\" is no duration"},
        RefusedRow{
            "duration_zero", "limits: {requestTimeout: 0}\n", "0 is not between 100ms and 600s"},
        RefusedRow{"lease_equal",
                   "leaderElection: {leaseDuration: 15s, renewDeadline: 15s, retryPeriod: 2s}\n",
                   "must be longer than renewDeadline"},
        RefusedRow{"renew_short",
                   "leaderElection: {leaseDuration: 15s, renewDeadline: 12s, retryPeriod: 10s}\n",
                   "must be longer than 1.2 x retryPeriod"},
        RefusedRow{"lease_namespace",
                   "leaderElection: {leaseNamespace: \"A b\"}\n",
                   "/leaderElection/leaseNamespace: \"A b\" is no namespace name"},
        RefusedRow{"identity",
                   "leaderElection: {identity: \"Pod 0\"}\n",
                   "/leaderElection/identity: \"Pod 0\" is no name; use lower case letters"},
        RefusedRow{"same_port",
                   "listeners: {ops: {port: 8080}, api: {port: 8080}}\n",
                   "ops and api have the same port 8080"},
        RefusedRow{
            "port_negative", "listeners: {ops: {port: -1}}\n", "-1 is not between 0 and 65535"},
        RefusedRow{"port_text",
                   "listeners: {ops: {port: \"80\"}}\n",
                   "/listeners/ops/port: expected integer from 0 to 65535, found string \"80\""},
        RefusedRow{"port_real",
                   "listeners: {ops: {port: 1e3}}\n",
                   "expected integer from 0 to 65535, found number 1000"},
        RefusedRow{"limit_range",
                   "limits: {requestsInFlight: 5000}\n",
                   "f:3: /limits/requestsInFlight: 5000 is not between 1 and 1024"},
        RefusedRow{"limit_type",
                   "limits: {cacheBytes: 1Gi}\n",
                   "/limits/cacheBytes: expected integer from 0 to 1099511627776, found string "
                   "\"1Gi\""},
        RefusedRow{"limit_duration",
                   "limits: {cacheSyncTimeout: 5us}\n",
                   "/limits/cacheSyncTimeout: 5us is not between 1s and 3600s"},
        RefusedRow{"limit_duration_text",
                   "limits: {cacheSyncTimeout: soon}\n",
                   "\"soon\" is no duration; write 15s, 1m30s or 250ms, from 1s to 3600s"},
        RefusedRow{"address_empty",
                   "listeners: {ops: {address: \"\"}}\n",
                   "/listeners/ops/address: \"\" is no IP address; write 127.0.0.1, or 0.0.0.0 or "
                   ":: for all"},
        RefusedRow{"address_name",
                   "listeners: {api: {address: localhost}}\n",
                   "/listeners/api/address: \"localhost\" is no IP address"},
        RefusedRow{"address_with_port",
                   "listeners: {webhook: {enabled: false, address: \"0.0.0.0:9443\"}}\n",
                   "/listeners/webhook/address: \"0.0.0.0:9443\" is no IP address"},
        RefusedRow{
            "verb",
            "plugins: {a: {permissions: [{groups: [''], resources: [pods], verbs: [gett]}]}}\n",
            "/plugins/a/permissions/0/verbs: \"gett\" is no verb, did you mean \"get\"?"},
        RefusedRow{
            "resource_is_a_kind",
            "plugins: {a: {permissions: [{groups: [''], resources: [Pod], verbs: [get]}]}}\n",
            "/plugins/a/permissions/0/resources: \"Pod\" is no resource; write plurals"},
        RefusedRow{
            "resource_with_a_hole",
            "plugins: {a: {permissions: [{groups: [''], resources: [pods/], verbs: [get]}]}}\n",
            "\"pods/\" is no resource"},
        RefusedRow{
            "group",
            "plugins: {a: {permissions: [{groups: [apps/v1], resources: [x], verbs: [get]}]}}\n",
            "/plugins/a/permissions/0/groups: \"apps/v1\" is no API group"},
        RefusedRow{"rule_for_nothing",
                   "plugins: {a: {permissions: [{groups: [apps], resources: [x], verbs: []}]}}\n",
                   "/plugins/a/permissions/0/verbs: is empty: this rule permits nothing"},
        RefusedRow{"half_tls",
                   "listeners: {api: {tls: {certificateFile: /c}}}\n",
                   "certificateFile and keyFile go together"},
        RefusedRow{"client_auth",
                   "listeners: {api: {tls: {clientAuth: require}}}\n",
                   "needs clientCaFile"},
        RefusedRow{"level",
                   "logging: {level: verbose}\n",
                   "\"verbose\" is none of debug, info, warn, error"},
        RefusedRow{"twice", "plugins: {etcd: {}, etcd.capstan.dev: {}}\n", "configured twice"},
        RefusedRow{"plugin_name", "plugins: {Etcd_1: {}}\n", "is no plugin id"},
        RefusedRow{
            "list_for_map", "plugins: [etcd]\n", "/plugins: expected an object, found array"},
        RefusedRow{"namespace", "namespaces: [A]\n", "is no namespace name"},
        RefusedRow{"namespace_twice", "namespaces: [a, b, a]\n", "\"a\" is named twice"},
        RefusedRow{"namespace_type",
                   "namespaces: [a, 1]\n",
                   "/namespaces/1: expected text, found integer"}),
    [](const auto& row_info) { return row_info.param.name; });

TEST(OperatorConfig, ChecksItsHead) {
    const auto refuse = [](std::string_view text) {
        return decode_operator_config(load(text, "f").value()).error().message;
    };
    EXPECT_EQ(refuse("a: 1\n"),
              "f:1: missing \"apiVersion\"\nf:1: missing \"kind\"\nf:1: /a: unknown key \"a\"");
    EXPECT_NE(refuse("apiVersion: config.capstan.dev/v2\nkind: OperatorConfig\n")
                  .find("is none of config.capstan.dev/v1alpha1"),
              std::string::npos);
    EXPECT_EQ(refuse("[1]\n"), "f:1: expected an object, found array");
}

TEST(OperatorConfig, PrintsWhatItReads) {
    const OperatorConfig config =
        decode("plugins: {etcd: {config: {a: \"on\"}}}\nlimits: {requestTimeout: 1500ms}\n")
            .value();
    const std::string text = print(config);
    const auto again = decode_operator_config(load(text, "f").value());
    ASSERT_TRUE(again) << again.error().message << text;
    EXPECT_EQ(to_json(again.value()), to_json(config));
}

TEST(OperatorConfig, ExampleInDocsLoadsAndShowsDefaults) {
    const char* root = std::getenv("CAPSTAN_SOURCE_ROOT");
    ASSERT_NE(root, nullptr) << "run by meson test";
    const auto config = load_operator_config(std::string(root) + "/docs/config.example.yaml");
    ASSERT_TRUE(config) << config.error().message;
    json::Value shown = to_json(config.value());
    json::Value defaults = to_json(OperatorConfig{});
    for (json::Value* value : {&shown, &defaults}) {
        value->erase("plugins");
        value->erase("listeners");
    }
    EXPECT_EQ(json::dump_pretty(shown), json::dump_pretty(defaults))
        << "the example states the default of each key";
}

}  // namespace
}  // namespace capstan::config
