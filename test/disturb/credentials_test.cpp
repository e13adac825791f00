// What the server does not accept is named: which credentials, and what is wrong with them.
#include "runtime/net/http_server.hpp"
#include "runtime/net/test_peers.hpp"
#include "test/disturb/disturb_world.hpp"

#include <gtest/gtest.h>

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <optional>

namespace capstan::test {
namespace {

using namespace std::chrono_literals;

struct CredentialsTest : testing::Test {
    CredentialsTest() { std::filesystem::create_directories(directory); }
    ~CredentialsTest() override { std::filesystem::remove_all(directory); }

    void write(const std::string& name, const std::string& text) const {
        std::ofstream(directory + "/" + name) << text;
    }
    void connect(const std::string& endpoint, const std::string& more, const std::string& user) {
        world.connect(
            R"({"current-context":"c","contexts":[{"name":"c","context":{"cluster":"k","user":"u"}}],
            "clusters":[{"name":"k","cluster":{"server":")" +
            endpoint + "\"" + more + R"(}}],"users":[{"name":"u","user":)" + user + "}]}");
    }
    // The error of one request.
    Error ask() {
        std::optional<Error> error;
        const auto call = world.connection->client().raw(
            "GET", "/version", "", world.loop->now() + 5s, [&](const auto& answer) {
                error = answer ? Error{Code::internal, "it was accepted", {}} : answer.error();
            });
        EXPECT_TRUE(world.until([&] { return error.has_value(); }));
        return error.value_or(Error{});
    }
    std::string reason() {
        world.watch();
        EXPECT_TRUE(
            world.until([&] { return world.handle->state().state == cache::SyncState::degraded; }));
        return world.handle->state().reason;
    }

    DisturbWorld world;
    const std::string directory{testing::TempDir() + "capstan-credentials-" +
                                std::to_string(::getpid())};
};

TEST_F(CredentialsTest, ATokenFileIsNamedAndItsEndHeals) {
    world.serve();
    const std::string file = directory + "/token";
    write("token", "a-token-nobody-knows");
    connect(world.endpoint(), "", R"({"tokenFile":")" + file + "\"}");
    EXPECT_EQ(
        ask().message,
        "GET /version: 401 unauthenticated; the API server does not accept the token in " + file);
    EXPECT_EQ(reason(),
              "ConfigMap: unauthenticated: watch ConfigMap; the API server does not accept the "
              "token in " +
                  file);
    std::filesystem::remove(file);
    EXPECT_EQ(ask().message,
              "GET /version: 401 unauthenticated; the API server does not accept the token in " +
                  file + ", and there is no newer one: cannot open " + file +
                  ": No such file or directory");
    ASSERT_TRUE(
        world.authenticator.set_token("the-token-that-is-known", {"m", {"system:masters"}}));
    write("token", "the-token-that-is-known");
    EXPECT_TRUE(world.until([&] { return world.is_live(); })) << world.handle->state().reason;
    EXPECT_EQ(world.changes, (std::vector<std::string>{"token file"}));
}

TEST_F(CredentialsTest, ALiteralTokenAndNoneAreNamed) {
    world.serve();
    connect(world.endpoint(), "", R"({"token":"a-token-nobody-knows"})");
    EXPECT_EQ(ask().message,
              "GET /version: 401 unauthenticated; the API server does not accept the token of "
              "kubeconfig user \"u\"");
}

TEST_F(CredentialsTest, ACertificateThatHasEndedIsNamedWithFileAndDate) {
    const WallTime now = world.loop->wall_now();
    const net::KeyPair ca = net::make_ca("ca", {now - 48h, now + 48h}).value();
    const net::KeyPair server =
        net::issue_certificate(
            ca,
            {.common_name = "server", .ip_addresses = {"127.0.0.1"}, .server = true},
            {now - 1h, now + 24h})
            .value();
    const net::KeyPair old =
        net::issue_certificate(ca, {.common_name = "old", .client = true}, {now - 48h, now - 24h})
            .value();
    world.serve_with(server, ca.certificate_pem);
    write("ca.crt", ca.certificate_pem);
    write("old.crt", old.certificate_pem);
    write("old.key", old.key_pem);
    connect(world.endpoint(),
            R"(,"certificate-authority":")" + directory + "/ca.crt\"",
            R"({"client-certificate":")" + directory + R"(/old.crt","client-key":")" + directory +
                "/old.key\"}");
    const std::string text = ask().message;
    EXPECT_NE(text.find("; the client certificate in " + directory + "/old.crt has ended at " +
                        to_rfc3339(now - 24h)),
              std::string::npos)
        << text;
}

TEST_F(CredentialsTest, ALoginPageIsNoApiServer) {
    net::HttpServerOptions options;
    int status = 200;
    const auto page = net::make_http_server(*world.loop, options, [&status](const auto& exchange) {
                          exchange->respond(status,
                                            {{"content-type", "Text/HTML; charset=utf-8"},
                                             {"location", "/login"}},
                                            "<html>please log in</html>");
                      }).value();
    connect("http://127.0.0.1:" + std::to_string(page->port()), "", "{}");
    const std::string foreign =
        "answered text/html, not the Kubernetes API: check server and proxy";
    EXPECT_EQ(ask().message, "GET /version: " + foreign);
    EXPECT_EQ(ask().code, Code::unavailable);
    world.watch();
    ASSERT_TRUE(world.until([&] {
        return world.handle->state().reason.find(foreign) != std::string::npos;
    })) << world.handle->state().reason;
    status = 302;
    EXPECT_EQ(ask().message, "GET /version: 302: " + foreign + "; it sends us to \"/login\"");
    status = 401;
    EXPECT_EQ(ask().message, "GET /version: 401 unauthenticated: " + foreign);
    status = 502;
    EXPECT_EQ(ask().message, "GET /version: 502: " + foreign);
    world.handle.reset();
    world.cache.reset();
    world.connection.reset();
}

TEST_F(CredentialsTest, AProxyThatRefusesIsNamedWithItsStatus) {
    const net::testing::RawServer proxy([](net::testing::RawConnection& peer, int) {
        peer.read_request();
        peer.send("HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n");
    });
    const std::string where = "127.0.0.1:" + std::to_string(proxy.port());
    connect("https://api.test:6443", R"(,"proxy-url":"http://)" + where + "\"", "{}");
    const Error error = ask();
    EXPECT_EQ(error.code, Code::unavailable);
    EXPECT_NE(error.message.find("proxy: " + where +
                                 ": the proxy refuses: 407 Proxy Authentication Required"),
              std::string::npos)
        << error.message;
}

}  // namespace
}  // namespace capstan::test
