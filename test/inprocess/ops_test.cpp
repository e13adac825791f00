// The ops listener in virtual time: what is open, what needs a token, what the API server is asked
// and how often.
#include "runtime/cli/cache_budget.hpp"
#include "runtime/cli/debug_text.hpp"
#include "runtime/cli/ops_server.hpp"
#include "test/fakes/local_transport.hpp"
#include "test/fakes/virtual_loop.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace capstan::cli {
namespace {

using namespace std::chrono_literals;
using test::Fault;
using test::LocalTransport;
using test::VirtualLoop;

// Answers reviews: token "good" is user "scraper", "poor" is user "nobody", who may nothing.
struct ReviewServer {
    int tokens{0};
    int accesses{0};
    json::Value last_access;
    bool garbage{false};
    bool holds{false};
    std::vector<std::function<void()>> held;  // answers that wait

    void release() {
        holds = false;
        for (const auto& answer : std::exchange(held, {})) {
            answer();
        }
    }
    net::ServerHandler handler() {
        return [this](const std::shared_ptr<net::ServerExchange>& exchange) {
            exchange->read_all(64 * 1024, [this, exchange](const Result<std::string>& body) {
                const json::Value asked = json::parse(body.value()).value();
                if (garbage) {
                    exchange->respond(201, {}, "<html>");
                } else if (exchange->target().ends_with("/tokenreviews")) {
                    ++tokens;
                    const auto answer = [exchange, asked] {
                        exchange->respond(201, {}, json::dump(review_token(asked)));
                    };
                    if (holds) {
                        held.emplace_back(answer);
                    } else {
                        answer();
                    }
                } else {
                    ++accesses;
                    last_access = asked;
                    exchange->respond(201, {}, json::dump(review_access(asked)));
                }
            });
        };
    }
    static json::Value review_token(const json::Value& asked) {
        const auto token = json::View(asked)["spec"]["token"].string_or("");
        if (token != "good" && token != "poor" && !token.starts_with("many")) {
            return {{"status", {{"authenticated", false}}}};
        }
        const json::Value user = {{"username", token == "poor" ? "nobody" : "scraper"},
                                  {"uid", "7"},
                                  {"groups", json::list({"monitors"})}};
        return {{"status", {{"authenticated", true}, {"user", user}}}};
    }
    static json::Value review_access(const json::Value& asked) {
        const bool allowed = json::View(asked)["spec"]["user"].string_or("") == "scraper";
        return {{"status", {{"allowed", allowed}}}};
    }
};

struct Ops : ::testing::Test {
    Ops() {
        api.set_faults([this](const net::HttpRequest&) {
            ++asked;
            Fault fault;
            fault.status = status;
            return fault;
        });
        health.add("store", obs::Probe::readyz, "is starting");
        metrics.counter("runs_total", "Runs.").with({}).add(3);
        open(false, true);
    }
    void open(bool with_auth, bool debug_open) {
        handler = ops_handler({health,
                               metrics,
                               [] {
                                   return json::Value{{"version", "1.2.3"}, {"ready", true}};
                               },
                               with_auth ? &auth : nullptr,
                               debug_open});
        listener.emplace(loop, [this](auto exchange) { handler(std::move(exchange)); });
    }
    net::HttpResponse get(const std::string& target,
                          const std::string& token = "",
                          const std::string& accept = "") {
        net::HttpRequest request;
        request.target = target;
        if (!token.empty()) {
            request.headers.emplace_back("Authorization", token);
        }
        request.headers.emplace_back("Accept", accept);
        std::optional<net::HttpResponse> answer;
        const auto exchange = listener->send(std::move(request), [&](auto result) {
            answer = result ? result.value() : net::HttpResponse{};
        });
        loop.run_until([&] { return answer.has_value(); }, loop.now() + 2min);
        return answer.value_or(net::HttpResponse{});
    }
    // A request nobody waits for; its status when it has come.
    struct Pending {
        std::unique_ptr<net::HttpExchange> exchange;
        int status{0};
    };
    std::unique_ptr<Pending> begin(const std::string& token) {
        auto pending = std::make_unique<Pending>();
        net::HttpRequest request;
        request.target = "/metrics";
        request.headers.emplace_back("Authorization", "Bearer " + token);
        pending->exchange =
            listener->send(std::move(request), [raw = pending.get()](const auto& result) {
                raw->status = result ? result.value().status : -1;
            });
        loop.run_for(10ms);
        return pending;
    }
    int metrics_with(const std::string& token) { return get("/metrics", token).status; }

    VirtualLoop loop;
    ReviewServer server;
    LocalTransport api{loop, server.handler()};
    kube::Client client{loop, api, kube::ClientOptions{"api", "test", nullptr, nullptr}};
    obs::LogCapture log;
    OpsAuth auth{loop, client, obs::Log(loop, log.sink(), {}), [] { return 0.0; }};
    obs::Health health;
    obs::Metrics metrics;
    net::ServerHandler handler;
    std::optional<LocalTransport> listener;
    std::optional<int> status;
    int asked{0};
};

TEST_F(Ops, ServesTheFormThatIsAskedFor) {
    const auto plain = get("/metrics");
    EXPECT_EQ(plain.status, 200);
    EXPECT_EQ(net::find_header(plain.headers, "content-type"),
              "text/plain; version=0.0.4; charset=utf-8");
    EXPECT_EQ(net::find_header(plain.headers, "x-content-type-options"), "nosniff");
    const auto open = get("/metrics", "", "application/openmetrics-text;version=1.0.0");
    EXPECT_EQ(net::find_header(open.headers, "content-type"),
              "application/openmetrics-text; version=1.0.0; charset=utf-8");
    EXPECT_TRUE(open.body.ends_with("# EOF\n"));
}

TEST_F(Ops, WithoutAuthenticationOnlyDebugIsKeptFromOthers) {
    EXPECT_EQ(get("/debug").status, 200);
    open(false, false);
    EXPECT_EQ(get("/metrics").status, 200);
    const auto refused = get("/debug");
    EXPECT_EQ(refused.status, 403);
    EXPECT_NE(refused.body.find("listeners.ops.authentication: kubernetes"), std::string::npos);
    EXPECT_EQ(get("/nothing").status, 404);
}

TEST_F(Ops, ProbesStayOpen) {
    open(true, true);
    EXPECT_EQ(get("/healthz").status, 200);
    EXPECT_EQ(get("/livez").body, "ok");
    EXPECT_EQ(get("/readyz").status, 500);
    EXPECT_EQ(get("/readyz/store").status, 500);
    EXPECT_EQ(get("/readyz/unknown").status, 404);
    EXPECT_EQ(get("/readyz?exclude=store").body, "ok");
    EXPECT_EQ(get("/readyz?verbose&exclude=store").body,
              "[+]store excluded: ok\nreadyz check passed\n");
    EXPECT_EQ(asked, 0) << "nobody was asked who it is";
}

TEST_F(Ops, DebugIsATextAndOnDemandJson) {
    EXPECT_EQ(get("/debug").body, "capstan 1.2.3, ready: true\n");
    EXPECT_EQ(get("/debug?format=json").body,
              "{\n  \"version\": \"1.2.3\",\n  \"ready\": true\n}\n");
    EXPECT_EQ(net::find_header(get("/debug", "", "application/json").headers, "content-type"),
              "application/json");
}

TEST_F(Ops, AsksForATokenAndTheRightToReadThePath) {
    open(true, false);
    const auto nobody = get("/metrics");
    EXPECT_EQ(nobody.status, 401);
    EXPECT_EQ(net::find_header(nobody.headers, "www-authenticate"), "Bearer");
    EXPECT_EQ(metrics_with("Basic good"), 401);
    EXPECT_EQ(asked, 0);
    EXPECT_EQ(metrics_with("Bearer wrong"), 401);
    EXPECT_EQ(metrics_with("Bearer good"), 200);
    EXPECT_EQ(metrics_with("bearer good"), 200);
    const json::View spec = json::View(server.last_access)["spec"];
    EXPECT_EQ(spec["user"].string_or(""), "scraper");
    EXPECT_EQ(spec["groups"][0].string_or(""), "monitors");
    EXPECT_EQ(spec["nonResourceAttributes"]["path"].string_or(""), "/metrics");
    EXPECT_EQ(spec["nonResourceAttributes"]["verb"].string_or(""), "get");
    const auto refused = get("/debug", "Bearer poor");
    EXPECT_EQ(refused.status, 403);
    EXPECT_EQ(refused.body, "user \"nobody\" may not get the non-resource URL /debug\n");
    EXPECT_EQ(get("/debug", "Bearer good").status, 200) << "on any address";
}

TEST_F(Ops, KeepsAnswersForTheirTime) {
    open(true, false);
    EXPECT_EQ(metrics_with("Bearer good"), 200);
    loop.run_for(59s);
    EXPECT_EQ(metrics_with("Bearer good"), 200);
    EXPECT_EQ(server.tokens, 1);
    EXPECT_EQ(server.accesses, 1);
    loop.run_for(2s);
    EXPECT_EQ(metrics_with("Bearer good"), 200);
    EXPECT_EQ(server.tokens, 2) << "a token is reviewed every minute";
    EXPECT_EQ(server.accesses, 1) << "a permission holds for five";
    loop.run_for(5min);
    EXPECT_EQ(metrics_with("Bearer good"), 200);
    EXPECT_EQ(server.accesses, 2);
    EXPECT_EQ(metrics_with("Bearer poor"), 403);
    loop.run_for(29s);
    EXPECT_EQ(metrics_with("Bearer poor"), 403);
    EXPECT_EQ(server.accesses, 3);
    loop.run_for(2s);
    EXPECT_EQ(metrics_with("Bearer poor"), 403);
    EXPECT_EQ(server.accesses, 4) << "a refusal for half a minute";
}

TEST_F(Ops, AsksOnceInAFewSecondsAboutATokenNobodyKnows) {
    open(true, false);
    for (int i = 0; i < 5; ++i) {
        EXPECT_EQ(metrics_with("Bearer wrong"), 401);
    }
    EXPECT_EQ(server.tokens, 1);
    loop.run_for(kUnknownTokenTtl);
    EXPECT_EQ(metrics_with("Bearer wrong"), 401);
    EXPECT_EQ(server.tokens, 2);
}

TEST_F(Ops, EqualRequestsShareOneReview) {
    open(true, false);
    server.holds = true;
    std::vector<std::unique_ptr<Pending>> pending;
    for (std::size_t i = 0; i < kSharersMax; ++i) {
        pending.push_back(begin("good"));
    }
    EXPECT_EQ(server.tokens, 1);
    const auto beyond = begin("good");
    EXPECT_EQ(beyond->status, 429);
    server.release();
    loop.run_for(1s);
    for (const auto& one : pending) {
        EXPECT_EQ(one->status, 200);
    }
    EXPECT_EQ(server.accesses, 1);
}

// Kind: who may not ask keeps others from it.
TEST_F(Ops, AFloodOfBogusTokensStarvesNobody) {
    open(true, false);
    EXPECT_EQ(metrics_with("Bearer good"), 200);
    loop.run_for(kTokenTtl - 5s);
    server.holds = true;
    std::vector<std::unique_ptr<Pending>> flood;
    for (std::size_t i = 0; i < kReviewsInFlight; ++i) {
        flood.push_back(begin("bogus-" + std::to_string(i)));
        EXPECT_EQ(flood.back()->status, 0);
    }
    EXPECT_EQ(begin("bogus-one-more")->status, 429);
    EXPECT_EQ(server.tokens, 1 + static_cast<int>(kReviewsInFlight)) << "no more are asked about";
    EXPECT_EQ(metrics_with("Bearer good"), 200) << "what is known needs no review";
    loop.run_for(6s);  // it is to be reviewed again
    server.holds = false;
    EXPECT_EQ(metrics_with("Bearer good"), 200) << "who was good has places of its own";
    EXPECT_EQ(begin("bogus-yet-another")->status, 429);
    EXPECT_EQ(net::find_header(get("/metrics", "Bearer bogus-the-last").headers, "retry-after"),
              "1");
}

TEST_F(Ops, RepeatsAReviewThatFailsAndThenSaysSo) {
    open(true, false);
    status = 503;
    const MonotonicTime before = loop.now();
    EXPECT_EQ(metrics_with("Bearer good"), 500);
    EXPECT_EQ(asked, kReviewTries);
    EXPECT_GE(loop.now() - before, 4s) << "0.5 s, then half as long again each time";
    status = 403;
    asked = 0;
    EXPECT_EQ(metrics_with("Bearer good"), 500) << "the operator itself may not ask";
    EXPECT_EQ(asked, 1);
    status.reset();
    server.garbage = true;
    EXPECT_EQ(metrics_with("Bearer good"), 500);
    server.garbage = false;
    EXPECT_EQ(metrics_with("Bearer good"), 200) << "failures are not kept";
}

TEST_F(Ops, KeepsNoMoreThanItsLimit) {
    open(true, false);
    for (std::size_t i = 0; i < kReviewsKept + 10; ++i) {
        EXPECT_EQ(metrics_with("Bearer many" + std::to_string(i)), 200);
        loop.run_for(1ms);
    }
    EXPECT_EQ(metrics_with("Bearer many" + std::to_string(kReviewsKept + 9)), 200);
    EXPECT_EQ(server.tokens, static_cast<int>(kReviewsKept) + 10);
    EXPECT_EQ(metrics_with("Bearer many0"), 200);
    EXPECT_EQ(server.tokens, static_cast<int>(kReviewsKept) + 11) << "the oldest is gone";
    EXPECT_EQ(metrics_with("Bearer " + std::string(kTokenBytesMax + 1, 'x')), 401);
}

TEST(CacheBudgetTest, SaysWhichKindsAreLargeUntilThereIsRoomAgain) {
    VirtualLoop loop;
    obs::Metrics metrics;
    obs::Health health;
    obs::LogCapture log;
    constexpr std::size_t kMib = 1024u * 1024;
    std::size_t pods = 5 * kMib;
    const auto states = [&] {
        CacheBudget::States out(2);
        out[0].first.gvk = {"", "v1", "Pod"};
        out[0].second.bytes = pods;
        out[1].first.gvk = {"apps", "v1", "StatefulSet"};
        out[1].second.bytes = 4 * kMib;
        return out;
    };
    const CacheBudget budget(
        loop, metrics, health, obs::Log(loop, log.sink(), {}), 10 * kMib, states);
    EXPECT_TRUE(health.is_ready());
    pods = 7 * kMib;
    loop.run_for(kBudgetPeriod);
    ASSERT_EQ(health.reasons().size(), 1u);
    EXPECT_EQ(health.reasons()[0],
              "cache-budget: the caches hold 11 MiB, limits.cacheBytes is 10 MiB; most: v1/Pod 7 "
              "MiB, apps/v1/StatefulSet 4 MiB");
    EXPECT_NE(metrics.render().find("capstan_cache_over_budget 1\n"), std::string::npos);
    loop.run_for(10 * kBudgetPeriod);
    EXPECT_EQ(log.count("above their budget"), 1u) << "said once";
    pods = 6 * kMib;
    loop.run_for(kBudgetPeriod);
    EXPECT_FALSE(health.is_ready()) << "at the border it does not flap";
    pods = 5 * kMib;
    loop.run_for(kBudgetPeriod);
    EXPECT_TRUE(health.is_ready());
}

struct LoopbackRow {
    const char* address;
    bool expected;
};

TEST(Loopback, IsKnownByItsAddress) {
    for (const auto& [address, expected] : {LoopbackRow{"127.0.0.1", true},
                                            LoopbackRow{"127.1.2.3", true},
                                            LoopbackRow{"::1", true},
                                            LoopbackRow{"0.0.0.0", false},
                                            LoopbackRow{"::", false},
                                            LoopbackRow{"10.0.0.1", false}}) {
        EXPECT_EQ(is_loopback(address), expected) << address;
    }
}

TEST(DebugText, ShowsTablesAndNothingATerminalObeys) {
    const json::Value key = {{"key", "ns/a"},
                             {"state", "backoff"},
                             {"failures", 7},
                             {"ageSeconds", 303.4},
                             {"lastError", "the store\n\x1b[31mis down"}};
    const json::Value controller = {
        {"controller", "demo/main"}, {"ready", 0}, {"keys", json::list({key})}};
    const json::Value plugin = {{"plugin", "demo.example.io"},
                                {"phase", "running"},
                                {"controllers", json::list({controller})}};
    const json::Value page = {{"version", "1.2.3"},
                              {"ready", false},
                              {"notReady", json::list({"plugin/x: is starting"})},
                              {"plugins", json::list({plugin})}};
    const std::string text = debug_text(page);
    EXPECT_EQ(text.find("capstan 1.2.3, ready: false\n  plugin/x: is starting\n\nPLUGINS\n"), 0u)
        << text;
    EXPECT_NE(text.find("CONTROLLER  KEY   STATE    FAILURES   AGE  NEXT-RUN"), std::string::npos)
        << text;
    EXPECT_NE(text.find("demo/main   ns/a  backoff         7  5m3s"), std::string::npos) << text;
    EXPECT_NE(text.find("the store  [31mis down"), std::string::npos) << text;
    EXPECT_EQ(text.find('\x1b'), std::string::npos);
    EXPECT_EQ(debug_text(json::object()), "capstan -, ready: -\n");
}

}  // namespace
}  // namespace capstan::cli
