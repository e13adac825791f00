// Deletion: finalizers, preconditions, owners, namespaces, pods, collections.
#include "runtime/local/apiserver/testing_server.hpp"

namespace capstan::local {
namespace {

using namespace testing_server;

const std::string kA = std::string(kMaps) + "/a";
const std::string kB = std::string(kMaps) + "/b";

TEST(ServerDelete, AnswersSuccessAndForgets) {
    TestServer server;
    server.make_map("a");
    const Reply gone = server.del(kA);
    EXPECT_EQ(gone.status, 200);
    EXPECT_EQ(gone.text("/status"), "Success");
    EXPECT_EQ(gone.text("/details/kind"), "configmaps");
    EXPECT_EQ(server.get(kA).status, 404);
    EXPECT_EQ(server.del(kA).status, 404);
}

TEST(ServerDelete, PreconditionsGuard) {
    TestServer server;
    const Reply made = server.make_map("a");
    EXPECT_EQ(server.del(kA, R"({"preconditions":{"uid":"x"}})").status, 409);
    EXPECT_EQ(server.del(kA, R"({"preconditions":{"resourceVersion":"1"}})").status, 409);
    EXPECT_EQ(server.del(kA, R"({"dryRun":["All"]})").status, 200);
    EXPECT_EQ(server.get(kA).status, 200);
    EXPECT_EQ(server.del(kA, R"({"preconditions":{"uid":")" + made.text("/metadata/uid") + R"("}})")
                  .status,
              200);
    EXPECT_EQ(server.get(kA).status, 404);
}

TEST(ServerDelete, ABodyTakesThePlaceOfTheQuery) {
    TestServer server;
    server.make_map("a");
    const std::string a = kA;
    EXPECT_EQ(server.del(a + "?dryRun=All").status, 200);
    EXPECT_EQ(server.del(a + "?propagationPolicy=Odd").status, 422);
    EXPECT_EQ(server.get(kA).status, 200);
    EXPECT_EQ(server.del(a + "?dryRun=All", R"({"propagationPolicy":"Background"})").status, 200);
    EXPECT_EQ(server.get(kA).status, 404);
}

TEST(ServerDelete, FinalizersHoldAndCanOnlyGo) {
    TestServer server;
    server.post(kMaps, R"({"metadata":{"name":"a","finalizers":["x.dev/one","x.dev/two"]}})");
    const Reply marked = server.del(kA);
    EXPECT_EQ(marked.text("/metadata/deletionTimestamp"), "2026-01-01T01:00:00Z");
    EXPECT_EQ(server.del(kA).version(), marked.version());
    EXPECT_EQ(server.patch(kA, R"({"metadata":{"finalizers":["x.dev/one","x.dev/three"]}})").status,
              422);
    EXPECT_EQ(server.patch(kA, R"({"metadata":{"deletionTimestamp":null}})")
                  .text("/metadata/deletionTimestamp"),
              "2026-01-01T01:00:00Z");
    EXPECT_EQ(server.patch(kA, R"({"metadata":{"finalizers":["x.dev/two"]}})").status, 200);
    Seen seen;
    const auto handle = server.watch(std::string(kMaps) + "?watch=true&resourceVersion=" +
                                         std::to_string(server.server->revision()),
                                     seen);
    const Reply last =
        server.patch(kA,
                     R"([{"op":"test","path":"/metadata/finalizers/0","value":"x.dev/two"},
        {"op":"remove","path":"/metadata/finalizers/0"}])",
                     kJsonPatch);
    EXPECT_EQ(last.status, 200);
    EXPECT_EQ(last.text("/metadata/name"), "a");
    EXPECT_EQ(seen.take(), "DELETED a");
    EXPECT_EQ(server.get(kA).status, 404);
}

std::string child_of(const Reply& owner, const std::string& name, const std::string& more = "") {
    return R"({"metadata":{"name":")" + name +
           R"(","ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":")" +
           owner.text("/metadata/name") + R"(","uid":")" + owner.text("/metadata/uid") + R"("})" +
           more + "]}}";
}

TEST(ServerGarbage, ChildrenFollowTheirLastOwner) {
    TestServer server;
    const Reply a = server.make_map("a");
    const Reply b = server.make_map("b");
    server.post(kMaps, child_of(a, "only-a"));
    server.post(kMaps,
                child_of(a,
                         "both",
                         R"(,{"apiVersion":"v1","kind":"ConfigMap","name":"b","uid":")" +
                             b.text("/metadata/uid") + R"("})"));
    server.server->tick();
    EXPECT_EQ(server.get(kMaps).view()["items"].array().size(), 4u);
    server.del(kA);
    EXPECT_LE(server.server->next_tick(), server.clock.now());
    server.server->tick();
    EXPECT_EQ(server.get(std::string(kMaps) + "/only-a").status, 404);
    EXPECT_EQ(server.get(std::string(kMaps) + "/both")
                  .view()["metadata"]["ownerReferences"]
                  .array()
                  .size(),
              1u);
    server.del(kB);
    server.server->tick();
    EXPECT_EQ(server.get(std::string(kMaps) + "/both").status, 404);
}

TEST(ServerGarbage, AnOwnerOfTheSameNameWithAnotherUidIsNoOwner) {
    TestServer server;
    const Reply old = server.make_map("a");
    server.del(kA);
    server.make_map("a");
    server.post(kMaps, child_of(old, "stale"));
    server.server->tick();
    EXPECT_EQ(server.get(std::string(kMaps) + "/stale").status, 404);
}

TEST(ServerGarbage, OwnersInOtherNamespacesDoNotCount) {
    TestServer server;
    const Reply owner =
        server.post("/api/v1/namespaces/kube-system/configmaps", R"({"metadata":{"name":"far"}})");
    server.post(kMaps, child_of(owner, "lost"));
    server.server->tick();
    EXPECT_EQ(server.get(std::string(kMaps) + "/lost").status, 404);
}

TEST(ServerGarbage, GrandchildrenGoToo) {
    TestServer server;
    const Reply a = server.make_map("a");
    const Reply child = server.post(kMaps, child_of(a, "child"));
    server.post(kMaps, child_of(child, "grandchild"));
    server.del(kA);
    server.server->tick();
    EXPECT_TRUE(server.get(kMaps).view()["items"].array().empty());
}

TEST(ServerGarbage, ForegroundWaitsForChildren) {
    TestServer server;
    const Reply a = server.make_map("a");
    std::string held = child_of(a, "child");
    held.insert(held.find("\"uid\""), R"("blockOwnerDeletion":true,)");
    server.post(kMaps, held.substr(0, held.size() - 2) + R"(,"finalizers":["x.dev/hold"]}})");
    server.post(kMaps, child_of(a, "free"));
    server.del(kA, R"({"propagationPolicy":"Foreground"})");
    server.server->tick();
    EXPECT_EQ(server.get(kA).text("/metadata/finalizers"), R"(["foregroundDeletion"])");
    EXPECT_NE(server.get(std::string(kMaps) + "/child").text("/metadata/deletionTimestamp"),
              "<absent>");
    server.patch(std::string(kMaps) + "/child", R"({"metadata":{"finalizers":null}})");
    server.server->tick();
    EXPECT_EQ(server.get(kA).status, 404);
}

TEST(ServerGarbage, OrphanKeepsChildren) {
    TestServer server;
    const Reply a = server.make_map("a");
    server.post(kMaps, child_of(a, "child"));
    server.del(kA, R"({"propagationPolicy":"Orphan"})");
    server.server->tick();
    EXPECT_EQ(server.get(kA).status, 404);
    EXPECT_EQ(server.get(std::string(kMaps) + "/child").text("/metadata/ownerReferences"),
              "<absent>");
}

TEST(ServerNamespaces, EmptyThemselves) {
    TestServer server;
    const Reply made = server.post("/api/v1/namespaces", R"({"metadata":{"name":"n"}})");
    EXPECT_EQ(made.text("/metadata/labels/kubernetes.io~1metadata.name"), "n");
    EXPECT_EQ(made.text("/status/phase"), "Active");
    const std::string maps = "/api/v1/namespaces/n/configmaps";
    server.post(maps, R"({"metadata":{"name":"a"}})");
    server.post(maps, R"({"metadata":{"name":"held","finalizers":["x.dev/h"]}})");
    EXPECT_EQ(server.del("/api/v1/namespaces/n").text("/status/phase"), "Terminating");
    server.server->tick();
    EXPECT_EQ(server.get(maps + "/a").status, 404);
    const Reply late = server.post(maps, R"({"metadata":{"name":"late"}})");
    EXPECT_EQ(late.status, 403);
    EXPECT_EQ(late.text("/details/causes/0/reason"), "NamespaceTerminating");
    server.patch(maps + "/held", R"({"metadata":{"finalizers":[]}})");
    server.server->tick();
    EXPECT_EQ(server.get("/api/v1/namespaces/n").status, 404);
    EXPECT_EQ(server.del("/api/v1/namespaces/default").status, 403);
}

TEST(ServerPods, KeepAGracePeriodOnceTheyRunSomewhere) {
    TestServer server;
    const std::string pods = "/api/v1/namespaces/default/pods";
    server.post(pods,
                R"({"metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"i"}]}})");
    EXPECT_EQ(server.del(pods + "/p").status, 200);
    EXPECT_EQ(server.get(pods + "/p").status, 404);
    server.post(
        pods,
        R"({"metadata":{"name":"p"},"spec":{"nodeName":"here","terminationGracePeriodSeconds":7,
        "containers":[{"name":"c","image":"i"}]}})");
    const Reply leaving = server.del(pods + "/p");
    EXPECT_EQ(leaving.text("/metadata/deletionGracePeriodSeconds"), "7");
    EXPECT_EQ(leaving.text("/metadata/deletionTimestamp"), "2026-01-01T01:00:07Z");
    EXPECT_EQ(server.patch(pods + "/p/status", R"({"status":{"phase":"Failed"}})").status, 200);
    EXPECT_EQ(server.get(pods + "/p").status, 200);
    EXPECT_EQ(server.del(pods + "/p", R"({"gracePeriodSeconds":0})").status, 200);
    EXPECT_EQ(server.get(pods + "/p").status, 404);
}

TEST(ServerDelete, CollectionsBySelector) {
    TestServer server;
    server.make_map("a", R"({"app":"x"})");
    server.make_map("b", R"({"app":"y"})");
    const Reply gone = server.del(std::string(kMaps) + "?labelSelector=app%3Dx");
    EXPECT_EQ(gone.text("/kind"), "ConfigMapList");
    EXPECT_EQ(server.get(kA).status, 404);
    EXPECT_EQ(server.get(kB).status, 200);
}

}  // namespace
}  // namespace capstan::local
