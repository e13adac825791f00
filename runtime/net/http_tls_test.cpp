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

using Exchange = std::shared_ptr<ServerExchange>;

class TlsTest : public ::testing::Test {
protected:
    static Validity validity() {
        const auto now = std::chrono::time_point_cast<std::chrono::nanoseconds>(
            std::chrono::system_clock::now());
        return {now - 1h, now + 24h};
    }
    static KeyPair issue(const KeyPair& ca, const CertificateOptions& options) {
        return issue_certificate(ca, options, validity()).value();
    }

    HttpServerOptions server_options() const {
        HttpServerOptions options;
        options.certificate_pem = server_pair.certificate_pem;
        options.key_pem = server_pair.key_pem;
        return options;
    }
    void serve(HttpServerOptions options) {
        server = make_http_server(*loop, std::move(options), [this](const Exchange& e) {
                     common_name = e->certificate_common_name();
                     organizations = e->certificate_organizations();
                     over_tls = e->over_tls();
                     certified = e->certified();
                     e->read_all(64u * 1024 * 1024, [e](Result<std::string> body) {
                         if (body) {
                             e->respond(200, {}, body.value());
                         }
                     });
                 }).value();
    }
    HttpClientOptions client_options(const std::string& host = "127.0.0.1") const {
        HttpClientOptions options;
        options.endpoint = "https://" + join_host_port(host, server->port());
        options.tls.ca_pem = ca.certificate_pem;
        return options;
    }
    Result<HttpResponse> post(HttpClient& client, std::string body) {
        std::optional<Result<HttpResponse>> answer;
        HttpRequest request;
        request.method = "POST";
        request.target = "/";
        request.body = std::move(body);
        const auto exchange = client.send(
            std::move(request), [&](Result<HttpResponse> r) { answer.emplace(std::move(r)); });
        if (!loop->run_until([&] { return answer.has_value(); }, kLimit)) {
            return fail(Code::internal, "the test hangs");
        }
        return std::move(*answer);
    }
    Result<HttpResponse> post(const HttpClientOptions& options, std::string body = "hi") {
        const auto client = make_http_client(*loop, options).value();
        return post(*client, std::move(body));
    }

    static std::string join_host_port(const std::string& host, std::uint16_t port) {
        return host + ":" + std::to_string(port);
    }

    const std::unique_ptr<IoLoop> loop{make_loop()};
    const KeyPair ca{make_ca("test ca", validity()).value()};
    const KeyPair server_pair{issue(ca,
                                    {.common_name = "server",
                                     .dns_names = {"localhost", "api.test"},
                                     .ip_addresses = {"127.0.0.1"},
                                     .server = true})};
    std::unique_ptr<HttpServer> server;
    std::string common_name;
    std::vector<std::string> organizations;
    bool over_tls{false}, certified{false};
};

TEST_F(TlsTest, VerifiesAddressesAndNames) {
    serve(server_options());
    const auto by_address = post(client_options());
    ASSERT_TRUE(by_address) << by_address.error().message;
    EXPECT_EQ(by_address.value().body, "hi");
    const auto by_name = post(client_options("localhost"));
    ASSERT_TRUE(by_name) << by_name.error().message;
    auto other = client_options();
    other.tls.server_name = "api.test";
    EXPECT_TRUE(post(other));
    EXPECT_EQ(common_name, "");
}

struct RefusedRow {
    const char* name;
    const char* host;
    const char* server_name;
    bool own_ca;
    const char* text;
};

class TlsRefused : public TlsTest, public ::testing::WithParamInterface<RefusedRow> {};

TEST_P(TlsRefused, SaysWhy) {
    serve(server_options());
    auto options = client_options(GetParam().host);
    options.tls.server_name = GetParam().server_name;
    if (GetParam().own_ca) {
        options.tls.ca_pem = make_ca("other ca", validity()).value().certificate_pem;
    }
    const auto answer = post(options);
    ASSERT_FALSE(answer);
    EXPECT_EQ(answer.error().code, Code::unavailable);
    EXPECT_NE(answer.error().message.find("TLS: certificate verify failed: "), std::string::npos)
        << answer.error().message;
    EXPECT_NE(answer.error().message.find(GetParam().text), std::string::npos)
        << answer.error().message;
    options.tls.insecure = true;
    EXPECT_TRUE(post(options)) << "insecure means no verification at all";
}

INSTANTIATE_TEST_SUITE_P(
    All,
    TlsRefused,
    ::testing::Values(
        RefusedRow{"other_ca", "127.0.0.1", "", true, "unable to get local issuer certificate"},
        RefusedRow{"other_name", "127.0.0.1", "wrong.test", false, "hostname mismatch"},
        RefusedRow{"common_name_only", "127.0.0.1", "server", false, "hostname mismatch"},
        RefusedRow{"other_address", "127.0.0.1", "127.0.0.2", false, "IP address mismatch"}),
    [](const auto& row_info) { return row_info.param.name; });

TEST_F(TlsTest, RefusesExpiredCertificates) {
    const auto now =
        std::chrono::time_point_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now());
    const KeyPair old =
        issue_certificate(ca,
                          {.common_name = "s", .ip_addresses = {"127.0.0.1"}, .server = true},
                          {now - 48h, now - 24h})
            .value();
    auto options = server_options();
    options.certificate_pem = old.certificate_pem;
    options.key_pem = old.key_pem;
    serve(options);
    EXPECT_NE(post(client_options()).error().message.find("certificate has expired"),
              std::string::npos);
}

TEST_F(TlsTest, ShowsTheSubjectOfClientCertificates) {
    auto options = server_options();
    options.client_ca_pem = ca.certificate_pem;
    options.client_auth = ClientAuth::request;
    serve(options);
    ASSERT_TRUE(post(client_options())) << "a certificate is only asked for";
    EXPECT_EQ(common_name, "");
    EXPECT_TRUE(over_tls && !certified);
    const KeyPair pair = issue(
        ca, {.common_name = "admin", .organizations = {"system:masters", "ops"}, .client = true});
    auto client = client_options();
    client.tls.certificate_pem = pair.certificate_pem;
    client.tls.key_pem = pair.key_pem;
    ASSERT_TRUE(post(client));
    EXPECT_EQ(common_name, "admin");
    EXPECT_TRUE(over_tls && certified);
    EXPECT_EQ(organizations, (std::vector<std::string>{"system:masters", "ops"}));
    const KeyPair foreign_ca = make_ca("foreign", validity()).value();
    const KeyPair foreign = issue(
        foreign_ca, {.common_name = "admin", .organizations = {"system:masters"}, .client = true});
    client.tls.certificate_pem = foreign.certificate_pem;
    client.tls.key_pem = foreign.key_pem;
    common_name.clear();
    EXPECT_FALSE(post(client));
    EXPECT_EQ(common_name, "");
}

TEST_F(TlsTest, RequiresClientCertificates) {
    auto options = server_options();
    options.client_ca_pem = ca.certificate_pem;
    options.client_auth = ClientAuth::require;
    serve(options);
    const auto without = post(client_options());
    ASSERT_FALSE(without);
    EXPECT_NE(without.error().message.find("certificate required"), std::string::npos)
        << without.error().message;
    const KeyPair pair = issue(ca, {.common_name = "c", .client = true});
    auto client = client_options();
    client.tls.certificate_pem = pair.certificate_pem;
    client.tls.key_pem = pair.key_pem;
    EXPECT_TRUE(post(client));
    const KeyPair wrong_usage = issue(ca, {.common_name = "c", .server = true});
    client.tls.certificate_pem = wrong_usage.certificate_pem;
    client.tls.key_pem = wrong_usage.key_pem;
    EXPECT_FALSE(post(client)) << "a server's certificate is no client's";
}

TEST_F(TlsTest, ResumesSessionsAndKeepsTheSubject) {
    auto options = server_options();
    options.client_ca_pem = ca.certificate_pem;
    options.client_auth = ClientAuth::require;
    serve(options);
    const KeyPair pair = issue(ca, {.common_name = "again", .client = true});
    auto with_pair = client_options();
    with_pair.tls.certificate_pem = pair.certificate_pem;
    with_pair.tls.key_pem = pair.key_pem;
    with_pair.idle_connections_max = 0;  // every request connects
    const auto client = make_http_client(*loop, with_pair).value();
    for (int i = 0; i < 3; ++i) {
        common_name.clear();
        ASSERT_TRUE(post(*client, "x")) << i;
        EXPECT_EQ(common_name, "again") << i;
    }
}

TEST_F(TlsTest, SwapsCertificatesWhileRunning) {
    serve(server_options());
    const auto running = make_http_client(*loop, client_options()).value();
    ASSERT_TRUE(post(*running, "1"));
    const KeyPair new_ca = make_ca("new ca", validity()).value();
    const KeyPair pair =
        issue(new_ca, {.common_name = "s", .ip_addresses = {"127.0.0.1"}, .server = true});
    EXPECT_EQ(server->set_certificate("nonsense", pair.key_pem).error().code, Code::invalid);
    EXPECT_EQ(server->set_certificate(pair.certificate_pem, server_pair.key_pem).error().code,
              Code::invalid);
    EXPECT_TRUE(post(client_options())) << "the old pair stays";
    ASSERT_TRUE(server->set_certificate(pair.certificate_pem, pair.key_pem));
    EXPECT_TRUE(post(*running, "2")) << "running connections go on";
    EXPECT_FALSE(post(client_options()));
    auto with_new = client_options();
    with_new.tls.ca_pem = new_ca.certificate_pem;
    EXPECT_TRUE(post(with_new));
    with_new.tls.ca_pem = ca.certificate_pem + new_ca.certificate_pem;
    EXPECT_TRUE(post(with_new)) << "a bundle trusts each of its authorities";
}

TEST_F(TlsTest, CarriesLargeBodiesBothWays) {
    serve(server_options());
    std::string body(10u * 1024 * 1024, 'x');
    for (std::size_t i = 0; i < body.size(); i += 4099) {
        body[i] = static_cast<char>(i);
    }
    const auto answer = post(client_options(), body);
    ASSERT_TRUE(answer) << answer.error().message;
    EXPECT_TRUE(answer.value().body == body);
}

TEST_F(TlsTest, SaysWhenThePeerSpeaksNoTls) {
    serve({});
    const auto answer = post(client_options());
    ASSERT_FALSE(answer);
    EXPECT_NE(answer.error().message.find(": TLS: "), std::string::npos) << answer.error().message;
}

TEST_F(TlsTest, CancelsDuringTheHandshake) {
    testing::RawServer silent([](testing::RawConnection& c, int) { c.read_rest(); });
    HttpClientOptions options;
    options.endpoint = "https://127.0.0.1:" + std::to_string(silent.port());
    options.connect_timeout = 30ms;
    const auto answer = post(options);
    EXPECT_NE(answer.error().message.find("TLS: no answer within 30 ms"), std::string::npos)
        << answer.error().message;
    EXPECT_EQ(answer.error().code, Code::unavailable) << "nothing was sent";
    options.connect_timeout = 10s;
    int calls = 0;
    auto client = make_http_client(*loop, options).value();
    auto exchange = client->send({}, [&](Result<HttpResponse>) { ++calls; });
    loop->run_until([] { return false; }, 20ms);
    exchange.reset();
    loop->run_until([] { return false; }, 5ms);
    EXPECT_EQ(calls, 0);
}

TEST_F(TlsTest, ClosesOnSlowHandshakes) {
    auto options = server_options();
    options.head_timeout = 20ms;
    serve(options);
    testing::RawClient client(*loop, server->port());
    client.send("\x16\x03\x01");
    EXPECT_TRUE(client.expect_end());
}

TEST_F(TlsTest, RefusesBadOptions) {
    auto options = server_options();
    options.key_pem = ca.key_pem;
    const auto mismatch = make_http_server(*loop, options, nullptr);
    ASSERT_FALSE(mismatch);
    EXPECT_NE(mismatch.error().message.find("do not match"), std::string::npos)
        << mismatch.error().message;
    options = server_options();
    options.client_auth = ClientAuth::require;
    EXPECT_EQ(make_http_server(*loop, options, nullptr).error().code, Code::invalid);
}

}  // namespace
}  // namespace capstan::net
