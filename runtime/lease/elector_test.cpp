#include "runtime/lease/elector.hpp"

#include "test/fakes/local_transport.hpp"
#include "test/fakes/virtual_loop.hpp"

#include <gtest/gtest.h>

#include <optional>

namespace capstan::lease {
namespace {

using namespace std::chrono_literals;
using test::LocalTransport;
using test::VirtualLoop;

constexpr const char* kPath = "/apis/coordination.k8s.io/v1/namespaces/ns/leases";

// One Lease behind HTTP, with a version as the API server keeps it.
struct LeaseServer {
    std::optional<json::Value> lease;
    int version{0};
    int refuse_with{0};  // this status for everything; 0: none
    std::vector<std::string> seen;

    void serve(const std::shared_ptr<net::ServerExchange>& exchange, const std::string& text) {
        const std::string target = exchange->target();
        const std::string path = target.substr(0, target.find('?'));
        seen.push_back(exchange->method() + " " + path.substr(std::string(kPath).size()));
        const auto body = json::parse(text);
        if (refuse_with != 0) {
            return answer(exchange, refuse_with);
        }
        if (exchange->method() == "GET") {
            return answer(exchange, lease ? 200 : 404);
        }
        if (exchange->method() == "POST" && lease) {
            return answer(exchange, 409);
        }
        const json::View sent(body.value());
        if (exchange->method() == "PUT" && (!lease || sent["metadata"]["resourceVersion"].string_or(
                                                          "") != std::to_string(version))) {
            return answer(exchange, lease ? 409 : 404);
        }
        lease = body.value();
        (*lease)["metadata"].set("resourceVersion", std::to_string(++version));
        answer(exchange, 200);
    }
    void answer(const std::shared_ptr<net::ServerExchange>& exchange, int status) {
        const std::string refusal = R"({"kind":"Status","code":)" + std::to_string(status) +
                                    R"(,"message":"no","details":{"name":"capstan"}})";
        exchange->respond(status,
                          {{"Content-Type", "application/json"}},
                          status == 200 ? json::dump(*lease) : refusal);
    }
    std::string holder() const {
        return lease ? std::string(json::View(*lease)["spec"]["holderIdentity"].string_or("?"))
                     : "<none>";
    }
    net::ServerHandler handler() {
        return [this](std::shared_ptr<net::ServerExchange> exchange) {
            exchange->read_all(1 << 20, [this, exchange](const Result<std::string>& body) {
                serve(exchange, body.value());
            });
        };
    }
};

struct Process {
    Process(VirtualLoop& loop, LeaseServer& server, const std::string& identity)
        : transport(loop, server.handler(), {1ms, "127.0.0.1:1", "", {}}),
          client(loop, transport, {"sim", "capstan-sim", nullptr, nullptr, nullptr}),
          fence(loop, metrics) {
        LeaderOptions options{.ns = "ns", .name = "capstan", .identity = identity};
        elector.emplace(ElectorParts{loop,
                                     client,
                                     fence,
                                     obs::Log(loop, log.sink()),
                                     metrics,
                                     health,
                                     [] { return 0.5; }},
                        options,
                        ElectorHandler{[this] { elected = true; },
                                       [this](const std::string& why) { lost = why; }});
        elector->start();
    }
    std::string ready() const { return health.render(obs::Probe::readyz, "", "verbose").body; }
    bool logged(std::string_view text) {
        for (const std::string& line : log.lines()) {
            if (line.find(text) != std::string::npos) {
                return true;
            }
        }
        return false;
    }

    obs::Metrics metrics;
    obs::Health health;
    obs::LogCapture log;
    LocalTransport transport;
    kube::Client client;
    Fence fence;
    bool elected{false};
    std::string lost;
    std::optional<Elector> elector;
};

TEST(Elector, LeadsRenewsAndGivesBack) {
    VirtualLoop loop;
    LeaseServer server;
    Process one(loop, server, "one");
    EXPECT_FALSE(one.fence.holds());
    loop.run_for(1s);
    EXPECT_TRUE(one.elected);
    EXPECT_TRUE(one.fence.holds());
    EXPECT_TRUE(one.logged("became leader"));
    EXPECT_NE(one.ready().find("[+]leader-election ok (leader)"), std::string::npos);
    EXPECT_NE(one.metrics.render().find("leader_election_master_status{name=\"capstan\"} 1"),
              std::string::npos);
    loop.run_for(1min);
    EXPECT_TRUE(one.fence.holds());
    EXPECT_EQ(server.seen[2], "PUT /capstan") << "the fast path";
    EXPECT_NEAR(static_cast<double>(server.seen.size()), 2 + 30, 2);

    Process two(loop, server, "two");
    loop.run_for(1s);
    EXPECT_FALSE(two.elected);
    EXPECT_TRUE(two.logged("standing by"));
    EXPECT_NE(two.ready().find("[+]leader-election ok (standby; the leader is one)"),
              std::string::npos);
    std::optional<Result<void>> released;
    one.elector->release([&](Result<void> result) { released.emplace(std::move(result)); });
    EXPECT_FALSE(one.fence.holds());
    loop.run_for(10ms);
    ASSERT_TRUE(released && *released);
    EXPECT_EQ(server.holder(), "");
    EXPECT_TRUE(one.logged("lease released"));
    loop.run_for(1100ms);
    EXPECT_EQ(server.holder(), "two") << "within a look of the standby";
    EXPECT_TRUE(two.elected);
    EXPECT_TRUE(one.lost.empty());
}

TEST(Elector, APartitionedLeaderIsLostBeforeTheOtherLeads) {
    VirtualLoop loop;
    LeaseServer server;
    Process one(loop, server, "one");
    loop.run_for(1s);
    Process two(loop, server, "two");
    loop.run_for(20s);
    one.transport.set_partitioned(true);
    const MonotonicTime cut = loop.now();
    std::optional<MonotonicTime> lost, won;
    while (!won && loop.now() < cut + 1min) {
        loop.run_for(10ms);
        if (!lost && !one.lost.empty()) {
            lost = loop.now();
        }
        if (two.elected) {
            won = loop.now();
        }
        EXPECT_FALSE(one.fence.holds() && two.fence.holds());
    }
    ASSERT_TRUE(lost && won);
    EXPECT_LE(*lost - cut, 12s);
    EXPECT_GT(*won, *lost);
    EXPECT_LE(*won - cut, 16s) << "lease time + 1 s";
    EXPECT_NE(one.lost.find("not renewed"), std::string::npos);
    EXPECT_NE(one.metrics.render().find("leader_election_slowpath_total{name=\"capstan\"} "),
              std::string::npos);
}

TEST(Elector, AMissingRightIsNamed) {
    VirtualLoop loop;
    LeaseServer server;
    server.refuse_with = 403;
    Process one(loop, server, "one");
    loop.run_for(1s);
    EXPECT_NE(one.ready().find("[-]leader-election failed: forbidden: get "
                               "leases.coordination.k8s.io ns/capstan"),
              std::string::npos)
        << one.ready();
    EXPECT_TRUE(one.logged("get leases.coordination.k8s.io ns/capstan"));
    server.refuse_with = 0;
    loop.run_for(5s);
    EXPECT_TRUE(one.elected);
    EXPECT_TRUE(one.health.is_ready());
}

TEST(Fence, AdmitsUntilItsTimeAndNeverAfterItWasDropped) {
    VirtualLoop loop;
    obs::Metrics metrics;
    Fence fence(loop, metrics);
    EXPECT_EQ(fence.admit().error().code, Code::cancelled);
    fence.extend(loop.now() + 5s);
    fence.extend(loop.now() + 3s);
    EXPECT_EQ(fence.admit().value(), loop.now() + 5s);
    loop.run_for(5s);
    EXPECT_EQ(fence.admit().error().code, Code::cancelled);
    fence.extend(loop.now() + 5s);
    EXPECT_TRUE(fence.holds());
    fence.drop();
    fence.extend(loop.now() + 5s);
    EXPECT_FALSE(fence.holds());
    EXPECT_NE(metrics.render().find("capstan_fenced_writes_total 2"), std::string::npos);
}

}  // namespace
}  // namespace capstan::lease
