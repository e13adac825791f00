// HttpClient::set_tls and what is said about certificates that are refused.
#include "runtime/net/http_client.hpp"
#include "runtime/net/http_server.hpp"
#include "runtime/net/pki.hpp"
#include "runtime/net/test_peers.hpp"

#include <gtest/gtest.h>

#include <optional>

namespace capstan::net {
namespace {

using namespace std::chrono_literals;
using testing::kLimit;

class RotationTest : public ::testing::Test {
protected:
    RotationTest() {
        HttpServerOptions options;
        options.certificate_pem = first.certificate_pem;
        options.key_pem = first.key_pem;
        options.client_ca_pem = old_ca.certificate_pem;
        options.client_auth = ClientAuth::request;
        server =
            make_http_server(*loop, std::move(options), [this](const auto& exchange) {
                callers.push_back(exchange->certificate_common_name() + " " + exchange->remote());
                if (exchange->target() == "/stream") {
                    exchange->start(200, {});
                    stream = exchange;
                } else {
                    exchange->respond(200, {}, "hi");
                }
            }).value();
        options_.endpoint = "https://127.0.0.1:" + std::to_string(server->port());
        options_.tls.ca_pem = old_ca.certificate_pem;
    }
    Validity validity(std::chrono::nanoseconds from = -1h, std::chrono::nanoseconds to = 24h) {
        return {loop->wall_now() + from, loop->wall_now() + to};
    }
    KeyPair serving(const KeyPair& ca, const Validity& valid) {
        return issue_certificate(
                   ca,
                   {.common_name = "server", .ip_addresses = {"127.0.0.1"}, .server = true},
                   valid)
            .value();
    }
    KeyPair caller(const std::string& name) {
        return issue_certificate(old_ca, {.common_name = name, .client = true}, validity()).value();
    }
    void present(TlsClientOptions& tls, const std::string& name) {
        const KeyPair pair = caller(name);
        tls.certificate_pem = pair.certificate_pem;
        tls.key_pem = pair.key_pem;
    }
    Result<HttpResponse> get(HttpClient& client) {
        std::optional<Result<HttpResponse>> answer;
        HttpRequest request;
        request.target = "/";
        const auto exchange = client.send(
            std::move(request), [&](Result<HttpResponse> r) { answer.emplace(std::move(r)); });
        return loop->run_until([&] { return answer.has_value(); }, kLimit)
                   ? std::move(*answer)
                   : fail(Code::internal, "the test hangs");
    }
    std::string who() const { return callers.back().substr(0, callers.back().find(' ')); }

    const std::unique_ptr<IoLoop> loop{make_loop()};
    const KeyPair old_ca{make_ca("old ca", validity()).value()};
    const KeyPair new_ca{make_ca("new ca", validity()).value()};
    const KeyPair first{serving(old_ca, validity())};
    std::unique_ptr<HttpServer> server;
    HttpClientOptions options_;
    std::vector<std::string> callers;  // "common-name 127.0.0.1:port"
    std::shared_ptr<ServerExchange> stream;
};

TEST_F(RotationTest, NewConnectionsShowTheNewIdentityAndStreamsGoOn) {
    present(options_.tls, "one");
    const auto client = make_http_client(*loop, options_).value();
    std::string got;
    bool ended = false;
    std::unique_ptr<HttpStream> watch;
    StreamHandler handler;
    handler.on_head = [&](int, const Headers&) { watch->read(); };
    handler.on_data = [&](std::string_view bytes) {
        got += bytes;
        watch->read();
    };
    handler.on_end = [&](const Result<void>&) { ended = true; };
    HttpRequest request;
    request.target = "/stream";
    watch = client->stream(std::move(request), {}, std::move(handler));
    ASSERT_TRUE(loop->run_until([&] { return stream != nullptr; }, kLimit));
    ASSERT_TRUE(get(*client));
    EXPECT_EQ(who(), "one");
    present(options_.tls, "two");
    ASSERT_TRUE(client->set_tls(options_.tls));
    ASSERT_TRUE(get(*client));
    EXPECT_EQ(who(), "two") << "the idle connection of the old identity must not be used";
    stream->write("still here", [](const Result<void>&) {});
    ASSERT_TRUE(loop->run_until([&] { return got == "still here"; }, kLimit));
    EXPECT_FALSE(ended);
    stream->end();
    ASSERT_TRUE(loop->run_until([&] { return ended; }, kLimit));
    const std::size_t before = callers.size();
    ASSERT_TRUE(get(*client));
    EXPECT_EQ(callers.size(), before + 1);
    EXPECT_EQ(who(), "two") << "the connection of the stream is not kept";
}

TEST_F(RotationTest, BadPemChangesNothing) {
    const auto client = make_http_client(*loop, options_).value();
    ASSERT_TRUE(get(*client));
    auto broken = options_.tls;
    broken.ca_pem = "-----BEGIN CERTIFICATE-----\nnothing\n-----END CERTIFICATE-----\n";
    EXPECT_EQ(client->set_tls(broken).error().code, Code::invalid);
    EXPECT_TRUE(get(*client));
    EXPECT_EQ(callers[0], callers[1]) << "the connection is still in use";
    const auto plain = make_http_client(*loop, {.endpoint = "http://127.0.0.1:1"}).value();
    EXPECT_EQ(plain->set_tls(options_.tls).error().code, Code::unsupported);
}

TEST_F(RotationTest, ANewAuthorityCostsNoRequest) {
    const KeyPair next = serving(new_ca, validity());
    int asked = 0;
    std::unique_ptr<HttpClient> client;
    options_.idle_connections_max = 0;
    options_.on_untrusted = [&] {
        ++asked;
        options_.tls.ca_pem = new_ca.certificate_pem;
        return client->set_tls(options_.tls).has_value();
    };
    client = make_http_client(*loop, options_).value();
    ASSERT_TRUE(get(*client));
    ASSERT_TRUE(server->set_certificate(next.certificate_pem, next.key_pem));
    const auto answer = get(*client);
    EXPECT_TRUE(answer) << answer.error().message;
    EXPECT_EQ(asked, 1);
}

TEST_F(RotationTest, AsksOnceForOtherRoots) {
    const KeyPair next = serving(new_ca, validity());
    ASSERT_TRUE(server->set_certificate(next.certificate_pem, next.key_pem));
    int asked = 0;
    options_.on_untrusted = [&] {
        ++asked;
        return true;
    };
    const auto client = make_http_client(*loop, options_).value();
    const auto answer = get(*client);
    ASSERT_FALSE(answer);
    EXPECT_EQ(asked, 1);
    EXPECT_TRUE(answer.error().message.ends_with(
        "TLS: certificate verify failed: unable to get local issuer certificate: signed by "
        "\"new ca\", which is not among the trusted CAs"))
        << answer.error().message;
}

TEST_F(RotationTest, SaysWhatTheClocksSay) {
    struct Row {
        Validity valid;
        const char* text;
    };
    for (const Row& row : {Row{validity(1h, 2h), "certificate is not yet valid (valid from "},
                           Row{validity(-2h, -1h), "certificate has expired (valid until "}}) {
        const KeyPair pair = serving(old_ca, row.valid);
        ASSERT_TRUE(server->set_certificate(pair.certificate_pem, pair.key_pem));
        const auto answer = get(*make_http_client(*loop, options_).value());
        ASSERT_FALSE(answer);
        EXPECT_NE(answer.error().message.find(row.text), std::string::npos)
            << answer.error().message;
        EXPECT_NE(answer.error().message.find(", the local clock says 2"), std::string::npos);
    }
}

TEST_F(RotationTest, SaysWhomTheCertificateIsFor) {
    options_.tls.server_name = "api.test";
    const auto answer = get(*make_http_client(*loop, options_).value());
    ASSERT_FALSE(answer);
    EXPECT_TRUE(answer.error().message.ends_with(
        "hostname mismatch: asked for api.test, the certificate is for 127.0.0.1"))
        << answer.error().message;
}

}  // namespace
}  // namespace capstan::net
