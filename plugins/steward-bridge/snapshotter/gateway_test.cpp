#include "plugins/steward-bridge/snapshotter/gateway_client.hpp"

#include "plugins/steward-bridge/snapshotter/gateway_json.hpp"
#include "plugins/steward-bridge/snapshotter/testing_call.hpp"
#include "plugins/steward-bridge/stream/base64.hpp"
#include "plugins/steward-bridge/stream/testing_streams.hpp"

#include "capstan/testing/fake_host.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <map>

namespace capstan::steward {
namespace {

TEST(WatchLine, GivesTheChangesOfAnAnswer) {
    const auto message = parse_watch_line(
        R"({"result":{"header":{"cluster_id":"1","revision":"5"},"fragment":true,"events":[)"
        R"({"kv":{"key":"YQ==","create_revision":"4","mod_revision":"5","version":"2",)"
        R"("value":"MQ==","lease":"9223372036854775807"}},)"
        R"({"type":"DELETE","kv":{"key":"Zm9v","mod_revision":"5"}}]}})");
    ASSERT_TRUE(message) << message.error().message;
    EXPECT_EQ(message.value().revision, 5);
    EXPECT_TRUE(message.value().more);
    EXPECT_FALSE(message.value().created);
    ASSERT_EQ(message.value().changes.size(), 2u);
    const DeltaChange& put = message.value().changes[0];
    EXPECT_TRUE(put.base64);
    EXPECT_EQ(put.key, "YQ==");
    EXPECT_EQ(put.value, "MQ==");
    EXPECT_EQ(put.create_revision, 4);
    EXPECT_EQ(put.mod_revision, 5);
    EXPECT_EQ(put.version, 2);
    EXPECT_EQ(put.lease, 9'223'372'036'854'775'807);
    EXPECT_TRUE(message.value().changes[1].deleted);
    EXPECT_EQ(message.value().changes[1].key, "Zm9v");
}

TEST(WatchLine, TellsProgressFromTheFirstAnswer) {
    const auto created =
        parse_watch_line(R"({"result":{"header":{"revision":"7"},"created":true}})");
    EXPECT_TRUE(created.value().created);
    const auto progress = parse_watch_line(R"({"result":{"header":{"revision":"8"}}})");
    EXPECT_FALSE(progress.value().created);
    EXPECT_TRUE(progress.value().changes.empty());
    EXPECT_EQ(progress.value().revision, 8);
}

struct EndRow {
    const char* name;
    const char* line;
    Code code;
    const char* text;
};

class WatchEnd : public ::testing::TestWithParam<EndRow> {};

TEST_P(WatchEnd, SaysWhy) {
    const auto message = parse_watch_line(GetParam().line);
    ASSERT_FALSE(message);
    EXPECT_EQ(to_string(message.error().code), to_string(GetParam().code));
    EXPECT_NE(message.error().message.find(GetParam().text), std::string::npos)
        << message.error().message;
}

INSTANTIATE_TEST_SUITE_P(
    Rows,
    WatchEnd,
    ::testing::Values(
        EndRow{"compacted",
               R"({"result":{"header":{"revision":"9"},"canceled":true,"compact_revision":"7"}})",
               Code::expired,
               "revision 7"},
        EndRow{"no_permission",
               R"({"result":{"watch_id":"-1","created":true,"canceled":true,)"
               R"("cancel_reason":"rpc error: permission denied"}})",
               Code::unavailable,
               "permission denied"},
        EndRow{"error_of_3_5",
               R"({"error":{"grpc_code":14,"http_code":503,"message":"no leader"}})",
               Code::unavailable,
               "no leader"},
        EndRow{"error_of_3_6",
               R"({"error":{"code":16,"message":"invalid auth token"}})",
               Code::forbidden,
               "invalid auth token"},
        EndRow{"no_number",
               R"({"result":{"header":{"revision":"x"}}})",
               Code::invalid,
               "/result/header/revision"},
        EndRow{"no_key",
               R"({"result":{"header":{"revision":"1"},"events":[{"kv":{"mod_revision":"1"}}]}})",
               Code::invalid,
               "/result/events/0/kv/key"},
        EndRow{"cut", R"({"result":{"header":{"rev)", Code::invalid, "offset"}),
    [](const auto& row) { return row.param.name; });

TEST(SnapshotLine, IsDecodedWithAndWithoutATree) {
    for (const char* line :
         {R"({"result":{"remaining_bytes":"64","blob":"YWJj"}})",
          R"({"result":{"blob":"YWJj","remaining_bytes":"64","version":"3.6.0"}})",
          R"({ "result" : {"remaining_bytes":"64", "blob" : "YWJj"}})",
          R"({"result":{"x":"1","remaining_bytes":"64","blob":"YWJj"}})",
          R"({"result":{"x":{"blob":"AAAA"},"remaining_bytes":"64","blob":"YWJj"}})",
          R"({"result":{"remaining_bytes":"64","blob":"YWJj","version":"a\"b"}})"}) {
        std::string out = "x";
        std::uint64_t remaining = 1;
        const auto read = read_snapshot_line(line, out, remaining);
        ASSERT_TRUE(read) << line << read.error().message;
        EXPECT_EQ(out, "xabc") << line;
        EXPECT_EQ(remaining, 64u) << line;
    }
}

TEST(SnapshotLine, RefusesWhatIsNoPiece) {
    for (const char* line : {R"({"result":{"blob":"YWJ"}})",
                             R"({"result":{"blob":"YW c"}})",
                             R"({"result":{"remaining_bytes":"6x","blob":"YWJj"}})",
                             R"({"result":{"blob":"YWJj"}},)",
                             R"({"error":{"grpc_code":14,"message":"stopped"}})",
                             R"(nonsense)"}) {
        std::string out;
        std::uint64_t remaining = 0;
        EXPECT_FALSE(read_snapshot_line(line, out, remaining)) << line;
    }
}

class GatewayClientTest : public ::testing::Test {
protected:
    GatewayClientTest() {
        host.on_http([this](const json::Value& request, std::string_view body) {
            const json::View view(request);
            const std::string url(view["url"].string_or(""));
            sent.push_back(url + " " + std::string(body));
            authorization.emplace_back(view["headers"]["authorization"].string_or(""));
            capstan::testing::HttpReply reply;
            const auto found = replies.find(url.substr(std::string("http://etcd").size()));
            reply.status = found == replies.end() ? 404 : found->second.first;
            reply.body = found == replies.end() ? "404 page not found" : found->second.second;
            if (found != replies.end() && url.ends_with("authenticate")) {
                replies["/v3/kv/range"].first = 200;
            }
            return reply;
        });
    }
    void with_client(const std::function<void(GatewayClient&)>& use,
                     const SnapshotterConfig& config = {}) {
        with_call(host, [&](Call& call) {
            GatewayClient client(call, {"http://etcd", {}}, config);
            use(client);
        });
    }

    capstan::testing::FakeHost host;
    std::map<std::string, std::pair<int, std::string>> replies{
        {"/v3/kv/range", {200, R"({"header":{"revision":"42"}})"}},
        {"/v3/maintenance/status",
         {200, R"({"header":{"member_id":"7","cluster_id":"8","revision":"42"},"leader":"7"})"}}};
    std::vector<std::string> sent, authorization;
};

TEST_F(GatewayClientTest, ReadsRevisionAndRole) {
    with_client([](GatewayClient& client) {
        const auto head = client.head(true);
        ASSERT_TRUE(head) << head.error().message;
        EXPECT_EQ(head.value().revision, 42);
        EXPECT_TRUE(head.value().leads);
    });
    EXPECT_EQ(sent[0], R"(http://etcd/v3/kv/range {"key":"AA==","serializable":false})");
}

TEST_F(GatewayClientTest, StreamsASnapshotToItsEnd) {
    replies["/v3/maintenance/snapshot"] = {
        200,
        R"({"result":{"remaining_bytes":"6","blob":")" + to_base64("abc") + "\"}}\n" +
            R"({"result":{"remaining_bytes":"3","blob":")" + to_base64("def") + "\"}}\n" +
            R"({"result":{"blob":")" + to_base64("ghi") + "\"}}\n"};
    with_client([](GatewayClient& client) {
        auto snapshot = client.snapshot();
        ASSERT_TRUE(snapshot) << snapshot.error().message;
        EXPECT_EQ(snapshot.value().bytes_about, 9u);
        EXPECT_EQ(read_all(*snapshot.value().bytes, 2).value(), "abcdefghi");
    });
}

TEST_F(GatewayClientTest, ACutSnapshotIsAnError) {
    replies["/v3/maintenance/snapshot"] = {200,
                                           R"({"result":{"remaining_bytes":"6","blob":"YWJj"}})"
                                           "\n"
                                           R"({"result":{"remai)"};
    with_client([](GatewayClient& client) {
        auto snapshot = client.snapshot();
        ASSERT_TRUE(snapshot);
        EXPECT_EQ(read_all(*snapshot.value().bytes).error().code, Code::unavailable);
    });
}

TEST_F(GatewayClientTest, WatchesTheWholeKeyspaceInPieces) {
    replies["/v3/watch"] = {200,
                            R"({"result":{"header":{"revision":"42"},"created":true}})"
                            "\n"
                            R"({"result":{"header":{"revision":"43"}}})"
                            "\n"};
    with_client([](GatewayClient& client) {
        auto watch = client.watch(40);
        ASSERT_TRUE(watch) << watch.error().message;
        WatchMessage message;
        EXPECT_TRUE(watch.value()->next(message, kNever).value());
        EXPECT_TRUE(message.created);
        EXPECT_TRUE(watch.value()->next(message, kNever).value());
        EXPECT_EQ(message.revision, 43);
        EXPECT_EQ(watch.value()->next(message, kNever).error().code, Code::unavailable);
    });
    EXPECT_NE(sent[0].find(R"("range_end":"AA==","start_revision":"40","progress_notify":true,)"
                           R"("fragment":true)"),
              std::string::npos)
        << sent[0];
}

TEST_F(GatewayClientTest, SaysThatThereIsNoGateway) {
    replies.clear();
    with_client([](GatewayClient& client) {
        const auto head = client.head(true);
        ASSERT_FALSE(head);
        EXPECT_NE(head.error().message.find("enable-grpc-gateway"), std::string::npos);
        EXPECT_EQ(client.watch(1).error().code, Code::unsupported);
    });
}

TEST_F(GatewayClientTest, LogsInAgainWhenItsTokenIsForgotten) {
    replies["/v3/kv/range"] = {401, R"({"code":16,"message":"etcdserver: invalid auth token"})"};
    replies["/v3/kv/range"].second = R"({"code":16,"message":"x","header":{"revision":"42"}})";
    replies["/v3/auth/authenticate"] = {200, R"({"token":"t1"})"};
    SnapshotterConfig config;
    config.username = "backup";
    config.password = "secret";
    with_client(
        [this](GatewayClient& client) {
            EXPECT_TRUE(client.head(true));
            replies["/v3/kv/range"].first = 401;  // until the next login
            EXPECT_TRUE(client.head(true));
        },
        config);
    EXPECT_EQ(sent[0], R"(http://etcd/v3/auth/authenticate {"name":"backup","password":"secret"})");
    EXPECT_EQ(authorization[1], "t1");
    EXPECT_EQ(std::count_if(sent.begin(),
                            sent.end(),
                            [](const std::string& line) {
                                return line.find("authenticate") != std::string::npos;
                            }),
              2);
}

TEST_F(GatewayClientTest, LogsInAgainAfterAWatchThatEnded) {
    replies["/v3/auth/authenticate"] = {200, R"({"token":"t1"})"};
    replies["/v3/watch"] = {200,
                            R"({"result":{"created":true,"canceled":true,"cancel_reason":)"
                            R"("rpc error: code = Unauthenticated desc = invalid auth token"}})"
                            "\n"};
    SnapshotterConfig config;
    config.username = "backup";
    with_client(
        [](GatewayClient& client) {
            for (int i = 0; i < 2; ++i) {
                WatchMessage message;
                auto watch = client.watch(7);
                ASSERT_TRUE(watch);
                EXPECT_FALSE(watch.value()->next(message, kNever));
            }
        },
        config);
    EXPECT_EQ(std::count_if(sent.begin(),
                            sent.end(),
                            [](const std::string& line) {
                                return line.find("authenticate") != std::string::npos;
                            }),
              2);
}

TEST_F(GatewayClientTest, TellsALeaseThatIsGone) {
    replies["/v3/lease/timetolive"] = {200, R"({"ID":"7","TTL":"-1"})"};
    with_client([this](GatewayClient& client) {
        EXPECT_EQ(client.lease_ttl(7).value(), std::nullopt);
        replies["/v3/lease/timetolive"] = {200, R"({"ID":"7","TTL":"12","grantedTTL":"60"})"};
        EXPECT_EQ(client.lease_ttl(7).value(), 60);
        replies["/v3/lease/timetolive"] = {
            404, R"({"code":5,"message":"etcdserver: requested lease not found"})"};
        EXPECT_EQ(client.lease_ttl(7).value(), std::nullopt);
        replies["/v3/lease/timetolive"] = {503, R"({"code":14,"message":"no leader"})"};
        EXPECT_FALSE(client.lease_ttl(7));
    });
}

}  // namespace
}  // namespace capstan::steward
