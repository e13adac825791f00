// A server that refuses, is away, or does not know what it is asked for.
#include "test/disturb/disturb_world.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>

namespace capstan::test {
namespace {

using namespace std::chrono_literals;

struct RefusalTest : testing::Test {
    DisturbWorld world;

    bool start() {
        world.serve();
        world.put("a", "1");
        world.put("b", "1");
        world.connect_plainly();
        world.watch();
        return settles();
    }
    bool settles() {
        return world.until([&] { return world.is_live() && world.equal(); });
    }
    // Lets the trouble last and counts what it costs, after the first moment.
    void last(std::chrono::seconds duration) {
        const MonotonicTime since = world.loop->now();
        world.run_for(duration);
        EXPECT_LE(world.requests("", since), static_cast<std::size_t>(duration.count()) + 1)
            << "at most one request a second";
    }
    int relists() const {
        return world.lists("expired") + world.lists("error") + world.lists("older") +
               world.lists("fallback");
    }
};

TEST_F(RefusalTest, AStormOfTooManyRequestsIsObeyed) {
    ASSERT_TRUE(start());
    world.trouble = [](const std::string&) { return Trouble{.status = 429, .retry_after = 1s}; };
    world.stop_serving();
    world.serve();
    // Writers too, more than there may be requests: they wait, and do not add to the storm.
    std::vector<kube::CallHandle> calls;
    int answered = 0;
    for (int i = 0; i < 40; ++i) {
        kube::GetOptions options;
        options.deadline = world.loop->now() + 15s;
        calls.push_back(world.connection->client().get(
            kConfigMap, {"default", "a"}, options, [&](const Result<kube::ObjectPtr>& got) {
                answered += got ? 1 : 0;
            }));
    }
    world.run_for(500ms);  // what was under way when it began
    last(4s);
    EXPECT_EQ(answered, 0);
    world.trouble = nullptr;
    world.put("c", "1");
    ASSERT_TRUE(settles());
    ASSERT_TRUE(world.until([&] { return answered == 40; })) << answered << " of 40";
    EXPECT_EQ(relists(), 0);
}

TEST_F(RefusalTest, AServerThatRestartsIsResumed) {
    ASSERT_TRUE(start());
    for (int i = 0; i < 3; ++i) {
        world.stop_serving();
        world.put("while-down-" + std::to_string(i), "1");
        world.remove(i == 0 ? "a" : "while-down-" + std::to_string(i - 1));
        world.run_for(1s);
        world.serve();
        ASSERT_TRUE(settles()) << i;
    }
    EXPECT_EQ(relists(), 0);
}

// At the same address, with a history that has not come to what we know, or is past it.
TEST_F(RefusalTest, AServerThatIsReplacedIsNoticed) {
    for (const bool ahead : {false, true}) {
        SCOPED_TRACE(ahead);
        DisturbWorld one;
        one.reflector.reset_after = 1s;
        one.serve();
        for (int i = 0; i < (ahead ? 1 : 60); ++i) {
            one.put("a", std::to_string(i));
        }
        one.put("gone", "1");
        one.connect_plainly();
        one.watch();
        ASSERT_TRUE(one.until([&] { return one.is_live() && one.equal(); }));
        one.stop_serving();
        one.replace_server();
        one.put("a", "new");
        for (int i = 0; i < (ahead ? 60 : 1); ++i) {
            one.put("b", std::to_string(i));
        }
        one.serve();
        ASSERT_TRUE(one.until([&] { return one.is_live() && one.equal(); }))
            << testing::PrintToString(one.log_lines);
        EXPECT_EQ(one.handle->store()->get({"default", "a"})->string_field("/data/v"), "new");
        EXPECT_EQ(std::count(one.log_lines.begin(),
                             one.log_lines.end(),
                             "the API server's data was set back, taking it as it is now"),
                  1);
        one.put("c", "1");
        ASSERT_TRUE(one.until([&] { return one.is_live() && one.equal(); }));
    }
}

TEST_F(RefusalTest, AServerThatIsAwayIsNotPestered) {
    ASSERT_TRUE(start());
    world.trouble = [](const std::string&) { return Trouble{.status = 503}; };
    world.stop_serving();
    world.serve();
    world.run_for(500ms);
    last(4s);
    EXPECT_TRUE(world.equal()) << "what is known stays known";
    world.trouble = nullptr;
    world.put("c", "1");
    ASSERT_TRUE(settles());
}

TEST_F(RefusalTest, WhatIsForbiddenHealsWhenItIsAllowed) {
    world.serve();
    world.put("a", "1");
    CAPSTAN_CHECK(world.authenticator.set_token("a-token-of-nobody-yet", {"svc", {}}).has_value(),
                  "token");
    world.connect(
        R"({"current-context":"c","contexts":[{"name":"c","context":{"cluster":"k","user":"u"}}],
        "clusters":[{"name":"k","cluster":{"server":")" +
        world.endpoint() +
        R"("}}],"users":[{"name":"u","user":{"token":"a-token-of-nobody-yet"}}]})");
    world.watch();
    ASSERT_TRUE(
        world.until([&] { return world.handle->state().state == cache::SyncState::degraded; }));
    EXPECT_EQ(world.handle->state().reason, "ConfigMap: forbidden: watch configmaps");
    last(4s);
    EXPECT_EQ(world
                  .ask("POST",
                       "/apis/rbac.authorization.k8s.io/v1/clusterroles",
                       R"({"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole",
        "metadata":{"name":"r"},"rules":[{"apiGroups":[""],"resources":["configmaps"],"verbs":["get","list","watch"]}]})")
                  .status,
              201);
    EXPECT_EQ(world
                  .ask("POST",
                       "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings",
                       R"({"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRoleBinding",
        "metadata":{"name":"r"},"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"r"},
        "subjects":[{"kind":"User","apiGroup":"rbac.authorization.k8s.io","name":"svc"}]})")
                  .status,
              201);
    ASSERT_TRUE(settles());
}

constexpr const char* kCrd =
    R"({"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition",
    "metadata":{"name":"widgets.x.dev"},"spec":{"group":"x.dev","scope":"Namespaced",
    "names":{"plural":"widgets","singular":"widget","kind":"Widget","listKind":"WidgetList"},
    "versions":[{"name":"v1","served":true,"storage":true,
    "schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}]}})";
constexpr const char* kCrds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
constexpr const char* kWidgets = "/apis/x.dev/v1/widgets";

TEST_F(RefusalTest, AKindThatGoesAndComesBackIsSeen) {
    world.serve();
    world.connect_plainly();
    world.watch({"x.dev", "v1", "Widget"});
    ASSERT_TRUE(
        world.until([&] { return world.handle->state().state == cache::SyncState::degraded; }));
    last(4s);
    for (int round = 0; round < 2; ++round) {
        ASSERT_EQ(world.ask("POST", kCrds, kCrd).status, 201);
        const std::string name = "w" + std::to_string(round);
        ASSERT_TRUE(world.until([&] {
            return world
                       .ask("POST",
                            "/apis/x.dev/v1/namespaces/default/widgets",
                            R"({"apiVersion":"x.dev/v1","kind":"Widget","metadata":{"name":")" +
                                name + "\"}}")
                       .status == 201;
        }));
        ASSERT_TRUE(world.until([&] { return world.is_live() && world.equal(kWidgets); })) << round;
        if (round == 0) {
            ASSERT_LT(world.ask("DELETE", std::string(kCrds) + "/widgets.x.dev").status, 300);
            ASSERT_TRUE(world.until([&] {
                return world.handle->store()->size() == 0 ||
                       world.handle->state().state == cache::SyncState::degraded;
            }));
            last(3s);
        }
    }
    EXPECT_EQ(world.handle->store()->list().front()->key().name, "w1");
}

// The wall clock of the client moves; nothing that waits may notice.
class ShiftedLoop final : public net::Loop {
public:
    explicit ShiftedLoop(net::Loop& real) : real_(real) {}
    MonotonicTime now() const noexcept override { return real_.now(); }
    WallTime wall_now() const noexcept override { return real_.wall_now() + shift; }
    void post(std::function<void()> task) override { real_.post(std::move(task)); }
    std::unique_ptr<net::Timer> at(MonotonicTime when, std::function<void()> task) override {
        return real_.at(when, std::move(task));
    }
    bool is_loop_thread() const noexcept override { return real_.is_loop_thread(); }
    std::chrono::nanoseconds shift{0};

private:
    net::Loop& real_;
};

TEST_F(RefusalTest, AClockThatJumpsChangesNothing) {
    world.serve();
    world.put("a", "1");
    world.connect_plainly();
    ShiftedLoop shifted(*world.loop);
    kube::Client client(
        shifted, world.connection->http(), {.host = "h", .tokens = world.connection->tokens()});
    cache::CacheOptions options;
    options.random = [] { return 0.5; };
    options.observer = &world;
    cache::Cache cache(shifted, client, std::move(options));
    cache::WatchRequest request;
    request.spec.gvk = kConfigMap;
    world.handle = cache.watch(std::move(request)).value();
    ASSERT_TRUE(settles());
    const std::size_t before = world.seen.size();
    int written = 0;
    for (const auto jump : {1h, -1h, 0h}) {
        shifted.shift = jump;
        world.put("b", std::to_string(++written));
        ASSERT_TRUE(settles());
        std::optional<bool> got;
        const auto call = client.get(
            kConfigMap, {"default", "b"}, {}, [&](const Result<kube::ObjectPtr>& answer) {
                got = answer.has_value();
            });
        ASSERT_TRUE(world.until([&] { return got.has_value(); }));
        EXPECT_TRUE(*got);
    }
    EXPECT_EQ(world.seen.size(), before + 3) << "three gets, and the same watch all along";
    world.handle.reset();
}

}  // namespace
}  // namespace capstan::test
