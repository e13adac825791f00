#include "runtime/net/proxy.hpp"

#include "runtime/net/http_client.hpp"
#include "runtime/net/test_peers.hpp"

#include <gtest/gtest.h>

#include <map>
#include <optional>

namespace capstan::net {
namespace {

using testing::kLimit;
using testing::RawConnection;
using testing::RawServer;

struct ChoiceRow {
    const char* name;
    const char* endpoint;
    std::map<std::string, std::string> environment;
    const char* chosen;
};

class ProxyChoice : public ::testing::TestWithParam<ChoiceRow> {};

TEST_P(ProxyChoice, FollowsTheEnvironment) {
    const auto endpoint = parse_endpoint(GetParam().endpoint).value();
    const auto read = [](const std::string& name) -> std::optional<std::string> {
        const auto found = GetParam().environment.find(name);
        return found == GetParam().environment.end() ? std::nullopt : std::optional(found->second);
    };
    EXPECT_EQ(proxy_from_environment(endpoint, read), GetParam().chosen);
}

INSTANTIATE_TEST_SUITE_P(
    Rows,
    ProxyChoice,
    ::testing::Values(
        ChoiceRow{"none", "https://api.test", {}, ""},
        ChoiceRow{"https", "https://api.test", {{"HTTPS_PROXY", "http://p:1"}}, "http://p:1"},
        ChoiceRow{"small_letters_win",
                  "https://api.test",
                  {{"HTTPS_PROXY", "http://p:1"}, {"https_proxy", "q:2"}},
                  "http://q:2"},
        ChoiceRow{"http_is_for_http", "https://api.test", {{"HTTP_PROXY", "http://p:1"}}, ""},
        ChoiceRow{"loopback", "https://127.0.0.1:6443", {{"HTTPS_PROXY", "http://p:1"}}, ""},
        ChoiceRow{"star", "https://api.test", {{"HTTPS_PROXY", "p"}, {"NO_PROXY", "*"}}, ""},
        ChoiceRow{"domain_and_below",
                  "https://API.test",
                  {{"HTTPS_PROXY", "p"}, {"NO_PROXY", "x, test"}},
                  ""},
        ChoiceRow{"only_below",
                  "https://test",
                  {{"HTTPS_PROXY", "p"}, {"NO_PROXY", ".test"}},
                  "http://p"},
        ChoiceRow{"no_half_label",
                  "https://contest",
                  {{"HTTPS_PROXY", "p"}, {"NO_PROXY", "test"}},
                  "http://p"},
        ChoiceRow{"service",
                  "https://kubernetes.default.svc",
                  {{"HTTPS_PROXY", "p"}, {"no_proxy", ".svc"}},
                  ""},
        ChoiceRow{"range",
                  "https://10.96.0.1:443",
                  {{"HTTPS_PROXY", "p"}, {"NO_PROXY", "10.96.0.0/12"}},
                  ""},
        ChoiceRow{"other_range",
                  "https://10.112.0.1:443",
                  {{"HTTPS_PROXY", "p"}, {"NO_PROXY", "10.96.0.0/12"}},
                  "http://p"},
        ChoiceRow{
            "v6", "https://[fd00::1]:6443", {{"HTTPS_PROXY", "p"}, {"NO_PROXY", "fd00::/8"}}, ""},
        ChoiceRow{"other_port",
                  "https://api.test:6443",
                  {{"HTTPS_PROXY", "p"}, {"NO_PROXY", "api.test:443"}},
                  "http://p"},
        ChoiceRow{"same_port",
                  "https://[fd00::1]:6443",
                  {{"HTTPS_PROXY", "p"}, {"NO_PROXY", "[fd00::1]:6443"}},
                  ""}),
    [](const auto& row_info) { return row_info.param.name; });

TEST(Proxy, UrlsCarryCredentials) {
    const auto proxy = parse_proxy("http://me:p%40ss@proxy.test:3128");
    ASSERT_TRUE(proxy) << proxy.error().message;
    EXPECT_EQ(proxy.value().endpoint.host, "proxy.test");
    EXPECT_EQ(proxy.value().endpoint.port, 3128);
    ASSERT_TRUE(proxy.value().login);
    EXPECT_EQ(proxy.value().login->user, "me");
    EXPECT_EQ(proxy.value().login->password, "p@ss");
    EXPECT_FALSE(parse_proxy("http://p").value().login);
}

struct UrlRow {
    const char* url;
    ProxyKind kind;
    const char* where;
};

TEST(Proxy, UrlsHaveAKindAndAPort) {
    for (const UrlRow& row : {UrlRow{"http://p", ProxyKind::http, "p:80"},
                              UrlRow{"HTTPS://p/", ProxyKind::https, "p:443"},
                              UrlRow{"https://[::1]:8443", ProxyKind::https, "[::1]:8443"},
                              UrlRow{"socks5://p", ProxyKind::socks5, "p:1080"},
                              UrlRow{"socks5://u@p/", ProxyKind::socks5, "p:1080"},
                              UrlRow{"socks5h://[::1]", ProxyKind::socks5, "[::1]:1080"},
                              UrlRow{"socks5h://p:80", ProxyKind::socks5, "p:80"}}) {
        const auto proxy = parse_proxy(row.url);
        ASSERT_TRUE(proxy) << row.url << ": " << proxy.error().message;
        const Endpoint& at = proxy.value().endpoint;
        EXPECT_EQ(proxy.value().kind, row.kind) << row.url;
        EXPECT_EQ(join_host_port(at.host, at.port), row.where) << row.url;
        EXPECT_EQ(at.scheme == Scheme::https, row.kind == ProxyKind::https) << row.url;
    }
}

TEST(Proxy, MalformedUrlsAreNotQuoted) {
    const std::string form =
        "a proxy is SCHEME://[user:password@]host[:port]; there are http, https, socks5 and "
        "socks5h";
    for (const char* url : {"http://me:secret@:x",
                            "me:secret@p:1",
                            "ftp://me:secret@p",
                            "socks4://me:secret@p",
                            "socks5://me:secret@p/path",
                            "socks5://",
                            "socks5",
                            "http:/me:secret@p"}) {
        EXPECT_EQ(parse_proxy(url).error().message, form) << url;
    }
    EXPECT_EQ(parse_proxy("http://me:secret%zz@p").error().message,
              "user and password of a proxy are percent-encoded in its URL");
    const std::string size =
        "the user of a socks5 proxy has 1 to 255 bytes, its password at most 255";
    EXPECT_EQ(parse_proxy("socks5://:secret@p").error().message, size);
    EXPECT_EQ(parse_proxy("socks5://me:" + std::string(256, 'x') + "@p").error().message, size);
}

struct Asked {
    std::unique_ptr<IoLoop> loop{make_loop()};
    Result<HttpResponse> get(const HttpClientOptions& options) {
        auto client = make_http_client(*loop, options).value();
        std::optional<Result<HttpResponse>> answer;
        HttpRequest request;
        request.target = "/version";
        const auto exchange = client->send(
            std::move(request), [&](Result<HttpResponse> r) { answer.emplace(std::move(r)); });
        return loop->run_until([&] { return answer.has_value(); }, kLimit)
                   ? std::move(*answer)
                   : fail(Code::internal, "the test hangs");
    }
};

TEST(Proxy, TunnelsThroughConnect) {
    std::string asked;
    RawServer server([&](RawConnection& connection, int) {
        asked = connection.read_request();
        connection.send_byte_by_byte("HTTP/1.1 200 Connection established\r\nVia: x\r\n\r\n");
        asked += connection.read_request();
        connection.send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi");
    });
    HttpClientOptions options;
    options.endpoint = "http://api.test:6443";
    options.proxy = "http://me:secret@127.0.0.1:" + std::to_string(server.port());
    const auto answer = Asked().get(options);
    ASSERT_TRUE(answer) << answer.error().message;
    EXPECT_EQ(answer.value().body, "hi");
    EXPECT_TRUE(
        asked.starts_with("CONNECT api.test:6443 HTTP/1.1\r\nHost: api.test:6443\r\n"
                          "Proxy-Authorization: Basic bWU6c2VjcmV0\r\n\r\nGET /version"))
        << asked;
    EXPECT_EQ(asked.rfind("Proxy-Authorization"), asked.find("Proxy-Authorization"))
        << "the target must not see it";
}

struct RefusalRow {
    const char* name;
    const char* answer;
    const char* text;
};

class ProxyRefusal : public ::testing::TestWithParam<RefusalRow> {};

TEST_P(ProxyRefusal, IsSaidPlainly) {
    RawServer server([&](RawConnection& connection, int) {
        connection.read_request();
        connection.send(GetParam().answer);
    });
    HttpClientOptions options;
    options.endpoint = "https://api.test:6443";
    options.tls.insecure = true;
    options.proxy = "http://me:secret@127.0.0.1:" + std::to_string(server.port());
    const auto answer = Asked().get(options);
    ASSERT_FALSE(answer);
    EXPECT_EQ(answer.error().code, Code::unavailable);
    EXPECT_EQ(answer.error().message,
              "GET https://api.test:6443/version: proxy: 127.0.0.1:" +
                  std::to_string(server.port()) + ": " + GetParam().text);
}

INSTANTIATE_TEST_SUITE_P(
    Rows,
    ProxyRefusal,
    ::testing::Values(
        RefusalRow{"wants_credentials",
                   "HTTP/1.1 407 Proxy Authentication Required\r\n\r\n",
                   "the proxy refuses: 407 Proxy Authentication Required"},
        RefusalRow{"no_http", "SSH-2.0-x\r\n\r\n", "does not answer as an HTTP proxy"},
        RefusalRow{"silent", "", "closed the connection"},
        RefusalRow{"talks_first", "HTTP/1.1 200 OK\r\n\r\nhello", "sends more than its answer"}),
    [](const auto& row_info) { return row_info.param.name; });

}  // namespace
}  // namespace capstan::net
