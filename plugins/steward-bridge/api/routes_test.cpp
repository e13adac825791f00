// Every path of the API with every code it answers, against fakes.
#include "plugins/steward-bridge/api/routes.hpp"

#include "plugins/steward-bridge/api/snapshotter_access.hpp"
#include "plugins/steward-bridge/maintenance/testing_cluster.hpp"

#include <gtest/gtest.h>

namespace capstan::steward {
namespace {

using namespace std::chrono_literals;
using capstan::testing::PluginUnderTest;
using capstan::testing::ServerAnswer;
using testing_cluster::FakeCluster;
using testing_cluster::FakeHost;

constexpr const char* kToken = "0123456789abcdef0123456789abcdef";

class FakeSnapshots final : public SnapshotAccess {
public:
    State state() const override { return now; }
    Result<SnapshotRecord> full(Call&, bool final, std::chrono::nanoseconds timeout) override {
        EXPECT_GT(timeout.count(), 0);
        if (problem) {
            return fail(*problem);
        }
        SnapshotRecord record;
        record.last_revision = 27;
        record.final = final;
        record.created = *parse_rfc3339("2026-11-30T01:46:34Z");
        record.name = snapshot_name(record);
        return record;
    }
    Result<std::optional<SnapshotRecord>> delta(Call&, std::chrono::nanoseconds) override {
        if (problem) {
            return fail(*problem);
        }
        return next_delta;
    }
    LatestSet latest() const override { return set; }

    State now{State::here};
    std::optional<Error> problem;
    std::optional<SnapshotRecord> next_delta;
    LatestSet set;
};

struct Parts {
    explicit Parts(const HostTables& host)
        : member(host, FakeCluster::identity()), access(kToken, {}), defragmenter(host, member) {}
    Member member;
    Access access;
    FakeSnapshots snapshots;
    Defragmenter defragmenter;
};
Parts* g_parts = nullptr;

Result<void> make(Setup& setup) {
    CAPSTAN_TRY(const ApiConfig config, ApiConfig::parse(json::View(setup.config())));
    auto parts = std::make_shared<Parts>(setup.host());
    g_parts = parts.get();
    add_routes(
        setup,
        {&parts->member, &parts->access, &parts->snapshots, &parts->defragmenter, config.peer_tls});
    setup.own(parts);
    return ok();
}
const capstan_plugin* entry(const capstan_host* host) noexcept {
    return detail::plugin_entry(host, &make, "api.capstan.dev", "0.1.0");
}

struct Ask {
    std::string method{"GET"};
    std::string query;
    std::string token{kToken};
    bool tls{false};
    std::string forwarded;
    std::string body;
};

class Api : public ::testing::Test {
protected:
    Api() {
        cluster.install(host);
        plugin.emplace(host, &entry);
        EXPECT_TRUE(plugin->running());
    }
    ServerAnswer ask(std::string_view route, const Ask& with = {}) {
        json::Value headers = json::object();
        if (!with.token.empty()) {
            headers.set("authorization", "Bearer " + with.token);
        }
        if (!with.forwarded.empty()) {
            headers.set("x-capstan-forwarded", with.forwarded);
        }
        return plugin->request(route,
                               {{"method", with.method},
                                {"path", "/" + std::string(route)},
                                {"query", with.query},
                                {"headers", std::move(headers)},
                                {"remote", "127.0.0.1:4000"},
                                {"tls", with.tls},
                                {"certificate", false},
                                {"commonName", ""}},
                               with.body);
    }
    static std::string header(const ServerAnswer& answer, std::string_view name) {
        return std::string(json::View(answer.headers)[name].string_or(""));
    }
    // `reason` of a refusal; also checks that it is JSON with a message.
    static std::string reason(const ServerAnswer& answer) {
        const auto body = json::parse(answer.body);
        EXPECT_TRUE(body) << answer.body;
        EXPECT_EQ(header(answer, "content-type"), "application/json");
        const json::Value tree = body ? body.value() : json::Value();
        EXPECT_FALSE(json::View(tree)["message"].string_or("").empty()) << answer.body;
        return std::string(json::View(tree)["reason"].string_or(""));
    }

    FakeHost host;
    FakeCluster cluster{3};
    std::optional<PluginUnderTest> plugin;
};

TEST_F(Api, InitialisationAsTheOldLaunchersAsk) {
    EXPECT_EQ(ask("initialization-status").body, "New");
    const ServerAnswer started = ask("initialization-start", {.query = "mode=sanity"});
    EXPECT_EQ(started.status, 200);
    EXPECT_EQ(started.body, "");
    EXPECT_FALSE(g_parts->member.take_request()->full);
    EXPECT_EQ(ask("initialization-status").body, "Progress");
    g_parts->member.finish_run(RunState::successful, "name: m-0");
    EXPECT_EQ(ask("initialization-status").body, "Successful");
    EXPECT_EQ(ask("initialization-status").body, "New") << "a finished state is read once";
    ask("initialization-start", {.method = "POST", .query = "failbelowrevision=7"});
    EXPECT_TRUE(g_parts->member.take_request()->full);
    g_parts->member.finish_run(RunState::failed, "");
    EXPECT_EQ(header(ask("initialization-status", {.query = "run="}), "content-type"),
              "text/plain; charset=utf-8");
}

TEST_F(Api, InitialisationByNameKeepsItsState) {
    ask("initialization-start", {.query = "run=a&mode=full"});
    g_parts->member.take_request();
    g_parts->member.finish_run(RunState::failed, "");
    EXPECT_EQ(ask("initialization-status", {.query = "run=a"}).body, "Failed");
    EXPECT_EQ(ask("initialization-status", {.query = "run=a"}).body, "Failed");
    EXPECT_EQ(ask("initialization-status", {.query = "run=b"}).body, "New");
    EXPECT_EQ(ask("initialization-status", {.query = "run=a", .token = "", .tls = true}).status,
              200)
        << "only reads";
    EXPECT_EQ(ask("initialization-status", {.token = "", .tls = true}).status, 401)
        << "takes the state away";
}

TEST_F(Api, ConfigurationOnceThereIsOne) {
    const ServerAnswer early = ask("config");
    EXPECT_EQ(early.status, 503);
    EXPECT_EQ(reason(early), "NotInitialized");
    ask("initialization-start");
    g_parts->member.take_request();
    g_parts->member.finish_run(RunState::successful, "name: m-0\n");
    const ServerAnswer answer = ask("config");
    EXPECT_EQ(answer.status, 200);
    EXPECT_EQ(answer.body, "name: m-0\n");
    EXPECT_EQ(header(answer, "content-type"), "application/x-yaml");
}

TEST_F(Api, HealthIsOpen) {
    const ServerAnswer bad = ask("health", {.token = ""});
    EXPECT_EQ(bad.status, 503);
    EXPECT_EQ(bad.body, R"({"health":false})");
    g_parts->member.set_status(EtcdStatus{});
    const ServerAnswer good = ask("health", {.token = "wrong"});
    EXPECT_EQ(good.status, 200);
    EXPECT_EQ(good.body, R"({"health":true})");
}

TEST_F(Api, MetricsAreOpenAndComplete) {
    const ServerAnswer answer = ask("metrics", {.token = ""});
    EXPECT_EQ(answer.status, 200);
    EXPECT_TRUE(header(answer, "content-type").starts_with("text/plain; version=0.0.4"));
    EXPECT_NE(answer.body.find("etcdbr_defragmentation_duration_seconds"), std::string::npos);
    EXPECT_NE(answer.body.find("etcdbr_network_received_bytes "), std::string::npos);
}

TEST_F(Api, EverythingElseAsksForCredentials) {
    for (const char* route : {"initialization-start",
                              "initialization-status",
                              "snapshot-full",
                              "snapshot-delta",
                              "snapshot-latest",
                              "config",
                              "defragment",
                              "last-defragmentation"}) {
        const ServerAnswer none = ask(route, {.token = ""});
        EXPECT_EQ(none.status, 401) << route;
        EXPECT_EQ(reason(none), "NoCredentials") << route;
        EXPECT_EQ(header(none, "www-authenticate"), "Bearer") << route;
        EXPECT_EQ(reason(ask(route, {.token = "x"})), "WrongToken") << route;
    }
    EXPECT_FALSE(g_parts->member.take_request());
    EXPECT_TRUE(cluster.defragmented.empty());
}

TEST_F(Api, OverTlsOnlyReadingIsFree) {
    for (const char* route : {"snapshot-full", "snapshot-delta", "defragment"}) {
        EXPECT_EQ(ask(route, {.token = "", .tls = true}).status, 401) << route;
    }
    const ServerAnswer latest = ask("snapshot-latest", {.token = "", .tls = true});
    EXPECT_EQ(latest.status, 200);
    EXPECT_EQ(header(latest, "strict-transport-security"), "max-age=31536000");
    EXPECT_EQ(header(latest, "content-security-policy"), "default-src 'self'");
    EXPECT_EQ(header(ask("metrics", {.tls = true}), "strict-transport-security"), "");
}

TEST_F(Api, FullSnapshotIsARecordWithTheOldKeys) {
    const ServerAnswer answer = ask("snapshot-full", {.method = "POST", .query = "final=true"});
    EXPECT_EQ(answer.status, 200);
    EXPECT_EQ(header(answer, "content-type"), "application/json");
    const auto body = json::parse(answer.body).value();
    for (const char* key : {"createdOn",
                            "immutabilityExpriyTime",
                            "versionID",
                            "kind",
                            "snapDir",
                            "snapName",
                            "prefix",
                            "compressionSuffix",
                            "startRevision",
                            "lastRevision",
                            "isChunk",
                            "isFinal"}) {
        EXPECT_NE(body.find(key), nullptr) << key;
    }
    EXPECT_TRUE(json::View(body)["isFinal"].bool_or(false));
    EXPECT_EQ(json::View(body)["lastRevision"].int_or(0), 27);
    const auto plain = json::parse(ask("snapshot-full").body).value();
    EXPECT_FALSE(json::View(plain)["isFinal"].bool_or(true));
}

TEST_F(Api, FinalIsASwitchOrRefused) {
    for (const char* value : {"1", "t", "T", "true", "TRUE", "True"}) {
        const auto body =
            json::parse(ask("snapshot-full", {.query = std::string("final=") + value}).body);
        EXPECT_TRUE(json::View(body.value())["isFinal"].bool_or(false)) << value;
    }
    for (const char* value : {"", "0", "f", "F", "false", "FALSE", "False"}) {
        EXPECT_EQ(ask("snapshot-full", {.query = std::string("final=") + value}).status, 200)
            << value;
    }
    const ServerAnswer bad = ask("snapshot-full", {.query = "final=yes"});
    EXPECT_EQ(bad.status, 400);
    EXPECT_EQ(reason(bad), "InvalidQuery");
}

TEST_F(Api, DeltaIsNullWhenNothingChanged) {
    const ServerAnswer nothing = ask("snapshot-delta");
    EXPECT_EQ(nothing.status, 200);
    EXPECT_EQ(nothing.body, "null");
    SnapshotRecord delta;
    delta.kind = SnapshotKind::delta;
    delta.start_revision = 28;
    delta.last_revision = 40;
    g_parts->snapshots.next_delta = delta;
    const auto body = json::parse(ask("snapshot-delta").body).value();
    EXPECT_EQ(json::View(body)["kind"].string_or(""), "Incr");
    EXPECT_EQ(json::View(body)["startRevision"].int_or(0), 28);
}

TEST_F(Api, LatestIsNullWhereThereIsNothing) {
    EXPECT_EQ(ask("snapshot-latest").body, R"({"fullSnapshot":null,"deltaSnapshots":null})");
    g_parts->snapshots.set.full = SnapshotRecord{};
    g_parts->snapshots.set.deltas.resize(2);
    const auto body = json::parse(ask("snapshot-latest").body).value();
    EXPECT_EQ(json::View(body)["deltaSnapshots"].array().size(), 2u);
    EXPECT_EQ(json::View(body)["fullSnapshot"]["kind"].string_or(""), "Full");
}

TEST_F(Api, SnapshotsThatFail) {
    auto& problem = g_parts->snapshots.problem;
    for (const char* route : {"snapshot-full", "snapshot-delta"}) {
        problem = {Code::unavailable, "the store does not answer", {}};
        EXPECT_EQ(ask(route).status, 500) << route;
        EXPECT_EQ(reason(ask(route)), "SnapshotFailed") << route;
        problem = {Code::timeout, "the snapshot is not done in time", {}};
        EXPECT_EQ(reason(ask(route)), "TimedOut") << route;
        problem = {Code::overloaded, "64 requests wait already", 2500ms};
        const ServerAnswer busy = ask(route);
        EXPECT_EQ(busy.status, 503) << route;
        EXPECT_EQ(header(busy, "retry-after"), "3") << route;
        g_parts->snapshots.now = SnapshotAccess::State::no_store;
        EXPECT_EQ(ask(route).status, 405) << route;
        EXPECT_EQ(reason(ask(route)), "NoStore") << route;
        g_parts->snapshots.now = SnapshotAccess::State::here;
    }
    g_parts->snapshots.now = SnapshotAccess::State::no_store;
    EXPECT_EQ(reason(ask("snapshot-latest")), "NoStore");
}

TEST_F(Api, AFollowerPassesOnToTheLeader) {
    g_parts->snapshots.now = SnapshotAccess::State::elsewhere;
    cluster.leader = 1;
    json::Value seen;
    std::string body;
    host.on_http([&](const json::Value& request, std::string_view sent) {
        const json::View asked(request);
        const std::string url(asked["url"].string_or(""));
        if (url == "http://10.0.0.1:8080/healthz") {
            return capstan::testing::HttpReply{
                CAPSTAN_OK, 200, json::object(), R"({"health":true})"};
        }
        if (url.find(":8080/") != std::string::npos) {
            seen = request;
            body = sent;
            return capstan::testing::HttpReply{
                CAPSTAN_OK, 200, json::Value{{"content-type", "application/json"}}, "null"};
        }
        return cluster.answer(url);
    });
    const ServerAnswer answer =
        ask("snapshot-delta", {.method = "POST", .query = "a=b&c", .body = "text"});
    EXPECT_EQ(answer.status, 200);
    EXPECT_EQ(answer.body, "null");
    EXPECT_EQ(json::View(seen)["url"].string_or(""), "http://10.0.0.1:8080/snapshot-delta?a=b&c");
    EXPECT_EQ(json::View(seen)["method"].string_or(""), "POST");
    EXPECT_EQ(json::View(seen)["headers"]["x-capstan-forwarded"].string_or(""), "m-0");
    EXPECT_FALSE(json::View(seen)["headers"]["authorization"].present())
        << "this steward's token is nobody else's affair";
    EXPECT_EQ(body, "text");
}

TEST_F(Api, WhatCannotBePassedOnIs405) {
    g_parts->snapshots.now = SnapshotAccess::State::elsewhere;
    cluster.leader = 99;
    EXPECT_EQ(ask("snapshot-full").status, 405);
    EXPECT_EQ(reason(ask("snapshot-full")), "LeaderNotReached") << "no leader";
    for (const char* const told : {"taken by the steward of the leading member",
                                   "the cluster has no leader now",
                                   "`kubectl get etcdmembers -n "}) {
        EXPECT_NE(ask("snapshot-full").body.find(told), std::string::npos) << told;
    }
    cluster.leader = 1;
    EXPECT_EQ(reason(ask("snapshot-full")), "LeaderNotReached") << "its steward does not answer";
    cluster.other = {CAPSTAN_OK, 503, json::object(), R"({"health":false})"};
    EXPECT_EQ(ask("snapshot-full").status, 405) << "its steward is not healthy";
    cluster.other = {CAPSTAN_OK, 401, json::object(), "{}"};
    EXPECT_EQ(ask("snapshot-full").status, 405);
    cluster.silent = {0};
    EXPECT_EQ(ask("snapshot-full").status, 405) << "no member answers";
    const ServerAnswer twice = ask("snapshot-full", {.forwarded = "m-2"});
    EXPECT_EQ(twice.status, 405);
    EXPECT_EQ(reason(twice), "NotLeading") << "never in a circle";
}

TEST_F(Api, DefragmentsAndTells) {
    EXPECT_EQ(ask("last-defragmentation").body, "null");
    const ServerAnswer answer = ask("defragment", {.method = "POST"});
    EXPECT_EQ(answer.status, 200);
    const auto body = json::parse(answer.body).value();
    EXPECT_EQ(json::View(body)["status"].string_or(""), "Succeeded");
    EXPECT_EQ(json::View(body)["initialDBSize"].int_or(0), 4096);
    EXPECT_EQ(json::View(body)["finalDBSize"].int_or(0), 1024);
    EXPECT_EQ(json::parse(ask("last-defragmentation").body).value(), body);
}

TEST_F(Api, DefragmentationThatMayNotBeOrFails) {
    cluster.silent = {2};
    const ServerAnswer sick = ask("defragment", {.method = "POST"});
    EXPECT_EQ(sick.status, 503);
    EXPECT_EQ(reason(sick), "Unavailable");
    cluster.silent.clear();
    host.put({{"apiVersion", "coordination.k8s.io/v1"},
              {"kind", "Lease"},
              {"metadata",
               {{"namespace", "ns"},
                {"name", "m-0"},
                {"annotations", {{"capstan.dev/defragmenting", "m-2 2999-01-01T00:00:00Z"}}}}}});
    const ServerAnswer taken = ask("defragment", {.method = "POST"});
    EXPECT_EQ(taken.status, 409);
    EXPECT_EQ(reason(taken), "Conflict");
    EXPECT_EQ(header(taken, "retry-after"), "15");
    cluster.put_objects(host);
    cluster.defragment_rc = CAPSTAN_E_DEADLINE;
    EXPECT_EQ(ask("defragment", {.method = "POST"}).status, 504);
}

// Its engine may be at work still when this member leads no more.
TEST(SnapshotterAccess, AnswersWhileThisMemberLeads) {
    FakeHost host;
    HostTables tables{host.host()};
    Snapshotter snapshotter(tables);
    const SnapshotterAccess access(snapshotter);
    EXPECT_EQ(access.state(), SnapshotAccess::State::no_store);
    SnapshotterConfig config;
    config.store.provider = "Local";
    snapshotter.configure(config, {});
    EXPECT_EQ(access.state(), SnapshotAccess::State::elsewhere);
    snapshotter.on_role(Role::leader);
    EXPECT_EQ(access.state(), SnapshotAccess::State::here);
    snapshotter.publish(SnapshotterState::running, "", "");
    snapshotter.end_term();
    EXPECT_EQ(access.state(), SnapshotAccess::State::elsewhere);
}

TEST(ApiConfig, IsRefusedWhereItIsHalf) {
    const auto parse = [](const char* text) {
        const json::Value config = json::parse(text).value();
        return ApiConfig::parse(json::View(config));
    };
    EXPECT_TRUE(parse("{}").value().token_file.empty());
    EXPECT_EQ(parse(R"({"apiTokenFile":"/t","other":1})").value().token_file, "/t");
    EXPECT_EQ(parse(R"({"peerTls":{"caFile":"/ca"}})").value().peer_tls.ca, "/ca");
    EXPECT_FALSE(parse(R"({"apiTokenFile":1})"));
    EXPECT_FALSE(parse(R"({"peerTls":{"caFile":"/ca","keyFile":"/k"}})"));
    EXPECT_FALSE(parse(R"({"peerTls":{"certificateFile":"/c","keyFile":"/k"}})"));
}

}  // namespace
}  // namespace capstan::steward
