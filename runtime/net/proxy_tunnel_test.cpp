#include "runtime/net/http_client.hpp"
#include "runtime/net/http_server.hpp"
#include "runtime/net/pki.hpp"
#include "runtime/net/test_peers.hpp"
#include "runtime/net/test_proxy.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>

namespace capstan::net {
namespace {

using namespace std::chrono_literals;
using testing::FakeProxy;
using testing::FakeProxyOptions;
using testing::kLimit;
using testing::RawConnection;
using testing::RawServer;

class TunnelTest : public ::testing::Test {
protected:
    static Validity validity() {
        const auto now = std::chrono::time_point_cast<std::chrono::nanoseconds>(
            std::chrono::system_clock::now());
        return {now - 1h, now + 24h};
    }
    KeyPair issue(const std::string& name, const std::string& address) const {
        CertificateOptions options;
        options.common_name = name;
        options.dns_names = {name};
        if (!address.empty()) {
            options.ip_addresses = {address};
        }
        options.server = true;
        return issue_certificate(ca, options, validity()).value();
    }
    void serve() {
        const KeyPair pair = issue("api.test", "");
        HttpServerOptions options;
        options.certificate_pem = pair.certificate_pem;
        options.key_pem = pair.key_pem;
        server = make_http_server(*loop, options, [](const std::shared_ptr<ServerExchange>& e) {
                     e->read_all(1u << 20, [e](Result<std::string> body) {
                         if (body) {
                             e->respond(200, {}, std::move(body).value());
                         }
                     });
                 }).value();
    }
    FakeProxyOptions proxy_options(ProxyKind kind) const {
        FakeProxyOptions options;
        options.kind = kind;
        options.target = server ? server->port() : std::uint16_t{0};
        if (kind == ProxyKind::https) {
            options.pair = issue("proxy", "127.0.0.1");
        }
        return options;
    }
    HttpClientOptions client_options(const std::string& proxy) const {
        HttpClientOptions options;
        options.endpoint = "https://api.test:6443";
        options.tls.ca_pem = ca.certificate_pem;
        options.proxy = proxy;
        return options;
    }
    Result<HttpResponse> post(HttpClient& client, std::string body) {
        std::optional<Result<HttpResponse>> answer;
        HttpRequest request;
        request.method = "POST";
        request.target = "/echo";
        request.body = std::move(body);
        const auto exchange = client.send(
            std::move(request), [&](Result<HttpResponse> r) { answer.emplace(std::move(r)); });
        return loop->run_until([&] { return answer.has_value(); }, kLimit)
                   ? std::move(*answer)
                   : fail(Code::internal, "the test hangs");
    }
    Result<HttpResponse> post(const HttpClientOptions& options) {
        return post(*make_http_client(*loop, options).value(), "hi");
    }
    // What a failed request says, without what all of them say.
    std::string problem(const HttpClientOptions& options) {
        const auto answer = post(options);
        if (answer) {
            return "no problem";
        }
        EXPECT_EQ(answer.error().code, Code::unavailable);
        const std::string& text = answer.error().message;
        EXPECT_EQ(text.find("secret"), std::string::npos) << text;
        EXPECT_EQ(text.find(encode_base64("me:secret")), std::string::npos) << text;
        const std::string context = "POST https://api.test:6443/echo: ";
        EXPECT_TRUE(text.starts_with(context)) << text;
        return text.substr(std::min(context.size(), text.size()));
    }

    const std::unique_ptr<IoLoop> loop{make_loop()};
    const KeyPair ca{make_ca("test ca", validity()).value()};
    std::unique_ptr<HttpServer> server;
};

struct WayRow {
    const char* name;
    const char* scheme;
    ProxyKind kind;
    const char* login;
    bool slow;
    std::string_view asked;
};

class Ways : public TunnelTest, public ::testing::WithParamInterface<WayRow> {};

TEST_P(Ways, LeadToTheServer) {
    serve();
    FakeProxyOptions options = proxy_options(GetParam().kind);
    options.login = GetParam().login;
    options.slow = GetParam().slow;
    FakeProxy proxy(*loop, options);
    const std::string login = options.login.empty() ? "" : options.login + "@";
    const auto client = make_http_client(
        *loop, client_options(std::string(GetParam().scheme) + "://" + login + proxy.where()));
    ASSERT_TRUE(client) << client.error().message;
    const std::string large(300'000, 'x');
    for (const std::string& body : {std::string("hi"), large}) {
        const auto answer = post(*client.value(), body);
        ASSERT_TRUE(answer) << answer.error().message;
        EXPECT_TRUE(answer.value().body == body);
    }
    EXPECT_EQ(proxy.accepted(), 1u);
    EXPECT_NE(proxy.asked.find(GetParam().asked), std::string::npos) << proxy.asked;
}

INSTANTIATE_TEST_SUITE_P(
    Rows,
    Ways,
    ::testing::Values(
        WayRow{"http", "http", ProxyKind::http, "", true, "CONNECT api.test:6443"},
        WayRow{"https", "https", ProxyKind::https, "", false, "CONNECT api.test:6443"},
        WayRow{"https_slow", "HTTPS", ProxyKind::https, "me:secret", true, "Basic bWU6c2VjcmV0"},
        WayRow{"socks5", "socks5", ProxyKind::socks5, "", false, "\10api.test\x19\x2b"},
        WayRow{"socks5_slow", "socks5h", ProxyKind::socks5, "me:secret", true, "\6secret"}),
    [](const auto& row_info) { return row_info.param.name; });

TEST_F(TunnelTest, NamesTheProxyThatCannotBeReached) {
    std::string where;
    {
        FakeProxy gone(*loop, {});
        where = gone.where();
    }
    for (const char* scheme : {"http", "https", "socks5"}) {
        const std::string text =
            problem(client_options(std::string(scheme) + "://me:secret@" + where));
        EXPECT_EQ(text, "proxy: " + where + ": connect: Connection refused");
    }
}

TEST_F(TunnelTest, TheProxysCertificateIsChecked) {
    serve();
    FakeProxyOptions options = proxy_options(ProxyKind::https);
    FakeProxy proxy(*loop, options);
    const std::string url = "https://me:secret@" + proxy.where();
    auto client = client_options(url);
    client.tls.ca_pem = make_ca("other ca", validity()).value().certificate_pem;
    const std::string failed = "proxy: " + proxy.where() + ": TLS: certificate verify failed: ";
    EXPECT_EQ(problem(client),
              failed +
                  "unable to get local issuer certificate: signed by \"test ca\", which is "
                  "not among the trusted CAs");
    client.tls.ca_pem.clear();
    client.tls.insecure = true;  // says nothing about the proxy
    EXPECT_EQ(problem(client).find(failed), 0u);
    EXPECT_EQ(proxy.asked, "") << "the password must not be sent";

    options.pair = issue("proxy.test", "");
    FakeProxy other(*loop, options);
    EXPECT_EQ(problem(client_options("https://" + other.where())),
              "proxy: " + other.where() +
                  ": TLS: certificate verify failed: IP address mismatch: asked for 127.0.0.1, "
                  "the certificate is for proxy.test");
}

TEST_F(TunnelTest, AProxyIsTrustedByTheSystemsStore) {
    serve();
    FakeProxy proxy(*loop, proxy_options(ProxyKind::https));
    const auto store = std::filesystem::path(::testing::TempDir()) /
                       ("capstan-store-" + std::to_string(::getpid()) + ".pem");
    std::ofstream(store) << ca.certificate_pem;
    ::setenv("SSL_CERT_FILE", store.c_str(), 1);
    auto options = client_options("https://" + proxy.where());
    options.tls.ca_pem = make_ca("other ca", validity()).value().certificate_pem;
    const std::string text = problem(options);
    ::unsetenv("SSL_CERT_FILE");
    std::filesystem::remove(store);
    EXPECT_EQ(text.find("TLS: certificate verify failed"), 0u) << "only the server's: " << text;
}

TEST_F(TunnelTest, OtherRootsCountForTheProxyToo) {
    serve();
    FakeProxy proxy(*loop, proxy_options(ProxyKind::https));
    auto options = client_options("https://" + proxy.where());
    const TlsClientOptions right = options.tls;
    options.tls.ca_pem = make_ca("other ca", validity()).value().certificate_pem;
    HttpClient* late = nullptr;
    int refused = 0;
    options.on_untrusted = [&] {
        ++refused;
        return late->set_tls(right).has_value();
    };
    const auto client = make_http_client(*loop, options).value();
    late = client.get();
    const auto answer = post(*client, "hi");
    ASSERT_TRUE(answer) << answer.error().message;
    EXPECT_EQ(refused, 1);
}

TEST_F(TunnelTest, TheServersCertificateIsCheckedInside) {
    serve();
    FakeProxy proxy(*loop, proxy_options(ProxyKind::https));
    auto options = client_options("https://" + proxy.where());
    options.tls.server_name = "other.test";
    EXPECT_EQ(problem(options).find("TLS: certificate verify failed: hostname mismatch: asked for "
                                    "other.test, the certificate is for api.test"),
              0u);
}

TEST_F(TunnelTest, ProxiesOfAnotherKindAreSaid) {
    serve();
    RawServer web([](RawConnection& peer, int) {
        peer.read_until("\5");
        peer.send("HTTP/1.1 400 Bad Request\r\n\r\n");
    });
    const std::string at = "127.0.0.1:" + std::to_string(web.port());
    EXPECT_EQ(problem(client_options("socks5://me:secret@" + at)),
              "proxy: " + at + ": does not answer as a SOCKS5 proxy");
    RawServer talker([](RawConnection& peer, int) { peer.send("220 mail.test\r\n"); });
    const std::string mail = "127.0.0.1:" + std::to_string(talker.port());
    EXPECT_EQ(problem(client_options("https://" + mail)),
              "proxy: " + mail + ": TLS: wrong version number");
}

TEST_F(TunnelTest, AWrongPasswordAndAClosedDoorAreSaid) {
    serve();
    FakeProxyOptions options = proxy_options(ProxyKind::socks5);
    options.login = "me:other";
    FakeProxy proxy(*loop, options);
    EXPECT_EQ(problem(client_options("socks5://me:secret@" + proxy.where())),
              "proxy: " + proxy.where() + ": the proxy refuses: wrong user or password");
    RawServer door([](RawConnection& peer, int) { peer.read_until("\2"); });
    const std::string at = "127.0.0.1:" + std::to_string(door.port());
    EXPECT_EQ(problem(client_options("socks5://me:secret@" + at)),
              "proxy: " + at + ": closed the connection");
}

TEST_F(TunnelTest, ASilentProxyIsNamedAfterTheTimeOut) {
    RawServer silent([](RawConnection& peer, int) { peer.read_rest(); });
    const std::string at = "127.0.0.1:" + std::to_string(silent.port());
    for (const auto& [scheme, phase] :
         {std::pair{"http", ""}, {"socks5", ""}, {"https", "TLS: "}}) {
        auto options = client_options(std::string(scheme) + "://" + at);
        options.connect_timeout = 20ms;
        EXPECT_EQ(problem(options), "proxy: " + at + ": " + phase + "no answer within 20 ms");
    }
}

TEST_F(TunnelTest, CancellingLeavesTheProxy) {
    std::atomic<int> left{0};
    RawServer silent([&](RawConnection& peer, int) {
        peer.read_rest();
        ++left;
        loop->post([] {});  // wakes who waits for `left`
    });
    const std::string at = "127.0.0.1:" + std::to_string(silent.port());
    for (const int round : {1, 2, 3}) {
        const char* scheme = round == 1 ? "http://" : round == 2 ? "socks5://" : "https://";
        const auto client = make_http_client(*loop, client_options(scheme + at)).value();
        bool called = false;
        auto exchange = client->send({}, [&](const Result<HttpResponse>&) { called = true; });
        ASSERT_TRUE(loop->run_until([&] { return silent.accepted() == round; }, kLimit));
        exchange.reset();
        EXPECT_TRUE(loop->run_until([&] { return left == round; }, kLimit));
        EXPECT_FALSE(called);
    }
}

}  // namespace
}  // namespace capstan::net
