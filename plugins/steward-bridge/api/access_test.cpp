#include "plugins/steward-bridge/api/access.hpp"

#include "plugins/steward-bridge/api/forward.hpp"
#include "plugins/steward-bridge/api/network_bytes.hpp"
#include "plugins/steward-bridge/files.hpp"

#include <gtest/gtest.h>

#include <filesystem>

namespace capstan::steward {
namespace {

constexpr const char* kOwn = "0123456789abcdef0123456789abcdef";
constexpr const char* kCluster = "fedcba9876543210fedcba9876543210";

class TokenFile {
public:
    TokenFile()
        : path_(::testing::TempDir() + "steward-token-" +
                std::to_string(reinterpret_cast<std::uintptr_t>(this))) {}
    ~TokenFile() { std::filesystem::remove(path_); }
    const std::string& path() const { return path_; }
    void write(std::string_view text) const { EXPECT_TRUE(write_file(path_, text)); }

private:
    const std::string path_;
};

struct Row {
    const char* name;
    RouteKind kind;
    bool tls, certified;
    const char* remote;
    std::string authorization;
    int status;  // 0: allowed
};

class AccessRows : public ::testing::TestWithParam<Row> {};

TEST_P(AccessRows, IsAllowedOrSaysWhy) {
    const TokenFile file;
    file.write(std::string(kCluster) + "\n");
    const Access access(kOwn, {file.path()});
    const Row& row = GetParam();
    const auto no = access.check(row.kind, {row.authorization, row.remote, row.tls, row.certified});
    EXPECT_EQ(no ? no->status : 0, row.status);
    if (no) {
        EXPECT_FALSE(no->reason.empty());
        EXPECT_GT(no->message.size(), 30u);
        EXPECT_EQ(no->message.find(kOwn), std::string::npos);
    }
}

constexpr const char* kNear = "127.0.0.1:4000";
constexpr const char* kFar = "10.1.2.3:4000";
const std::string kGood = std::string("Bearer ") + kOwn;
const std::string kGoodCluster = std::string("Bearer ") + kCluster;

INSTANTIATE_TEST_SUITE_P(
    Rows,
    AccessRows,
    ::testing::Values(
        Row{"open_is_open", RouteKind::open, false, false, kFar, "", 0},
        Row{"plain_from_afar", RouteKind::read, false, false, kFar, kGood, 403},
        Row{"plain_change_from_afar", RouteKind::change, false, false, kFar, kGood, 403},
        Row{"plain_without_token", RouteKind::change, false, false, kNear, "", 401},
        Row{"plain_read_without_token", RouteKind::read, false, false, kNear, "", 401},
        Row{"own_token", RouteKind::change, false, false, kNear, kGood, 0},
        Row{"cluster_token", RouteKind::change, false, false, kNear, kGoodCluster, 0},
        Row{"a_pod_s_loopback", RouteKind::change, false, false, "127.77.0.9:1", kGood, 0},
        Row{"launchers_socket", RouteKind::change, false, false, "unix", kGood, 0},
        Row{"launchers_socket_without_token", RouteKind::read, false, false, "unix", "", 401},
        Row{"ipv6_loopback", RouteKind::change, false, false, "[::1]:4000", kGood, 0},
        Row{"ipv6_from_afar", RouteKind::change, false, false, "[2001:db8::1]:4000", kGood, 403},
        Row{"wrong_token", RouteKind::change, false, false, kNear, kGood + "0", 401},
        Row{"prefix_of_token", RouteKind::change, false, false, kNear, kGood.substr(0, 20), 401},
        Row{"no_scheme", RouteKind::change, false, false, kNear, kOwn, 401},
        Row{"other_scheme",
            RouteKind::change,
            false,
            false,
            kNear,
            std::string("Basic ") + kOwn,
            401},
        Row{"empty_token", RouteKind::change, false, false, kNear, "Bearer ", 401},
        Row{"tls_certificate", RouteKind::change, true, true, kFar, "", 0},
        Row{"tls_without_certificate", RouteKind::change, true, false, kFar, "", 401},
        Row{"tls_read_without_certificate", RouteKind::read, true, false, kFar, "", 0},
        Row{"tls_token", RouteKind::change, true, false, kFar, kGoodCluster, 0},
        Row{"tls_wrong_token", RouteKind::change, true, false, kFar, "Bearer x", 401}),
    [](const auto& row) { return row.param.name; });

TEST(Access, WithoutAClusterTokenNothingMatchesIt) {
    const Access none(kOwn, {});
    const auto ask = [](const Access& access, const std::string& authorization) {
        return !access.check(RouteKind::change, {authorization, kNear, false, false});
    };
    EXPECT_FALSE(ask(none, "Bearer "));
    const TokenFile file;
    const Access access(kOwn, {file.path()});
    EXPECT_FALSE(ask(access, "Bearer ")) << "no file";
    file.write("\n");
    EXPECT_FALSE(ask(access, "Bearer ")) << "an empty file";
    file.write("short\n");
    EXPECT_FALSE(ask(access, "Bearer short")) << "one that can be guessed";
    file.write(kCluster);
    EXPECT_TRUE(ask(access, kGoodCluster)) << "a new Secret counts at once";
    file.write("another-token-of-the-cluster");
    EXPECT_FALSE(ask(access, kGoodCluster));
}

TEST(Access, SecretsAreComparedWhole) {
    EXPECT_TRUE(equals_secret("abc", "abc"));
    for (const char* wrong : {"", "ab", "abd", "xbc", "abcd", "ABC"}) {
        EXPECT_FALSE(equals_secret("abc", wrong)) << wrong;
    }
    EXPECT_FALSE(equals_secret("", ""));
}

TEST(Forward, TheStewardIsOnTheHostOfTheClientUrl) {
    EXPECT_EQ(steward_url("http://main-1.main-peer.ns.svc:2379", 8080, false).value(),
              "http://main-1.main-peer.ns.svc:8080");
    EXPECT_EQ(steward_url("https://10.0.0.1:2379/", 8443, true).value(), "https://10.0.0.1:8443");
    EXPECT_EQ(steward_url("http://[::1]:2379", 8080, false).value(), "http://[::1]:8080");
    EXPECT_EQ(steward_url("http://[::1]", 8080, false).value(), "http://[::1]:8080");
    EXPECT_EQ(steward_url("http://name", 8080, false).value(), "http://name:8080");
    for (const char* wrong : {"", "main:2379", "http://", "http://:2379"}) {
        EXPECT_FALSE(steward_url(wrong, 8080, false)) << wrong;
    }
}

TEST(Forward, SendsNoTokenInClearTextOverTheNetwork) {
    EXPECT_TRUE(may_carry_token("https://10.0.0.1:8080"));
    EXPECT_TRUE(may_carry_token("http://127.77.0.9:8080"));
    EXPECT_TRUE(may_carry_token("http://[::1]:8080"));
    for (const char* base : {"http://10.0.0.1:8080", "http://127.evil.example:80", "ftp://[::1]"}) {
        EXPECT_FALSE(may_carry_token(base)) << base;
    }
}

TEST(NetworkBytes, AreSummedOverInterfaces) {
    const NetworkBytes bytes = parse_network_bytes(
        "Inter-|   Receive                    |  Transmit\n"
        " face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets\n"
        "    lo: 1000       10    0    0    0     0          0         0     2000      10\n"
        "  eth0:18446744073709551 9 0 0 0 0 0 0 5 1 0 0 0 0 0 0\n"
        "  odd0: 7\n");
    EXPECT_EQ(bytes.received, 18446744073710551u);
    EXPECT_EQ(bytes.transmitted, 2005u);
    EXPECT_EQ(parse_network_bytes("").received, 0u);
    EXPECT_NE(network_exposition(bytes).find("\netcdbr_network_transmitted_bytes 2005\n"),
              std::string::npos);
}

TEST(StewardTlsFiles, AreWhatIsConfiguredElseTheEtcds) {
    const Identity me{"m-0", "ns", "m", "m-0", "m-config", "/run"};
    Configuration configuration;
    configuration.local_endpoint = "http://m-local:2379";
    EXPECT_TRUE(steward_tls_files({}, configuration, PodMap(), me).ca.empty()) << "plain HTTP";
    configuration.backup_tls = TlsGroup{"ca", "ca.crt", "server", "client"};
    const PeerTlsFiles files = steward_tls_files({}, configuration, PodMap(), me);
    EXPECT_EQ(files.ca, "/run/tls/backup/ca.crt");
    EXPECT_EQ(files.certificate, "/run/tls/backup/client.crt");
    EXPECT_EQ(files.key, "/run/tls/backup/client.key");
    EXPECT_EQ(files.server_name, "m-local");
    EXPECT_FALSE(read_tls(files)) << "no file, no request: never plain HTTP instead";
    EXPECT_EQ(steward_tls_files({"/ca", "/c", "/k"}, configuration, PodMap(), me).ca, "/ca");
}

TEST(Access, TakesTheTokenOfAnyFileAndHandsOnTheFirst) {
    const TokenFile first, second;
    const Access access(kOwn, {first.path(), second.path()});
    const Caller caller{kGoodCluster, kNear, false, false};
    EXPECT_TRUE(access.check(RouteKind::change, caller));
    second.write(kCluster);
    EXPECT_FALSE(access.check(RouteKind::change, caller));
    EXPECT_EQ(access.cluster_token(), kCluster);
    first.write("another-token-of-the-cluster");
    EXPECT_FALSE(access.check(RouteKind::change, caller));
    EXPECT_EQ(access.cluster_token(), "another-token-of-the-cluster");
}

}  // namespace
}  // namespace capstan::steward
