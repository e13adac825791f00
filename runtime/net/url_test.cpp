#include "runtime/net/url.hpp"

#include "runtime/net/http.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace capstan::net {
namespace {

TEST(Url, EncodesEverythingButUnreserved) {
    EXPECT_EQ(encode_segment("a-b_c.d~e/f g%h\xc3\xa9"), "a-b_c.d~e%2Ff%20g%25h%C3%A9");
    EXPECT_EQ(encode_query_value("a=1&b,c in (d)"), "a%3D1%26b%2Cc%20in%20%28d%29");
}

TEST(Url, DecodesWhatItEncodes) {
    std::string all;
    for (int c = 1; c < 256; ++c) {
        all += static_cast<char>(c);
    }
    EXPECT_EQ(decode_segment(encode_segment(all)).value(), all);
    EXPECT_EQ(decode_query_value(encode_query_value(all)).value(), all);
    EXPECT_EQ(decode_segment("a+b%2fc").value(), "a+b/c");
    EXPECT_EQ(decode_query_value("a+b%2fc").value(), "a b/c");
}

TEST(Url, RefusesMalformedEscapes) {
    const std::vector<std::string> malformed = {
        "%", "%a", "%zz", "a%", "%00", "%1", "%G1", std::string("a\0", 2)};
    for (const std::string& text : malformed) {
        EXPECT_FALSE(decode_segment(text)) << text;
        EXPECT_FALSE(parse_query("k=" + text)) << text;
    }
}

TEST(Url, ParsesQueries) {
    const Query query = parse_query("watch&labelSelector=a%3Db&x=1&x=2&&e=").value();
    const Query expected{
        {"watch", ""}, {"labelSelector", "a=b"}, {"x", "1"}, {"x", "2"}, {"e", ""}};
    EXPECT_EQ(query, expected);
    EXPECT_TRUE(has_query(query, "watch"));
    EXPECT_FALSE(has_query(query, "w"));
    EXPECT_EQ(find_query(query, "x"), "1");
    EXPECT_EQ(build_query(query), "watch=&labelSelector=a%3Db&x=1&x=2&e=");
}

TEST(Url, SplitsTargets) {
    const Target target = parse_target("/api/v1/pods?limit=5#frag").value();
    EXPECT_EQ(target.path, "/api/v1/pods");
    EXPECT_EQ(find_query(target.query, "limit"), "5");
    EXPECT_FALSE(parse_target("http://x/"));
    EXPECT_FALSE(parse_target("*"));
    EXPECT_FALSE(parse_target(""));
}

struct EndpointRow {
    const char* name;
    const char* text;
    bool ok;
    Scheme scheme;
    const char* host;
    std::uint16_t port;
};

class EndpointRule : public ::testing::TestWithParam<EndpointRow> {};

TEST_P(EndpointRule, Holds) {
    const auto& row = GetParam();
    const auto endpoint = parse_endpoint(row.text);
    ASSERT_EQ(static_cast<bool>(endpoint), row.ok) << row.text;
    if (!row.ok) {
        return;
    }
    EXPECT_EQ(endpoint.value().scheme, row.scheme);
    EXPECT_EQ(endpoint.value().host, row.host);
    EXPECT_EQ(endpoint.value().port, row.port);
}

INSTANTIATE_TEST_SUITE_P(
    All,
    EndpointRule,
    ::testing::Values(
        EndpointRow{"https_port", "https://10.0.0.1:6443", true, Scheme::https, "10.0.0.1", 6443},
        EndpointRow{"https_default",
                    "https://api.example.com/",
                    true,
                    Scheme::https,
                    "api.example.com",
                    443},
        EndpointRow{"http_default", "http://db", true, Scheme::http, "db", 80},
        EndpointRow{"ipv6", "https://[::1]:6443", true, Scheme::https, "::1", 6443},
        EndpointRow{"unix_path", "unix:///run/x.sock", true, Scheme::unix_socket, "/run/x.sock", 0},
        EndpointRow{"unix_relative", "unix://x.sock", false, {}, "", 0},
        EndpointRow{"no_scheme", "127.0.0.1:80", false, {}, "", 0},
        EndpointRow{"path", "https://a/b", false, {}, "", 0},
        EndpointRow{"port_zero", "http://a:0", false, {}, "", 0},
        EndpointRow{"port_big", "http://a:70000", false, {}, "", 0},
        EndpointRow{"port_text", "http://a:x", false, {}, "", 0},
        EndpointRow{"no_host", "http://", false, {}, "", 0},
        EndpointRow{"user", "http://u@h", false, {}, "", 0},
        EndpointRow{"bare_ipv6", "http://::1", false, {}, "", 0}),
    [](const auto& row_info) { return row_info.param.name; });

TEST(Url, KnowsAddresses) {
    EXPECT_TRUE(is_ip_address("127.0.0.1"));
    EXPECT_TRUE(is_ip_address("fe80::1"));
    EXPECT_FALSE(is_ip_address("localhost"));
    EXPECT_FALSE(is_ip_address("1.2.3"));
    EXPECT_EQ(join_host_port("::1", 1), "[::1]:1");
    EXPECT_EQ(join_host_port("a", 1), "a:1");
}

TEST(Headers, FindsNamesWithoutCase) {
    const Headers headers{{"Content-Type", "a"}, {"X", "b"}};
    EXPECT_EQ(find_header(headers, "content-type"), "a");
    EXPECT_EQ(find_header(headers, "y"), "");
}

}  // namespace
}  // namespace capstan::net
