// Token, CA and client certificate are exchanged while client and cache run.
#include "test/disturb/disturb_world.hpp"

#include <gtest/gtest.h>

#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <optional>

namespace capstan::test {
namespace {

using namespace std::chrono_literals;
using local::User;

struct RotationTest : testing::Test {
    RotationTest() {
        std::filesystem::create_directories(directory);
        write("ca.crt", old_ca.certificate_pem);
        world.put("a", "1");
    }
    ~RotationTest() override { std::filesystem::remove_all(directory); }

    net::Validity validity() const {
        return {world.loop->wall_now() - 1h, world.loop->wall_now() + 24h};
    }
    net::KeyPair serving(const net::KeyPair& ca) const {
        return net::issue_certificate(
                   ca,
                   {.common_name = "server", .ip_addresses = {"127.0.0.1"}, .server = true},
                   validity())
            .value();
    }
    net::KeyPair caller(const std::string& name) const {
        return net::issue_certificate(
                   old_ca,
                   {.common_name = name, .organizations = {"system:masters"}, .client = true},
                   validity())
            .value();
    }
    // As a mount does it: the new file takes the old one's place at once.
    void write(const std::string& name, const std::string& text) const {
        {
            std::ofstream file(directory + "/new");
            file << text;
        }
        std::filesystem::rename(directory + "/new", directory + "/" + name);
    }
    void connect(const std::string& user) {
        world.connect(
            R"({"current-context":"c","contexts":[{"name":"c","context":{"cluster":"k","user":"u"}}],
            "clusters":[{"name":"k","cluster":{"server":")" +
            world.endpoint() + R"(","certificate-authority":")" + directory +
            R"(/ca.crt"}}],"users":[{"name":"u","user":)" + user + "}]}");
        world.watch();
    }
    bool settles() {
        return world.until([&] { return world.is_live() && world.equal(); });
    }
    // One get, which must not fail.
    void get() {
        std::optional<Result<kube::ObjectPtr>> got;
        const auto call = world.connection->client().get(
            kConfigMap, {"default", "a"}, {}, [&](Result<kube::ObjectPtr> answer) {
                got = std::move(answer);
            });
        ASSERT_TRUE(world.until([&] { return got.has_value(); }));
        EXPECT_TRUE(*got) << got->error().message;
    }
    int relists() const {
        return world.lists("expired") + world.lists("error") + world.lists("older") +
               world.lists("fallback");
    }

    DisturbWorld world;
    const std::string directory{testing::TempDir() + "capstan-rotation-" +
                                std::to_string(::getpid())};
    const net::KeyPair old_ca{net::make_ca("old ca", validity()).value()};
    const net::KeyPair new_ca{net::make_ca("new ca", validity()).value()};
};

TEST_F(RotationTest, ATokenThatIsRefusedIsReadAgain) {
    world.serve_with(serving(old_ca), old_ca.certificate_pem);
    ASSERT_TRUE(
        world.authenticator.set_token("the-first-token-there-was", {"m", {"system:masters"}}));
    write("token", "the-first-token-there-was");
    connect(R"({"tokenFile":")" + directory + R"(/token"})");
    ASSERT_TRUE(settles());
    world.authenticator.remove_token("the-first-token-there-was");
    ASSERT_TRUE(
        world.authenticator.set_token("the-second-token-there-is", {"m", {"system:masters"}}));
    write("token", "the-second-token-there-is");
    get();
    EXPECT_EQ(world.seen.back().who, "Bearer the-second-token-there-is");
    world.put("b", "1");
    ASSERT_TRUE(settles());
    EXPECT_EQ(relists(), 0);
    EXPECT_EQ(world.requests("watch=true"), 1u) << "the watch was never disturbed";
}

TEST_F(RotationTest, AnotherCaIsFoundWhenTheServerIsNotTrusted) {
    world.serve_with(serving(old_ca), old_ca.certificate_pem);
    const net::KeyPair pair = caller("one");
    write("tls.crt", pair.certificate_pem);
    write("tls.key", pair.key_pem);
    connect(R"({"client-certificate":")" + directory + R"(/tls.crt","client-key":")" + directory +
            R"(/tls.key"})");
    ASSERT_TRUE(settles());
    world.stop_serving();
    write("ca.crt", new_ca.certificate_pem);
    world.run_for(1100ms);  // reading has a pause
    world.serve_with(serving(new_ca), old_ca.certificate_pem);
    get();
    EXPECT_EQ(world.changes, (std::vector<std::string>{"CA"}));
    world.put("b", "1");
    ASSERT_TRUE(settles());
    EXPECT_EQ(relists(), 0);
}

TEST_F(RotationTest, AnotherClientCertificateMovesTheWatchWithoutAList) {
    world.serve_with(serving(old_ca), old_ca.certificate_pem);
    net::KeyPair pair = caller("one");
    write("tls.crt", pair.certificate_pem);
    write("tls.key", pair.key_pem);
    connect(R"({"client-certificate":")" + directory + R"(/tls.crt","client-key":")" + directory +
            R"(/tls.key"})");
    ASSERT_TRUE(settles());
    EXPECT_EQ(world.seen.back().who, "one");
    pair = caller("two");
    write("tls.crt", pair.certificate_pem);
    world.run_for(1100ms);
    // Half of the pair is there: the old one goes on. A 401 makes the files be read.
    int refused = 0;
    world.trouble = [&](const std::string& line) {
        return line.find("/configmaps/a") != std::string::npos && refused++ == 0
                   ? Trouble{.status = 401}
                   : Trouble{};
    };
    std::optional<Code> code;
    const auto call = world.connection->client().get(
        kConfigMap, {"default", "a"}, {}, [&](const Result<kube::ObjectPtr>& answer) {
            code = answer ? Code::internal : answer.error().code;
        });
    ASSERT_TRUE(world.until([&] { return code.has_value(); }));
    EXPECT_EQ(code, Code::forbidden);
    EXPECT_TRUE(world.changes.empty());
    write("tls.key", pair.key_pem);
    world.run_for(1100ms);
    refused = 0;
    get();
    EXPECT_EQ(world.changes, (std::vector<std::string>{"client certificate"}));
    ASSERT_TRUE(world.until([&] { return world.requests("watch=true") == 2; }));
    for (std::size_t i = world.seen.size(); i-- > 0;) {
        if (world.seen[i].line.find("watch=true") != std::string::npos) {
            EXPECT_EQ(world.seen[i].who, "two");
            EXPECT_EQ(world.seen[i].line.find("sendInitialEvents"), std::string::npos);
            break;
        }
    }
    world.put("b", "1");
    ASSERT_TRUE(settles());
    EXPECT_EQ(relists(), 0);
}

TEST_F(RotationTest, ACredentialPluginIsRunAgainWhenItsTokenIsRefused) {
    world.serve_with(serving(old_ca), old_ca.certificate_pem);
    ASSERT_TRUE(
        world.authenticator.set_token("a-token-from-a-program-1", {"m", {"system:masters"}}));
    write("plugin", R"(#!/bin/sh
echo run >> "$(dirname "$0")/runs"
n=$(wc -l < "$(dirname "$0")/runs" | tr -d ' ')
echo "{\"kind\":\"ExecCredential\",\"apiVersion\":\"client.authentication.k8s.io/v1\",\"status\":{\"token\":\"a-token-from-a-program-$n\"}}"
)");
    std::filesystem::permissions(directory + "/plugin", std::filesystem::perms::owner_all);
    connect(
        R"({"exec":{"apiVersion":"client.authentication.k8s.io/v1","interactiveMode":"Never","command":")" +
        directory + R"(/plugin"}})");
    ASSERT_TRUE(settles());
    for (int i = 0; i < 5; ++i) {
        get();
    }
    EXPECT_EQ(world.seen.back().who, "Bearer a-token-from-a-program-1");
    world.authenticator.remove_token("a-token-from-a-program-1");
    ASSERT_TRUE(
        world.authenticator.set_token("a-token-from-a-program-2", {"m", {"system:masters"}}));
    world.run_for(std::chrono::milliseconds(kube::kExecPauseMin) + 100ms);
    get();
    EXPECT_EQ(world.seen.back().who, "Bearer a-token-from-a-program-2");
    world.put("b", "1");
    ASSERT_TRUE(settles());
    EXPECT_EQ(relists(), 0);
}

}  // namespace
}  // namespace capstan::test
