// Lists and watches: pages, versions, selectors, bookmarks, history.
#include "runtime/local/apiserver/testing_server.hpp"

namespace capstan::local {
namespace {

using namespace testing_server;

constexpr const char* kWatchMaps = "/api/v1/namespaces/default/configmaps?watch=true";

TEST(ServerList, BuiltinItemsCarryNoType) {
    TestServer server;
    server.make_map("a");
    const Reply list = server.get(kMaps);
    EXPECT_EQ(list.text("/kind"), "ConfigMapList");
    EXPECT_EQ(list.text("/items/0/kind"), "<absent>");
    EXPECT_EQ(list.text("/items/0/metadata/name"), "a");
    EXPECT_EQ(list.version(), std::to_string(server.server->revision()));
}

TEST(ServerList, PagesShowOneSnapshot) {
    TestServer server;
    for (const char* name : {"a", "b", "c", "d", "e"}) {
        server.make_map(name);
    }
    const Reply first = server.get(std::string(kMaps) + "?limit=2");
    EXPECT_EQ(first.text("/metadata/remainingItemCount"), "3");
    server.del(std::string(kMaps) + "/d");
    server.make_map("bb");
    const Reply second =
        server.get(std::string(kMaps) + "?limit=2&continue=" + first.text("/metadata/continue"));
    EXPECT_EQ(second.version(), first.version());
    EXPECT_EQ(second.text("/items/0/metadata/name"), "c");
    EXPECT_EQ(second.text("/items/1/metadata/name"), "d");
    const Reply third =
        server.get(std::string(kMaps) + "?limit=2&continue=" + second.text("/metadata/continue"));
    EXPECT_EQ(third.view()["items"].array().size(), 1u);
    EXPECT_EQ(third.text("/metadata/continue"), "<absent>");
    server.server->compact_history();
    const Reply late =
        server.get(std::string(kMaps) + "?limit=2&continue=" + first.text("/metadata/continue"));
    EXPECT_EQ(late.status, 410);
    EXPECT_EQ(late.reason(), "Expired");
}

struct ListRow {
    const char* name;
    const char* query;
    int status;
    int items;  // -1: not looked at
};
void PrintTo(const ListRow& row, std::ostream* out) {
    *out << row.name;
}

class ServerListOptions : public testing::TestWithParam<ListRow> {};

TEST_P(ServerListOptions, SelectOrRefuse) {
    TestServer server;
    server.make_map("a", R"({"app":"x"})");
    server.make_map("b", R"({"app":"y"})");
    const Reply list = server.get(std::string(kMaps) + "?" + GetParam().query);
    EXPECT_EQ(list.status, GetParam().status) << list.raw.body;
    if (GetParam().items >= 0) {
        EXPECT_EQ(list.view()["items"].array().size(), static_cast<std::size_t>(GetParam().items));
    }
}

INSTANTIATE_TEST_SUITE_P(
    Options,
    ServerListOptions,
    testing::Values(ListRow{"label", "labelSelector=app%3Dx", 200, 1},
                    ListRow{"label_set", "labelSelector=app+in+(x,y)", 200, 2},
                    ListRow{"field", "fieldSelector=metadata.name%3Db", 200, 1},
                    ListRow{"unknown_field", "fieldSelector=data.x%3Db", 400, -1},
                    ListRow{"bad_label", "labelSelector=%3D", 400, -1},
                    ListRow{"any_version", "resourceVersion=0", 200, 2},
                    ListRow{"too_new", "resourceVersion=99999", 504, -1},
                    ListRow{"exact_start", "resourceVersion=0&resourceVersionMatch=Exact", 422, -1},
                    ListRow{"match_alone", "resourceVersionMatch=NotOlderThan", 422, -1},
                    ListRow{"initial_events", "sendInitialEvents=true", 422, -1},
                    ListRow{"bad_continue", "continue=zz", 400, -1},
                    ListRow{"bad_limit", "limit=x", 400, -1},
                    ListRow{
                        "exact_too_old", "resourceVersion=2&resourceVersionMatch=Exact", 410, -1}),
    [](const testing::TestParamInfo<ListRow>& row) { return std::string(row.param.name); });

TEST(ServerWatch, FollowsFromAVersion) {
    TestServer server;
    const Reply made = server.make_map("a");
    server.make_map("b");
    Seen seen;
    const auto handle =
        server.watch(std::string(kWatchMaps) + "&resourceVersion=" + made.version(), seen);
    ASSERT_TRUE(handle);
    EXPECT_EQ(seen.take(), "ADDED b");
    server.patch(std::string(kMaps) + "/a", R"({"data":{"k":"v"}})");
    server.del(std::string(kMaps) + "/a");
    const std::string deleted_at = std::to_string(server.server->revision());
    ASSERT_EQ(seen.events.size(), 2u);
    EXPECT_EQ(json::View(seen.events[1])["object"]["metadata"]["resourceVersion"].string_or(""),
              deleted_at);
    EXPECT_EQ(seen.take(), "MODIFIED a, DELETED a");
    server.post("/api/v1/namespaces/kube-system/configmaps",
                R"({"metadata":{"name":"elsewhere"}})");
    EXPECT_EQ(seen.take(), "");
}

TEST(ServerWatch, StartsWithTheStateWhenAskedForAny) {
    TestServer server;
    server.make_map("a");
    for (const char* query : {"", "&resourceVersion=0"}) {
        Seen seen;
        const auto handle = server.watch(std::string(kWatchMaps) + query, seen);
        EXPECT_EQ(seen.take(), "ADDED a");
    }
}

TEST(ServerWatch, StreamsTheListAndMarksItsEnd) {
    TestServer server;
    server.make_map("a");
    Seen seen;
    const auto handle = server.watch(
        std::string(kWatchMaps) +
            "&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true",
        seen);
    ASSERT_EQ(seen.events.size(), 2u);
    EXPECT_EQ(json::View(seen.events[1])["object"]["metadata"]["resourceVersion"].string_or(""),
              std::to_string(server.server->revision()));
    EXPECT_EQ(json::View(seen.events[1])["object"]["kind"].string_or(""), "ConfigMap");
    EXPECT_EQ(seen.take(), "ADDED a, BOOKMARK end");
    server.make_map("b");
    EXPECT_EQ(seen.take(), "ADDED b");
    EXPECT_FALSE(server.watch(std::string(kWatchMaps) + "&sendInitialEvents=true", seen));
    EXPECT_EQ(server.refused.status, 422);
    EXPECT_FALSE(
        server.watch(std::string(kWatchMaps) + "&resourceVersionMatch=NotOlderThan", seen));
    EXPECT_EQ(server.refused.status, 422);
}

TEST(ServerWatch, SelectorEdgesAreAddedAndDeleted) {
    TestServer server;
    server.make_map("a", R"({"app":"x"})");
    Seen seen;
    const auto handle = server.watch(std::string(kWatchMaps) + "&labelSelector=app%3Dx", seen);
    EXPECT_EQ(seen.take(), "ADDED a");
    const Reply left =
        server.patch(std::string(kMaps) + "/a", R"({"metadata":{"labels":{"app":"y"}}})");
    ASSERT_EQ(seen.events.size(), 1u);
    EXPECT_EQ(json::View(seen.events[0])["object"]["metadata"]["resourceVersion"].string_or(""),
              left.version());
    EXPECT_EQ(json::View(seen.events[0])["object"]["metadata"]["labels"]["app"].string_or(""), "x");
    EXPECT_EQ(seen.take(), "DELETED a");
    server.patch(std::string(kMaps) + "/a", R"({"data":{"k":"v"}})");
    EXPECT_EQ(seen.take(), "");
    server.patch(std::string(kMaps) + "/a", R"({"metadata":{"labels":{"app":"x"}}})");
    EXPECT_EQ(seen.take(), "ADDED a");
    server.del(std::string(kMaps) + "/a");
    EXPECT_EQ(seen.take(), "DELETED a");
}

TEST(ServerWatch, BookmarksComeWhenTheVersionMoved) {
    TestServer server;
    Seen seen;
    const auto handle = server.watch(
        std::string(kWatchMaps) + "&allowWatchBookmarks=true&timeoutSeconds=600", seen);
    server.clock.advance(std::chrono::seconds(61));
    server.server->tick();
    EXPECT_EQ(seen.take(), "");
    server.post("/api/v1/namespaces", R"({"metadata":{"name":"other"}})");
    server.clock.advance(std::chrono::seconds(61));
    EXPECT_LE(server.server->next_tick(), server.clock.now());
    server.server->tick();
    EXPECT_EQ(seen.take(), "BOOKMARK");
    EXPECT_FALSE(seen.ended);
    server.clock.advance(std::chrono::seconds(600));
    server.server->tick();
    EXPECT_TRUE(seen.ended);
}

TEST(ServerWatch, EndsAfterItsTimeout) {
    TestServer server;
    Seen seen;
    const auto handle = server.watch(std::string(kWatchMaps) + "&timeoutSeconds=5", seen);
    server.clock.advance(std::chrono::seconds(4));
    server.server->tick();
    EXPECT_FALSE(seen.ended);
    server.clock.advance(std::chrono::seconds(2));
    server.server->tick();
    EXPECT_TRUE(seen.ended);
}

TEST(ServerWatch, ForgottenVersionsAreGone) {
    TestServer server({.history_events_max = 3});
    const Reply made = server.make_map("a");
    for (int i = 0; i < 5; ++i) {
        server.patch(std::string(kMaps) + "/a", R"({"data":{"k":")" + std::to_string(i) + R"("}})");
    }
    Seen seen;
    EXPECT_FALSE(
        server.watch(std::string(kWatchMaps) + "&resourceVersion=" + made.version(), seen));
    EXPECT_EQ(server.refused.status, 410);
    const std::string recent = std::to_string(server.server->revision() - 3);
    EXPECT_TRUE(server.watch(std::string(kWatchMaps) + "&resourceVersion=" + recent, seen));
    EXPECT_EQ(seen.take(), "MODIFIED a, MODIFIED a, MODIFIED a");
    server.server->compact_history();
    EXPECT_FALSE(server.watch(std::string(kWatchMaps) + "&resourceVersion=" + recent, seen));
    const std::string now = std::to_string(server.server->revision());
    EXPECT_TRUE(server.watch(std::string(kWatchMaps) + "&resourceVersion=" + now, seen));
}

TEST(ServerWatch, OldHistoryAgesAway) {
    TestServer server({.history_age_max = std::chrono::seconds(100)});
    const Reply made = server.make_map("a");
    server.patch(std::string(kMaps) + "/a", R"({"data":{"k":"v"}})");
    server.clock.advance(std::chrono::seconds(101));
    server.server->tick();
    Seen seen;
    EXPECT_FALSE(
        server.watch(std::string(kWatchMaps) + "&resourceVersion=" + made.version(), seen));
}

TEST(ServerWatch, GoneCanComeInsideTheStream) {
    TestServer server({.expired_in_stream = true});
    const Reply made = server.make_map("a");
    server.make_map("b");
    server.server->compact_history();
    Seen seen;
    const auto handle =
        server.watch(std::string(kWatchMaps) + "&resourceVersion=" + made.version(), seen);
    ASSERT_TRUE(handle);
    ASSERT_EQ(seen.events.size(), 1u);
    EXPECT_EQ(json::View(seen.events[0])["type"].string_or(""), "ERROR");
    EXPECT_EQ(json::View(seen.events[0])["object"]["code"].int_or(0), 410);
    EXPECT_TRUE(seen.ended);
}

TEST(ServerWatch, HandleMayGoInsideTheSink) {
    TestServer server;
    std::unique_ptr<WatchHandle> handle;
    int calls = 0;
    WatchStart start = server.server->open_watch(server.request("GET", kWatchMaps),
                                                 {[&](std::string_view) {
                                                      ++calls;
                                                      handle.reset();
                                                  },
                                                  nullptr});
    handle = std::move(start.handle);
    server.make_map("a");
    server.make_map("b");
    EXPECT_EQ(calls, 1);
}

TEST(ServerWatch, MetadataOnlyWhenAskedFor) {
    TestServer server;
    server.make_map("a", "{}", R"({"k":"v"})");
    ApiRequest request = server.request("GET", kWatchMaps);
    request.accept = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";
    Seen seen;
    const WatchStart start = server.server->open_watch(request, seen.sink());
    ASSERT_EQ(seen.events.size(), 1u);
    EXPECT_EQ(json::View(seen.events[0])["object"]["kind"].string_or(""), "PartialObjectMetadata");
    EXPECT_FALSE(json::View(seen.events[0])["object"]["data"].present());
}

}  // namespace
}  // namespace capstan::local
