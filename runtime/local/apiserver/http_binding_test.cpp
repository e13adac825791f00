// The server behind exchanges: authentication, chunked watches, ends, backlog, the tick
// timer. In virtual time.
#include "runtime/local/apiserver/http_binding.hpp"
#include "runtime/local/apiserver/testing_server.hpp"
#include "test/fakes/local_transport.hpp"
#include "test/fakes/virtual_loop.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <utility>

namespace capstan::local {
namespace {

using testing_server::kMaps;
constexpr const char* kToken = "0123456789abcdef0123";

class Http : public testing::Test {
protected:
    Http() {
        server = ApiServer::create(loop, {}).assume_value();
        EXPECT_TRUE(authenticator.set_token(kToken, {"admin", {"system:masters"}}));
        open({});
    }
    void open(HttpBindingOptions options) {
        binding.reset();
        binding = std::make_unique<HttpBinding>(loop, *server, authenticator, std::move(options));
        client = std::make_unique<test::LocalTransport>(loop, binding->handler());
    }
    net::HttpRequest request(std::string method,
                             std::string target,
                             std::string body = {},
                             std::string token = kToken) {
        net::HttpRequest out;
        out.method = std::move(method);
        out.target = std::move(target);
        out.body = std::move(body);
        out.headers = {{"Content-Type", "application/json"}, {"User-Agent", "curl/8"}};
        if (!token.empty()) {
            out.headers.emplace_back("Authorization", "Bearer " + token);
        }
        return out;
    }
    net::HttpResponse call(net::HttpRequest sent) {
        net::HttpResponse response;
        const auto exchange = client->send(std::move(sent), [&](Result<net::HttpResponse> got) {
            EXPECT_TRUE(got) << got.error().message;
            if (got) {
                response = std::move(got).assume_value();
            }
        });
        loop.run_ready();
        return response;
    }
    net::HttpResponse make(const std::string& name, const std::string& data = R"({"k":"v"})") {
        return call(request(
            "POST", kMaps, R"({"metadata":{"name":")" + name + R"("},"data":)" + data + "}"));
    }

    struct Stream {
        std::unique_ptr<net::HttpStream> stream;
        int status{0};
        std::string body;
        bool ended{false};
    };
    void watch(Stream& into, const std::string& query = "") {
        into.stream = client->stream(request("GET", std::string(kMaps) + "?watch=true" + query),
                                     {},
                                     {[&](int status, const net::Headers&) {
                                          into.status = status;
                                          into.stream->read();
                                      },
                                      [&](std::string_view bytes) {
                                          into.body += bytes;
                                          into.stream->read();
                                      },
                                      [&](Result<void>) { into.ended = true; }});
        loop.run_ready();
    }

    test::VirtualLoop loop;
    std::unique_ptr<ApiServer> server;
    Authenticator authenticator;
    std::unique_ptr<HttpBinding> binding;
    std::unique_ptr<test::LocalTransport> client;
};

TEST_F(Http, AnswersAndAuthenticates) {
    EXPECT_EQ(make("a").status, 201);
    const net::HttpResponse got = call(request("GET", std::string(kMaps) + "/a"));
    EXPECT_EQ(got.status, 200);
    EXPECT_EQ(got.headers.front().second, "application/json");
    EXPECT_NE(got.body.find(R"("manager":"curl")"), std::string::npos);
    EXPECT_EQ(call(request("GET", kMaps, "", "0000000000000000")).status, 401);
    EXPECT_EQ(call(request("GET", kMaps, "", "")).status, 403);
    EXPECT_EQ(call(request("GET", "/readyz", "", "")).status, 200);
}

TEST_F(Http, CertificatesNameTheUser) {
    client = std::make_unique<test::LocalTransport>(
        loop,
        binding->handler(),
        test::LocalTransportOptions{.certificate_common_name = "boss",
                                    .certificate_organizations = {"system:masters"}});
    EXPECT_EQ(call(request("GET", kMaps, "", "")).status, 200);
}

TEST_F(Http, WatchesStreamUntilTheirTimeout) {
    make("a");
    Stream seen;
    watch(seen, "&timeoutSeconds=30");
    EXPECT_EQ(seen.status, 200);
    EXPECT_NE(seen.body.find(R"({"type":"ADDED")"), std::string::npos);
    make("b");
    EXPECT_EQ(std::count(seen.body.begin(), seen.body.end(), '\n'), 2);
    EXPECT_FALSE(seen.ended);
    loop.run_for(std::chrono::seconds(31));
    EXPECT_TRUE(seen.ended);
}

TEST_F(Http, RefusedWatchesAreAnswersOfTheirOwn) {
    Stream seen;
    watch(seen, "&resourceVersion=1");
    EXPECT_EQ(seen.status, 410);
    EXPECT_NE(seen.body.find("too old resource version"), std::string::npos);
}

// An exchange whose peer reads nothing: writes stay unfinished until the test lets one through.
class StuckExchange final : public net::ServerExchange {
public:
    StuckExchange(std::string target, net::Headers headers)
        : target_(std::move(target)), headers_(std::move(headers)) {}
    const std::string& method() const noexcept override { return method_; }
    const std::string& target() const noexcept override { return target_; }
    const net::Headers& headers() const noexcept override { return headers_; }
    const std::string& remote() const noexcept override { return empty_; }
    const std::string& certificate_common_name() const noexcept override { return empty_; }
    const std::vector<std::string>& certificate_organizations() const noexcept override {
        return none_;
    }
    void read(std::size_t, std::function<void(Result<std::string>)>) override {}
    void read_all(std::size_t, std::function<void(Result<std::string>)>) override {}
    void respond(int, net::Headers, std::string) override {}
    void start(int, net::Headers) override {}
    void write(std::string bytes, std::function<void(Result<void>)> done) override {
        EXPECT_FALSE(done_) << "two writes at once";
        written += bytes;
        done_ = std::move(done);
    }
    void end() override { ended = true; }
    void on_closed(std::function<void()>) override {}
    void finish_write() { std::exchange(done_, nullptr)(ok()); }

    std::string written;
    bool ended{false};

private:
    std::string method_{"GET"};
    std::string target_;
    net::Headers headers_;
    std::string empty_;
    std::vector<std::string> none_;
    std::function<void(Result<void>)> done_;
};

TEST_F(Http, ReadersThatFallBehindAreCutOff) {
    open({.watch_backlog_bytes_max = 20'000});
    const auto exchange = std::make_shared<StuckExchange>(
        std::string(kMaps) + "?watch=true",
        net::Headers{{"AUTHORIZATION", std::string("Bearer ") + kToken}});
    binding->handler()(exchange);
    make("first", R"({"k":"v"})");
    make("second", R"({"k":"v"})");
    exchange->finish_write();  // one write at a time, the next carries what gathered meanwhile
    EXPECT_EQ(std::count(exchange->written.begin(), exchange->written.end(), '\n'), 2);
    for (int i = 0; i < 10; ++i) {
        make("m" + std::to_string(i), R"({"k":")" + std::string(1000, 'x') + R"("})");
    }
    EXPECT_FALSE(exchange->ended);
    for (int i = 10; i < 40; ++i) {
        make("m" + std::to_string(i), R"({"k":")" + std::string(1000, 'x') + R"("})");
    }
    EXPECT_TRUE(exchange->ended);
    exchange->finish_write();
    EXPECT_EQ(std::count(exchange->written.begin(), exchange->written.end(), '\n'), 2);
}

TEST_F(Http, GarbageIsCollectedByTheTimer) {
    const net::HttpResponse owner = make("a");
    const json::Value object = json::parse(owner.body).assume_value();
    const std::string uid{json::View(object)["metadata"]["uid"].string_or("")};
    call(request(
        "POST",
        kMaps,
        R"({"metadata":{"name":"child","ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap",
        "name":"a","uid":")" +
            uid + R"("}]}})"));
    call(request("DELETE", std::string(kMaps) + "/a"));
    loop.run_ready();
    EXPECT_EQ(call(request("GET", std::string(kMaps) + "/child")).status, 404);
}

TEST_F(Http, ClosingTheStreamEndsTheWatch) {
    Stream seen;
    watch(seen);
    seen.stream.reset();
    loop.run_ready();
    EXPECT_EQ(make("a").status, 201);
    EXPECT_EQ(seen.body, "");
}

TEST_F(Http, ShutdownEndsStreamsAndRefusesTheRest) {
    Stream seen;
    watch(seen);
    binding.reset();
    loop.run_ready();
    EXPECT_TRUE(seen.ended);
    EXPECT_EQ(call(request("GET", "/readyz")).status, 503);
}

TEST(AuthenticatorTest, ReadsTokenFiles) {
    const std::string path = testing::TempDir() + "capstan-tokens";
    {
        std::ofstream out(path);
        out << "# comment\n0123456789abcdef,alice,1,\"one,two\"\nfedcba9876543210,bob,2\n";
    }
    Authenticator authenticator;
    const auto count = authenticator.load_tokens(path);
    ASSERT_TRUE(count) << count.error().message;
    EXPECT_EQ(count.value(), 2u);
    const auto alice = authenticator.authenticate("Bearer 0123456789abcdef", "", {});
    ASSERT_TRUE(alice);
    EXPECT_EQ(alice.value().name, "alice");
    EXPECT_EQ(alice.value().groups, (std::vector<std::string>{"one", "two"}));
    EXPECT_FALSE(authenticator.authenticate("Basic xyz", "", {}));
    {
        std::ofstream out(path);
        out << "short,alice,1\n";
    }
    EXPECT_NE(authenticator.load_tokens(path).error().message.find(":1: a token has"),
              std::string::npos);
    std::filesystem::remove(path);
}

}  // namespace
}  // namespace capstan::local
