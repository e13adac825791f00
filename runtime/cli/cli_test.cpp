#include "runtime/cli/descriptors.hpp"
#include "runtime/cli/election.hpp"
#include "runtime/cli/exit_guard.hpp"
#include "runtime/cli/manifests.hpp"
#include "runtime/cli/observers.hpp"
#include "runtime/cli/plugin_command.hpp"
#include "runtime/cli/plugins.hpp"
#include "runtime/cli/pod_tokens.hpp"
#include "runtime/cli/rbac.hpp"
#include "runtime/cli/readiness.hpp"
#include "runtime/cli/text_table.hpp"

#include <gtest/gtest.h>

#include <sys/resource.h>

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>

namespace capstan::cli {
namespace {

TEST(Descriptors, ListenersLeaveHalfOfThem) {
    EXPECT_EQ(listener_connections(1024, 4096), 128u);
    EXPECT_EQ(listener_connections(1'000'000, 4096), 4096u);
    EXPECT_EQ(listener_connections(0, 4096), kListenerConnectionsMin);
}

TEST(Descriptors, TheSoftLimitIsRaised) {
    rlimit before{};
    ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
    rlimit low = before;
    low.rlim_cur = std::min<rlim_t>(before.rlim_max, 200);
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &low), 0);
    EXPECT_EQ(raise_descriptor_limit(), before.rlim_max);
    rlimit after{};
    ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &after), 0);
    EXPECT_EQ(after.rlim_cur, before.rlim_max);
    ::setrlimit(RLIMIT_NOFILE, &before);
}

TEST(Acceptance, EveryRequestRefusedIsNotReady) {
    obs::Metrics metrics;
    obs::Health health;
    Observers observers(metrics, {});
    observers.show_acceptance(health);
    const auto answers = [&](int times, const char* code) {
        for (int i = 0; i < times; ++i) {
            observers.request_done("PATCH", code, "host", {});
        }
    };
    answers(kRefusedInRow - 1, "401");
    answers(1, "409");  // it knew who asked
    answers(kRefusedInRow - 1, "401");
    EXPECT_TRUE(health.is_ready());
    answers(1, "401");
    answers(5, "<error>");
    EXPECT_EQ(
        health.reasons(),
        (std::vector<std::string>{"credentials: unauthenticated: the API server answers every "
                                  "request with 401, last a PATCH"}));
    answers(1, "403");
    EXPECT_TRUE(health.is_ready());
}

TEST(ExitGuardDeathTest, ExitOfSomebodyElseIsNoSuccess) {
    const auto ends_with = [](int code) { return testing::ExitedWithCode(code); };
    EXPECT_EXIT((guard_exit(), std::exit(0)), ends_with(3), "called exit");
    EXPECT_EXIT((guard_exit(), std::quick_exit(0)), ends_with(3), "called exit");
    EXPECT_EXIT((guard_exit(), guard_exit(), end_guard(), std::exit(7)), ends_with(7), "^$");
}

TEST(TextTable, AlignsColumnsWithoutTrailingBlanks) {
    EXPECT_EQ(text_table({{"NAME", "AGE"}, {"a-long-name", "1s"}, {"b", ""}}),
              "NAME         AGE\na-long-name  1s\nb\n");
    EXPECT_EQ(text_table({}), "");
}

TEST(TextTable, AlignsNumbersToTheRight) {
    EXPECT_EQ(text_table({{"NAME", "COUNT", "ERROR"}, {"a", "7", "x"}, {"b", "12345678", ""}}, {1}),
              "NAME     COUNT  ERROR\na            7  x\nb     12345678\n");
}

TEST(TextTable, ShowsDurationsAsAPersonSaysThem) {
    for (const auto& [seconds, text] : {std::pair<double, const char*>{0.0, "0s"},
                                        {-3.0, "0s"},
                                        {0.0123, "12ms"},
                                        {1.0, "1s"},
                                        {3.25, "3.2s"},
                                        {42.9, "42s"},
                                        {303.0, "5m3s"},
                                        {7500.0, "2h5m"},
                                        {273600.0, "3d4h"}}) {
        EXPECT_EQ(duration_text(seconds), text);
    }
}

TEST(TextTable, ShowsTheColumnsOfAServersTable) {
    const json::Value table = {
        {"columnDefinitions",
         json::list({{{"name", "Name"}, {"priority", 0}}, {{"name", "Node"}, {"priority", 1}}})},
        {"rows",
         json::list({{{"cells", json::list({"a", nullptr})},
                      {"object", {{"metadata", {{"namespace", "ns"}}}}}}})},
    };
    using Rows = std::vector<std::vector<std::string>>;
    EXPECT_EQ(table_rows(table, false, false), (Rows{{"NAME"}, {"a"}}));
    EXPECT_EQ(table_rows(table, true, true),
              (Rows{{"NAMESPACE", "NAME", "NODE"}, {"ns", "a", "<none>"}}));
}

// Kind: objects that say too little of themselves.
TEST(Manifests, AreRefusedWithFileDocumentAndField) {
    const std::string path =
        testing::TempDir() + "capstan-manifests-" + std::to_string(::getpid()) + ".yaml";
    const auto problems = [&path](const std::string& text) {
        std::ofstream(path) << text;
        const auto loaded = load_manifests({path});
        std::remove(path.c_str());
        std::string found = loaded ? "good" : loaded.error().message;
        for (std::size_t at = 0; (at = found.find(path)) != std::string::npos;) {
            found.replace(at, path.size(), "f");
        }
        return found;
    };
    EXPECT_EQ(problems("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"), "good");
    EXPECT_EQ(problems("metadata: {name: a}\n"), "f:1: /apiVersion: missing\nf:1: /kind: missing");
    EXPECT_EQ(problems("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n---\n"
                       "apiVersion: v1\nkind: \"\"\nmetadata: {namespace: b}\n---\n- 1\n"),
              "f:6: document 2: /kind: is empty\n"
              "f:7: document 2: /metadata/name: missing\n"
              "f:8: document 3: expected an object, found array");
    EXPECT_EQ(problems(""), "f: holds no object; remedy: see examples/etcd-1.yaml");
}

TEST(PodTokens, VerifiesItsOwnAndNothingElse) {
    const PodTokens tokens("key"), others("another key");
    const WallTime now{std::chrono::hours(480'000)};
    const std::string token = tokens.issue({"ns", "account", "pod-0", "uid-1"}, now);
    const auto identity = tokens.verify(token, now);
    ASSERT_TRUE(identity);
    EXPECT_EQ(
        identity->ns + "/" + identity->service_account + "/" + identity->pod + "/" + identity->uid,
        "ns/account/pod-0/uid-1");
    EXPECT_FALSE(others.verify(token, now));
    for (std::size_t i = 0; i < token.size(); ++i) {
        std::string changed = token;
        changed[i] = changed[i] == '1' ? '2' : '1';
        EXPECT_FALSE(tokens.verify(changed, now)) << i;
        EXPECT_FALSE(tokens.verify(std::string_view(token).substr(0, i), now)) << i;
    }
}

TEST(PodTokens, EndWithTheirTime) {
    const PodTokens tokens("key");
    const WallTime now{std::chrono::hours(480'000)};
    const WallTime end = now + std::chrono::minutes(10);
    const std::string token = tokens.issue({"ns", "account", {}, {}}, now, end);
    EXPECT_TRUE(tokens.verify(token, end - std::chrono::seconds(1)));
    EXPECT_FALSE(tokens.verify(token, end));
}

TEST(ForeignWords, BeginWithNoCommandOfTheProgram) {
    const std::vector<std::string> own{"run", "up"};
    using Words = std::vector<std::string>;
    const ForeignWords plain = foreign_words(own, {"backup", "list", "--help"});
    EXPECT_EQ(plain.name, "backup");
    EXPECT_EQ(plain.args, (Words{"list", "--help"}));
    EXPECT_FALSE(plain.asks_for_help) << "the plugin's help, not ours";
    const ForeignWords with =
        foreign_words(own, {"--plugin-dir", "a", "--plugin-dir=b", "backup", "--plugin-dir=c"});
    EXPECT_EQ(with.plugin_dirs, (Words{"a", "b"}));
    EXPECT_EQ(with.args, (Words{"--plugin-dir=c"}));
    for (const Words& words : {Words{"run"},
                               Words{"--plugin-dir", "a", "up"},
                               Words{"--version"},
                               Words{"--plugin-dir"},
                               Words{},
                               Words{""},
                               Words{"--plugin-dirs", "x"}}) {
        EXPECT_EQ(foreign_words(own, words).name, "");
        EXPECT_FALSE(foreign_words(own, words).asks_for_help);
    }
    for (const Words& words : {Words{"-h"}, Words{"--plugin-dir=a", "--help"}}) {
        EXPECT_TRUE(foreign_words(own, words).asks_for_help);
    }
}

json::Value etcd(json::Value status, int generation = 2) {
    return {
        {"kind", "Etcd"},
        {"metadata", {{"name", "main"}, {"namespace", "shop"}, {"generation", generation}}},
        {"spec", {{"replicas", 3}}},
        {"status", std::move(status)},
    };
}

json::Value condition(const char* type, const char* status) {
    return {{"type", type}, {"status", status}, {"message", "why"}};
}

TEST(Hindrances, AreWhatTheObjectSaysOfItself) {
    const json::Value member = {
        {"kind", "EtcdMember"},
        {"metadata", {{"name", "main-0"}, {"namespace", "default"}}},
        {"status",
         {{"conditions",
           json::list({{{"type", "Initialized"},
                        {"status", "False"},
                        {"reason", "StoreUnreachable"},
                        {"message", "S3 answers 403:\nthe key is not known"}},
                       {{"type", "Whole"}, {"status", "True"}, {"message", "fine"}},
                       {{"type", "Ready"}, {"status", "False"}, {"message", "not yet"}}})},
          {"transitions",
           json::list({{{"state", "Started"}, {"reason", "Old"}},
                       {{"state", "Starting"},
                        {"subState", "PendingLearner"},
                        {"reason", "WaitingToJoinAsLearner"}}})}}},
    };
    EXPECT_EQ(hindrances_of(member),
              (std::vector<std::string>{
                  "EtcdMember default/main-0: Initialized: StoreUnreachable: S3 answers 403: the "
                  "key is not known",
                  "EtcdMember default/main-0: Starting/PendingLearner: WaitingToJoinAsLearner"}));
    const json::Value started = {
        {"kind", "EtcdMember"},
        {"status", {{"transitions", json::list({{{"state", "Started"}, {"subState", "Leader"}}})}}},
    };
    EXPECT_TRUE(hindrances_of(started).empty());
    const json::Value etcd = {
        {"kind", "Etcd"},
        {"metadata", {{"name", "main"}, {"namespace", "default"}}},
        {"status",
         {{"lastErrors",
           json::list({{{"code", "ERR_SYNC"}, {"description", "patch Service: forbidden"}}})}}},
    };
    EXPECT_EQ(hindrances_of(etcd),
              std::vector<std::string>{"Etcd default/main: ERR_SYNC: patch Service: forbidden"});
    EXPECT_TRUE(hindrances_of({{"kind", "ConfigMap"}}).empty());
}

struct ReadinessRow {
    const char* name;
    json::Value object;
    bool ready;
    bool refused;
    const char* first;  // of what is awaited
};
class ReadinessTable : public testing::TestWithParam<ReadinessRow> {};
TEST_P(ReadinessTable, FollowsTheConventions) {
    const Readiness readiness = readiness_of(GetParam().object, true);
    EXPECT_EQ(readiness.ready, GetParam().ready);
    EXPECT_EQ(readiness.refused, GetParam().refused);
    EXPECT_EQ(readiness.awaits.empty() ? "" : readiness.awaits.front(), GetParam().first);
}
INSTANTIATE_TEST_SUITE_P(
    Cli,
    ReadinessTable,
    testing::Values(
        ReadinessRow{"untouched",
                     etcd(json::object()),
                     false,
                     false,
                     "Etcd shop/main: to be taken up by its controller"},
        ReadinessRow{"ready",
                     etcd({{"observedGeneration", 2},
                           {"readyReplicas", 3},
                           {"conditions", json::list({condition("Ready", "True")})}}),
                     true,
                     false,
                     ""},
        ReadinessRow{"behind",
                     etcd({{"observedGeneration", 1},
                           {"readyReplicas", 3},
                           {"conditions", json::list({condition("Ready", "True")})}}),
                     false,
                     false,
                     "Etcd shop/main: its newest change to be taken up"},
        ReadinessRow{"unknown_is_not_ready",
                     etcd({{"readyReplicas", 3},
                           {"conditions", json::list({condition("Ready", "Unknown")})}}),
                     false,
                     false,
                     "Etcd shop/main: Ready: why"},
        ReadinessRow{
            "few",
            etcd({{"readyReplicas", 1}, {"conditions", json::list({condition("Ready", "True")})}}),
            false,
            false,
            "Etcd shop/main: 1 of 3 replicas ready"},
        ReadinessRow{"no_condition",
                     etcd({{"readyReplicas", 3}}),
                     false,
                     false,
                     "Etcd shop/main: a first report of its health"},
        ReadinessRow{"refused",
                     etcd({{"conditions", json::list({condition("SpecSupported", "False")})}}),
                     false,
                     true,
                     "Etcd shop/main: SpecSupported: why"}),
    [](const auto& row) { return row.param.name; });

TEST(Readiness, AnObjectWithoutStatusNeedsNone) {
    EXPECT_TRUE(readiness_of({{"kind", "ConfigMap"}, {"metadata", {{"name", "a"}}}}, false).ready);
}

TEST(Rbac, UnitesPermissionsAndGrantsOnce) {
    plugin::Manifest first, second;
    first.permissions.push_back({{"apps"}, {"statefulsets"}, {"get", "list"}, {}});
    second.permissions.push_back({{"apps"}, {"statefulsets"}, {"get", "list"}, {}});
    second.grants.push_back({{"x"}, {"y"}, {"patch"}, {"only"}});
    const json::Value role = cluster_role("r", {first, second});
    const json::Array& rules = *role.find("rules")->if_array();
    ASSERT_EQ(rules.size(), 3U);  // one, one granted, Events of the host
    EXPECT_EQ(
        json::dump(rules[1]),
        R"({"apiGroups":["x"],"resources":["y"],"verbs":["patch"],"resourceNames":["only"]})");
}

TEST(Rbac, GivesNoMoreThanThePolicyLeaves) {
    plugin::Manifest manifest;
    manifest.id = "etcd.capstan.dev";
    manifest.permissions.push_back({{"apps"}, {"statefulsets"}, {"get", "patch", "delete"}, {}});
    manifest.permissions.push_back({{""}, {"secrets"}, {"get"}, {}});
    for (const char* name : {"etcd", "etcd.capstan.dev"}) {
        config::OperatorConfig config;
        EXPECT_EQ(under_policy(manifest, config).permissions.size(), 2u)
            << "no policy takes nothing";
        config.plugins["custodian"].permissions.emplace();
        config::PluginConfig& plugin = config.plugins[name];
        EXPECT_EQ(under_policy(manifest, config).permissions.size(), 2u) << "another's policy";
        plugin.permissions = {{{"apps"}, {"*"}, {"get", "patch"}, {}}};
        const json::Value role = cluster_role("r", {under_policy(manifest, config)});
        EXPECT_EQ(json::dump(json::View(role)["rules"][0].value() == nullptr
                                 ? json::Value()
                                 : *json::View(role)["rules"][0].value()),
                  R"({"apiGroups":["apps"],"resources":["statefulsets"],"verbs":["get","patch"]})");
        EXPECT_EQ(json::View(role)["rules"].array().size(), 2u) << "and the host's Events";
        plugin.permissions.emplace();
        EXPECT_TRUE(under_policy(manifest, config).permissions.empty());
    }
}

TEST(Rbac, TheLeaseIsNamed) {
    const json::Value role = lease_role("r", "ns", "capstan");
    EXPECT_EQ(
        json::dump(*role.find("rules")),
        R"([{"apiGroups":["coordination.k8s.io"],"resources":["leases"],"verbs":["get","update"],)"
        R"("resourceNames":["capstan"]},)"
        R"({"apiGroups":["coordination.k8s.io"],"resources":["leases"],"verbs":["create"]}])");
    EXPECT_EQ(json::View(role)["metadata"]["namespace"].string_or(""), "ns");
    const json::Value cluster_wide = lease_role("r", "", "capstan");
    EXPECT_FALSE(json::View(cluster_wide)["metadata"]["namespace"].present());
}

TEST(Election, IdentitiesAreNeverShared) {
    std::uint64_t next = 1;
    const auto random = [&next] { return next *= 0x9E3779B97F4A7C15ull; };
    const std::string one = make_identity("pod-0", random), two = make_identity("pod-0", random);
    EXPECT_NE(one, two);
    EXPECT_TRUE(one.starts_with("pod-0_"));
    EXPECT_EQ(one.size(), std::string("pod-0_").size() + 36);
    EXPECT_EQ(one[one.find('_') + 15], '4') << "a version 4 UUID: " << one;
    EXPECT_FALSE(make_identity("", random).starts_with("_"));
}

}  // namespace
}  // namespace capstan::cli
