// Who may do what, discovery, health, tables, persistence across restarts of the whole server.
#include "runtime/local/apiserver/testing_server.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace capstan::local {
namespace {

using namespace testing_server;

TEST(ServerAccess, RolesDecideAndTheRefusalSaysWhat) {
    TestServer server;
    server.make_map("a");
    server.post(
        "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles",
        R"({"metadata":{"name":"reader"},"rules":[{"apiGroups":[""],"resources":["configmaps"],"verbs":["get"]}]})");
    server.post(
        "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings",
        R"({"metadata":{"name":"reader"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"Role",
                   "name":"reader"},"subjects":[{"kind":"User","name":"eve","apiGroup":"rbac.authorization.k8s.io"}]})");
    server.user = {"eve", {}};
    EXPECT_EQ(server.get(std::string(kMaps) + "/a").status, 200);
    const Reply list = server.get(kMaps);
    EXPECT_EQ(list.status, 403);
    EXPECT_EQ(list.message(),
              "configmaps is forbidden: User \"eve\" cannot list resource \"configmaps\" in API "
              "group \"\" in the namespace \"default\"");
    EXPECT_EQ(server.get("/version").status, 200);
    const Reply review =
        server.post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
                    R"({"spec":{"resourceAttributes":{"verb":"get","resource":"configmaps",
                                        "namespace":"default"}}})");
    EXPECT_EQ(review.text("/status/allowed"), "true") << review.raw.body;
}

TEST(ServerAccess, NobodyGrantsWhatTheyLack) {
    TestServer server;
    server.post(
        "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
        R"({"metadata":{"name":"roles"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole",
                   "name":"roles"},"subjects":[{"kind":"User","name":"eve","apiGroup":"rbac.authorization.k8s.io"}]})");
    server.post("/apis/rbac.authorization.k8s.io/v1/clusterroles",
                R"({"metadata":{"name":"roles"},"rules":[{"apiGroups":["rbac.authorization.k8s.io"],
                   "resources":["roles"],"verbs":["create"]}]})");
    server.user = {"eve", {}};
    const Reply made =
        server.post("/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles",
                    R"({"metadata":{"name":"r"},"rules":[{"apiGroups":[""],"resources":["secrets"],
                                      "verbs":["get"]}]})");
    EXPECT_EQ(made.status, 403);
    EXPECT_NE(made.message().find("attempting to grant RBAC permissions not currently held"),
              std::string::npos);
}

TEST(ServerAccess, AnonymousSeesHealthOnly) {
    TestServer server;
    server.user = {};
    EXPECT_EQ(server.get("/readyz").raw.body, "ok");
    EXPECT_EQ(server.get("/apis").status, 403);
    EXPECT_EQ(server.get(kMaps).status, 403);
}

TEST(ServerDiscovery, ListsGroupsResourcesAndCustomKinds) {
    TestServer server;
    server.post(kCrds, widget_crd());
    EXPECT_EQ(server.get("/api").text("/versions"), R"(["v1"])");
    EXPECT_NE(server.get("/apis").raw.body.find(R"("name":"x.dev")"), std::string::npos);
    EXPECT_EQ(server.get("/apis/x.dev").text("/preferredVersion/version"), "v1");
    const Reply resources = server.get("/apis/x.dev/v1");
    EXPECT_EQ(resources.text("/resources/0/name"), "widgets");
    EXPECT_EQ(resources.text("/resources/1/name"), "widgets/status");
    EXPECT_EQ(resources.text("/resources/2/kind"), "Scale");
    const Reply many = server.get(
        "/apis",
        "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json");
    EXPECT_EQ(many.raw.content_type,
              "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList");
    EXPECT_EQ(many.text("/kind"), "APIGroupDiscoveryList");
    EXPECT_NE(many.raw.body.find(R"("resource":"widgets")"), std::string::npos);
    EXPECT_EQ(server.get("/apis/nope.dev").status, 404);
}

class Disk : public testing::Test {
protected:
    Disk() {
        std::string pattern = testing::TempDir() + "capstan-api-XXXXXX";
        dir_ = ::mkdtemp(pattern.data());
    }
    ~Disk() override { std::filesystem::remove_all(dir_); }
    ApiServerOptions options() const {
        ApiServerOptions out;
        out.data_dir = dir_ + "/state";
        out.durability = Durability::process;
        out.on_notice = [this](const std::string& text) { notices_ += text + "\n"; };
        return out;
    }
    std::string log() const { return dir_ + "/state/log"; }

    std::string dir_;
    mutable std::string notices_;
};

TEST_F(Disk, EverythingSurvivesARestart) {
    std::string version;
    std::string uid;
    std::uint64_t revision = 0;
    {
        TestServer server(options());
        server.post(kCrds, widget_crd());
        server.post(kWidgets, R"({"metadata":{"name":"w"},"spec":{"replicas":2}})");
        server.make_map("gone");
        server.del(std::string(kMaps) + "/gone");
        const Reply made = server.make_map("a", "{}", R"({"k":"v"})");
        version = made.version();
        uid = made.text("/metadata/uid");
        revision = server.server->revision();
    }
    TestServer again(options());
    EXPECT_EQ(again.server->revision(), revision);
    EXPECT_EQ(again.get(std::string(kMaps) + "/a").version(), version);
    EXPECT_EQ(again.get(std::string(kMaps) + "/a").text("/metadata/uid"), uid);
    EXPECT_EQ(again.get(std::string(kMaps) + "/gone").status, 404);
    EXPECT_EQ(again.get(std::string(kWidgets) + "/w").text("/spec/replicas"), "2");
    EXPECT_NE(again.make_map("b").text("/metadata/uid"), uid);
    EXPECT_EQ(notices_, "");
}

TEST_F(Disk, ATornTailIsCutAndTheRestStays) {
    std::string version;
    {
        TestServer server(options());
        version = server.make_map("a").version();
        server.make_map("b");
    }
    const auto whole = std::filesystem::file_size(log());
    std::filesystem::resize_file(log(), whole - 3);
    TestServer again(options());
    EXPECT_EQ(again.get(std::string(kMaps) + "/a").version(), version);
    EXPECT_EQ(again.get(std::string(kMaps) + "/b").status, 404);
    EXPECT_NE(notices_.find("cut a torn tail"), std::string::npos);
    EXPECT_EQ(again.make_map("c").status, 201);
}

TEST_F(Disk, WhatIsCutOffIsKept) {
    {
        TestServer server(options());
        server.make_map("a");
        server.make_map("b");
    }
    const auto whole = std::filesystem::file_size(log());
    {
        std::fstream file(log(), std::ios::in | std::ios::out | std::ios::binary);
        file.seekp(40);
        file.put('!');
    }
    TestServer again(options());
    const std::size_t at = notices_.find("kept in ");
    ASSERT_NE(at, std::string::npos) << notices_;
    const std::string kept = notices_.substr(at + 8, notices_.find('\n', at) - at - 8);
    const auto offset = std::stoull(kept.substr(kept.rfind('-') + 1));
    EXPECT_LT(offset, 40u);
    EXPECT_EQ(std::filesystem::file_size(kept), whole - offset);
}

TEST_F(Disk, EveryTruncationOfTheLogIsAPrefixOfHistory) {
    {
        TestServer server(options());
        for (const char* name : {"a", "b", "c"}) {
            server.make_map(name);
        }
    }
    const auto whole = std::filesystem::file_size(log());
    std::size_t last = 3;
    for (auto size = whole; size > whole - 1500; size -= 97) {
        std::filesystem::resize_file(log(), size);
        TestServer again(options());
        const std::size_t count = again.get(kMaps).view()["items"].array().size();
        EXPECT_LE(count, last);
        last = count;
    }
    EXPECT_LT(last, 3u);
}

// No file may grow beyond `bytes` while this lives: what a full disk looks like to write().
class FileSizeLimit {
public:
    explicit FileSizeLimit(rlim_t bytes) {
        ::getrlimit(RLIMIT_FSIZE, &before_);
        old_handler_ = std::signal(SIGXFSZ, SIG_IGN);
        rlimit limit = before_;
        limit.rlim_cur = bytes;
        ::setrlimit(RLIMIT_FSIZE, &limit);
    }
    ~FileSizeLimit() {
        ::setrlimit(RLIMIT_FSIZE, &before_);
        std::signal(SIGXFSZ, old_handler_);
    }
    FileSizeLimit(const FileSizeLimit&) = delete;
    FileSizeLimit& operator=(const FileSizeLimit&) = delete;

private:
    rlimit before_{};
    void (*old_handler_)(int){nullptr};
};

TEST_F(Disk, AFullDiskRefusesTheWriteAndChangesNothing) {
    {
        TestServer server(options());
        Seen seen;
        const auto handle = server.watch(std::string(kMaps) + "?watch=true", seen);
        const std::uint64_t revision = server.server->revision();
        {
            const FileSizeLimit full(std::filesystem::file_size(log()) + 100);
            const Reply refused = server.make_map("a");
            EXPECT_EQ(refused.status, 500);
            EXPECT_NE(refused.message().find("not stored and has no effect"), std::string::npos)
                << refused.message();
        }
        EXPECT_EQ(server.server->revision(), revision);
        EXPECT_EQ(server.get(std::string(kMaps) + "/a").status, 404);
        EXPECT_EQ(seen.take(), "");
        EXPECT_EQ(server.make_map("b").status, 201);
        EXPECT_EQ(seen.take(), "ADDED b");
    }
    TestServer again(options());
    EXPECT_EQ(again.get(std::string(kMaps) + "/b").status, 200);
    EXPECT_EQ(notices_, "");
}

TEST_F(Disk, SecondServerIsRefused) {
    TestServer first(options());
    HandClock clock;
    const auto second = ApiServer::create(clock, options());
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().code, Code::unavailable);
    EXPECT_NE(second.error().message.find("in use by a running `capstan up`"), std::string::npos);
}

TEST_F(Disk, ALargeLogBecomesASnapshot) {
    const std::string text(200'000, 'x');
    {
        TestServer server(options());
        server.make_map("a");
        for (int i = 0; i < 40; ++i) {
            server.patch(std::string(kMaps) + "/a",
                         R"({"data":{"k":")" + text + std::to_string(i) + R"("}})");
        }
        EXPECT_LT(std::filesystem::file_size(log()), 4'500'000u);
        EXPECT_TRUE(std::filesystem::exists(dir_ + "/state/snapshot"));
    }
    TestServer again(options());
    EXPECT_TRUE(again.get(std::string(kMaps) + "/a").text("/data/k").ends_with("x39"));
    std::fstream damaged(dir_ + "/state/snapshot", std::ios::in | std::ios::out | std::ios::binary);
    damaged.seekp(40);
    damaged << "zz";
    damaged.close();
    again.server.reset();
    HandClock clock;
    const auto refused = ApiServer::create(clock, options());
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Code::invalid);
    EXPECT_NE(refused.error().message.find("snapshot: damaged at offset 0"), std::string::npos);
}

}  // namespace
}  // namespace capstan::local
