// capstan.http/1 as a plugin sees it: against a real server on loopback.
#include "capstan/plugin.hpp"
#include "runtime/net/http_server.hpp"
#include "runtime/net/pki.hpp"
#include "test/live/live_world.hpp"

#include <gtest/gtest.h>

#include <mutex>
#include <optional>
#include <vector>

namespace capstan::test {
namespace {

using namespace std::chrono_literals;

using Exchange = std::shared_ptr<net::ServerExchange>;

net::Validity validity() {
    const auto now =
        std::chrono::time_point_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now());
    return {now - 1h, now + 24h};
}

class LiveHttp : public ::testing::Test {
protected:
    LiveHttp() {
        world.reconcile = [this](capstan_call* call, const capstan_request* request) {
            return busy ? busy(call, request) : CAPSTAN_OK;
        };
        world.boot();
    }

    // Answers with method, target, the header "x-ask" and the body; "/held" is kept, "/piece" gets
    // its head and one "a" and is kept.
    void serve(net::HttpServerOptions options = {}) {
        server =
            net::make_http_server(*world.loop, std::move(options), [this](const Exchange& e) {
                if (e->target() == "/held" || e->target() == "/piece") {
                    e->on_closed([this] { ++closed; });
                    held.push_back(e);
                }
                if (e->target() == "/piece") {
                    e->start(200, {});
                    e->write("a", [](const Result<void>&) {});
                } else if (e->target() != "/held") {
                    e->read_all(1024 * 1024, [e](Result<std::string> body) {
                        if (body) {
                            e->respond(201,
                                       {{"X-Answer", "one"}, {"X-Answer", "two"}},
                                       e->method() + " " + e->target() + " " +
                                           std::string(net::find_header(e->headers(), "x-ask")) +
                                           " " + body.value());
                        }
                    });
                }
            }).value();
    }
    json::Value request(const std::string& target, json::Value extra = {}) {
        const std::string scheme = json::View(extra)["tls"].present() ? "https" : "http";
        json::Value out = {
            {"url", scheme + "://127.0.0.1:" + std::to_string(server->port()) + target}};
        for (const json::Member& member : json::View(extra).object()) {
            out.set(member.key, member.value);
        }
        return out;
    }
    capstan_rc open(capstan_call* call,
                    const json::Value& wanted,
                    capstan_http** x,
                    std::int64_t body = 0) {
        return world.http->open(call, to_str(json::dump(wanted)), body, x);
    }
    capstan_rc read(capstan_http* x, std::string& out, std::uint64_t until = CAPSTAN_NEVER) {
        char buffer[3];  // smaller than what comes
        std::uint64_t n = 0;
        const capstan_rc rc = world.http->read(x, buffer, sizeof buffer, until, &n);
        out.append(buffer, n);
        return n == 0 ? rc : (rc == CAPSTAN_OK ? CAPSTAN_PENDING : rc);  // PENDING: there is more
    }
    std::uint64_t soon() { return static_cast<std::uint64_t>((world.loop->now() + 30ms).count()); }

    LiveWorld::Reconcile busy;  // set while nothing runs
    LiveWorld world;
    std::vector<Exchange> held;
    int closed{0};
    std::unique_ptr<net::HttpServer> server;
};

struct Answer {
    capstan_rc head{CAPSTAN_E_INTERNAL};
    std::int32_t status{0};
    std::string headers, body, error;
};

TEST_F(LiveHttp, RequestWithABodyOfKnownAndOfUnknownLength) {
    serve();
    for (const std::int64_t length : {std::int64_t{5}, std::int64_t{-1}}) {
        Answer got;
        ASSERT_TRUE(world.on_worker([&](capstan_call* call) {
            capstan_http* x = nullptr;
            const json::Value wanted =
                request("/p?q=1", {{"method", "POST"}, {"headers", {{"X-Ask", "why"}}}});
            ASSERT_EQ(open(call, wanted, &x, length), CAPSTAN_OK) << world.last_error(call);
            EXPECT_EQ(world.http->write(x, to_str("he")), CAPSTAN_OK);
            EXPECT_EQ(world.http->write(x, to_str("llo")), CAPSTAN_OK);
            capstan_str headers{};
            got.head = world.http->await_head(x, &got.status, &headers);
            got.headers = std::string(view_of(headers));
            while (read(x, got.body) == CAPSTAN_PENDING) {
            }
            world.http->close(x);
        }));
        EXPECT_EQ(got.head, CAPSTAN_OK);
        EXPECT_EQ(got.status, 201);
        EXPECT_NE(got.headers.find(R"("x-answer":"one, two")"), std::string::npos) << got.headers;
        EXPECT_EQ(got.body, "POST /p?q=1 why hello");
    }
}

TEST_F(LiveHttp, HeadThatDoesNotComeIsADeadline) {
    serve();
    Answer got;
    ASSERT_TRUE(world.on_worker([&](capstan_call* call) {
        capstan_http* x = nullptr;
        ASSERT_EQ(open(call, request("/held", {{"timeoutMs", 50}}), &x), CAPSTAN_OK);
        capstan_str headers{};
        got.head = world.http->await_head(x, &got.status, &headers);
        got.error = world.last_error(call);
        world.http->close(x);
    }));
    EXPECT_EQ(got.head, CAPSTAN_E_DEADLINE);
    EXPECT_NE(got.error.find("timeout"), std::string::npos) << got.error;
    EXPECT_TRUE(world.until([&] { return closed == 1; })) << "the connection is not left open";
}

TEST_F(LiveHttp, ReadPastItsTimeLeavesTheExchangeOpen) {
    serve();
    std::vector<capstan_rc> codes;
    std::string body;
    ASSERT_TRUE(world.on_worker([&](capstan_call* call) {
        capstan_http* x = nullptr;
        ASSERT_EQ(open(call, request("/piece"), &x), CAPSTAN_OK);
        codes.push_back(read(x, body));
        codes.push_back(read(x, body, soon()));
        world.loop->post([this] {
            held.front()->write("b", [](const Result<void>&) {});
            held.front()->end();
        });
        codes.push_back(read(x, body));
        codes.push_back(read(x, body));
        world.http->close(x);
    }));
    EXPECT_EQ(codes,
              (std::vector<capstan_rc>{
                  CAPSTAN_PENDING, CAPSTAN_E_DEADLINE, CAPSTAN_PENDING, CAPSTAN_OK}));
    EXPECT_EQ(body, "ab");
}

TEST_F(LiveHttp, StopCancelsAWaitForTheHead) {
    serve();
    std::optional<capstan_rc> head;
    const StopFirst end(world);
    world.start_on_worker([&](capstan_call* call) {
        capstan_http* x = nullptr;
        ASSERT_EQ(open(call, request("/held"), &x), CAPSTAN_OK);
        std::int32_t status = 0;
        capstan_str headers{};
        head = world.http->await_head(x, &status, &headers);
        world.http->close(x);
    });
    ASSERT_TRUE(world.until([&] { return !held.empty(); }));
    EXPECT_TRUE(world.stop()) << "a wait in a host call does not hold up the end";
    EXPECT_EQ(head, CAPSTAN_E_CANCELLED);
    EXPECT_TRUE(world.until([&] { return closed == 1; }));
}

TEST_F(LiveHttp, TlsFailureIsToldInWords) {
    const net::KeyPair ca = net::make_ca("test ca", validity()).value();
    const net::KeyPair other = net::make_ca("other ca", validity()).value();
    const net::KeyPair pair =
        net::issue_certificate(
            ca, {.common_name = "s", .ip_addresses = {"127.0.0.1"}, .server = true}, validity())
            .value();
    net::HttpServerOptions options;
    options.certificate_pem = pair.certificate_pem;
    options.key_pem = pair.key_pem;
    serve(std::move(options));
    const auto ask = [&](json::Value tls) {
        Answer got;
        EXPECT_TRUE(world.on_worker([&](capstan_call* call) {
            capstan_http* x = nullptr;
            ASSERT_EQ(open(call, request("/", {{"tls", std::move(tls)}}), &x), CAPSTAN_OK);
            capstan_str headers{};
            got.head = world.http->await_head(x, &got.status, &headers);
            got.error = world.last_error(call);
            world.http->close(x);
        }));
        return got;
    };
    const Answer stranger = ask({{"caPem", other.certificate_pem}});
    EXPECT_EQ(stranger.head, CAPSTAN_E_UNAVAIL);
    EXPECT_NE(stranger.error.find("certificate verify failed"), std::string::npos)
        << stranger.error;
    EXPECT_NE(stranger.error.find("127.0.0.1:" + std::to_string(server->port())), std::string::npos)
        << stranger.error;
    const Answer misnamed = ask({{"caPem", ca.certificate_pem}, {"serverName", "wrong.test"}});
    EXPECT_NE(misnamed.error.find("hostname mismatch"), std::string::npos) << misnamed.error;
    EXPECT_EQ(ask({{"caPem", ca.certificate_pem}}).status, 201);
    EXPECT_EQ(ask({{"insecure", true}}).status, 201);
}

TEST_F(LiveHttp, RefusedConnectionNamesTheEndpoint) {
    serve();
    const json::Value wanted = request("/");
    const std::string port = std::to_string(server->port());
    server.reset();
    Answer got;
    ASSERT_TRUE(world.on_worker([&](capstan_call* call) {
        capstan_http* x = nullptr;
        ASSERT_EQ(open(call, wanted, &x), CAPSTAN_OK);
        capstan_str headers{};
        got.head = world.http->await_head(x, &got.status, &headers);
        got.error = world.last_error(call);
        world.http->close(x);
    }));
    EXPECT_EQ(got.head, CAPSTAN_E_UNAVAIL);
    EXPECT_NE(got.error.find(port), std::string::npos) << got.error;
    EXPECT_NE(got.error.find("refused"), std::string::npos) << got.error;
}

TEST_F(LiveHttp, ExchangeLeftOpenEndsWithItsCall) {
    serve();
    capstan_http* left = nullptr;
    ASSERT_TRUE(world.on_worker([&](capstan_call* call) {
        ASSERT_EQ(open(call, request("/piece"), &left), CAPSTAN_OK);
        std::int32_t status = 0;
        capstan_str headers{};
        EXPECT_EQ(world.http->await_head(left, &status, &headers), CAPSTAN_OK);
        EXPECT_EQ(status, 200);
    }));
    EXPECT_TRUE(world.until([&] { return closed == 1; })) << "the host closes it";
    std::vector<capstan_rc> codes;
    ASSERT_TRUE(world.on_worker([&](capstan_call*) {
        std::string body;
        codes.push_back(read(left, body));
        codes.push_back(world.http->write(left, to_str("x")));
        world.http->close(left);
        codes.push_back(read(nullptr, body));
    }));
    EXPECT_EQ(codes,
              (std::vector<capstan_rc>{CAPSTAN_E_FENCED, CAPSTAN_E_FENCED, CAPSTAN_E_FENCED}));
}

TEST_F(LiveHttp, MoreOrLessBodyThanAnnouncedIsRefused) {
    serve();
    std::vector<capstan_rc> codes;
    ASSERT_TRUE(world.on_worker([&](capstan_call* call) {
        capstan_http* x = nullptr;
        ASSERT_EQ(open(call, request("/", {{"method", "PUT"}}), &x, 3), CAPSTAN_OK);
        codes.push_back(world.http->write(x, to_str("four")));
        codes.push_back(world.http->write(x, to_str("tw")));
        std::int32_t status = 0;
        capstan_str headers{};
        codes.push_back(world.http->await_head(x, &status, &headers));
        codes.push_back(world.http->write(x, to_str("o")));
        codes.push_back(world.http->await_head(x, &status, &headers));
        EXPECT_EQ(status, 201);
        codes.push_back(world.http->write(x, to_str("more")));
        world.http->close(x);
    }));
    EXPECT_EQ(codes,
              (std::vector<capstan_rc>{CAPSTAN_E_INVALID,
                                       CAPSTAN_OK,
                                       CAPSTAN_E_INVALID,
                                       CAPSTAN_OK,
                                       CAPSTAN_OK,
                                       CAPSTAN_E_INVALID}));
}

TEST_F(LiveHttp, MalformedRequestsAreNotSent) {
    std::vector<capstan_rc> codes;
    ASSERT_TRUE(world.on_worker([&](capstan_call* call) {
        for (const char* bad : {"no JSON",
                                "{}",
                                R"({"url":"127.0.0.1/x"})",
                                R"({"url":"unix:///run/x.sock"})",
                                R"({"url":"ftp://127.0.0.1/"})",
                                R"({"url":"http://127.0.0.1/","headers":{"a":1}})",
                                R"({"url":"https://127.0.0.1/","tls":{"caPem":"no PEM"}})"}) {
            capstan_http* x = nullptr;
            codes.push_back(world.http->open(call, to_str(bad), 0, &x));
            EXPECT_EQ(x, nullptr) << bad;
        }
    }));
    EXPECT_EQ(codes, std::vector<capstan_rc>(7, CAPSTAN_E_INVALID));
}

// Four workers at once over one pool of connections.
TEST_F(LiveHttp, WorkersShareTheClientsOfTheHost) {
    serve();
    std::mutex mutex;  // guards both
    int good = 0;
    std::string first_bad;
    const StopFirst end(world);
    busy = [&](capstan_call* call, const capstan_request*) {
        capstan_http* x = nullptr;
        std::int32_t status = 0;
        capstan_str headers{};
        std::string body;
        capstan_rc rc = open(call, request("/many"), &x);
        rc = rc == CAPSTAN_OK ? world.http->await_head(x, &status, &headers) : rc;
        while (rc == CAPSTAN_OK && read(x, body) == CAPSTAN_PENDING) {
        }
        world.http->close(x);
        {
            const std::lock_guard lock(mutex);
            good += status == 201 && body == "GET /many  " ? 1 : 0;
            first_bad = first_bad.empty() && status != 201 ? world.last_error(call) : first_bad;
        }
        world.wake();
        return CAPSTAN_OK;
    };
    for (int i = 0; i < 40; ++i) {
        world.put_config_map("many-" + std::to_string(i));
    }
    EXPECT_TRUE(world.until([&] {
        const std::lock_guard lock(mutex);
        return good == 40;
    })) << good
        << " " << first_bad;
}

}  // namespace
}  // namespace capstan::test
