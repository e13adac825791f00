#include "runtime/kube/client.hpp"
#include "test/fakes/local_transport.hpp"
#include "test/fakes/virtual_loop.hpp"

#include <gtest/gtest.h>

#include <optional>

namespace capstan::kube {
namespace {

using namespace std::chrono_literals;

struct SwitchGate final : WriteGate {
    MonotonicTime until{0};  // 0: refuses
    int asked{0};
    Result<MonotonicTime> admit() noexcept override {
        ++asked;
        return until.count() == 0 ? Result<MonotonicTime>(fail(Code::cancelled, "not now"))
                                  : Result<MonotonicTime>(until);
    }
};

struct Gated {
    test::VirtualLoop loop;
    SwitchGate gate;
    std::vector<std::string> arrived;
    bool answers{true};
    std::vector<std::shared_ptr<net::ServerExchange>> unanswered;
    test::LocalTransport transport{loop, [this](std::shared_ptr<net::ServerExchange> exchange) {
                                       arrived.push_back(exchange->method());
                                       if (answers) {
                                           exchange->respond(200, {}, "{}");
                                       } else {
                                           unanswered.push_back(std::move(exchange));
                                       }
                                   }};
    Client client{loop, transport, {"sim", "capstan-sim", nullptr, nullptr, &gate}};

    // The code, or nullopt when it went well.
    std::optional<Code> ask(const char* method, const char* target) {
        std::optional<Result<net::HttpResponse>> answer;
        const auto call =
            client.raw(method, target, "", loop.now() + 30s, [&](Result<net::HttpResponse> result) {
                answer.emplace(std::move(result));
            });
        loop.run_for(31s);
        return *answer ? std::nullopt : std::optional<Code>(answer->error().code);
    }
};

struct GateRow {
    const char* name;
    const char* method;
    const char* target;
    bool asks;
};
class Gates : public testing::TestWithParam<GateRow> {};

TEST_P(Gates, AreAskedForWhatChangesSomething) {
    const GateRow& row = GetParam();
    Gated world;
    const auto refused = world.ask(row.method, row.target);
    EXPECT_EQ(world.gate.asked, row.asks ? 1 : 0);
    EXPECT_EQ(world.arrived.size(), row.asks ? 0u : 1u);
    EXPECT_EQ(refused, row.asks ? std::optional(Code::cancelled) : std::nullopt);
    world.gate.until = world.loop.now() + 10s;
    EXPECT_EQ(world.ask(row.method, row.target), std::nullopt);
}

INSTANTIATE_TEST_SUITE_P(
    Client,
    Gates,
    testing::Values(
        GateRow{"get", "GET", "/api/v1/pods", false},
        GateRow{"head", "HEAD", "/api/v1/pods", false},
        GateRow{"create", "POST", "/api/v1/namespaces/a/pods", true},
        GateRow{"update", "PUT", "/api/v1/namespaces/a/pods/b", true},
        GateRow{"status", "PATCH", "/api/v1/namespaces/a/pods/b/status", true},
        GateRow{"remove", "DELETE", "/api/v1/namespaces/a/pods/b", true},
        GateRow{"event", "POST", "/apis/events.k8s.io/v1/namespaces/a/events", true},
        GateRow{"eviction", "POST", "/api/v1/namespaces/a/pods/b/eviction", true},
        GateRow{"token_review", "POST", "/apis/authentication.k8s.io/v1/tokenreviews", false},
        GateRow{
            "access_review", "POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", false},
        GateRow{"looks_like_a_review", "DELETE", "/apis/authorization.k8s.io/v1/things/a", true}),
    [](const auto& row) { return row.param.name; });

TEST(Gate, AWriteIsGivenUpWhenTheGateCloses) {
    Gated world;
    world.answers = false;
    world.gate.until = world.loop.now() + 2s;
    std::optional<MonotonicTime> ended;
    const auto call = world.client.raw(
        "PUT", "/x", "{}", world.loop.now() + 30s, [&](const Result<net::HttpResponse>& result) {
            EXPECT_EQ(result.error().code, Code::timeout);
            ended = world.loop.now();
        });
    const MonotonicTime started = world.loop.now();
    world.loop.run_for(31s);
    ASSERT_TRUE(ended);
    EXPECT_EQ(*ended - started, 2s);
}

}  // namespace
}  // namespace capstan::kube
