#include "runtime/cli/steward_listener.hpp"

#include "runtime/kube/credentials.hpp"
#include "runtime/net/pki.hpp"
#include "test/fakes/virtual_loop.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

namespace capstan::cli {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

class FakeServer final : public net::HttpServer {
public:
    explicit FakeServer(int& alive) : alive_(alive) { ++alive_; }
    ~FakeServer() override { --alive_; }
    FakeServer(const FakeServer&) = delete;
    FakeServer& operator=(const FakeServer&) = delete;
    std::uint16_t port() const noexcept override { return 1; }
    Result<void> set_certificate(std::string, std::string) override { return ok(); }
    void stop_accepting() override {}

private:
    int& alive_;
};

class StewardListenerTest : public ::testing::Test {
protected:
    StewardListenerTest() {
        std::string pattern = (fs::temp_directory_path() / "capstan-api-XXXXXX").string();
        root_ = ::mkdtemp(pattern.data());
        StewardListener::Options options;
        options.plain.address = "plain";
        options.secure.address = "secure";
        options.secure.tls = {file("tls.crt"), file("tls.key"), file("ca.crt"), "request"};
        options.read = &kube::read_small_file;
        options.serve = [this](const config::ListenerConfig& wanted) -> Result<Listening> {
            EXPECT_EQ(alive, 0) << "the two share a port";
            turns.push_back(wanted.address);
            if (wanted.address == refused) {
                return fail(Code::unavailable, "in use");
            }
            Listening listening;
            listening.server = std::make_unique<FakeServer>(alive);
            return listening;
        };
        listener.emplace(loop, log, std::move(options));
    }
    ~StewardListenerTest() override { fs::remove_all(root_); }

    std::string file(const std::string& name) const { return (root_ / name).string(); }
    void write(const std::string& name, const std::string& text) const {
        std::ofstream(root_ / name, std::ios::binary | std::ios::trunc) << text;
    }
    void put_certificates() const {
        const WallTime now = loop.wall_now();
        const net::KeyPair ca = net::make_ca("ca", {now - 1h, now + 240h}).value();
        const net::KeyPair pair =
            net::issue_certificate(
                ca,
                {.common_name = "main", .dns_names = {"main-local"}, .server = true},
                {now - 1h, now + 24h})
                .value();
        write("ca.crt", ca.certificate_pem);
        write("tls.key", pair.key_pem);
        write("tls.crt", pair.certificate_pem);
    }
    void turn() { loop.run_for(kStewardListenerPeriod); }

    fs::path root_;
    test::VirtualLoop loop;
    obs::LogCapture lines;
    obs::Log log{loop, lines.sink()};
    int alive{0};
    std::string refused;
    std::vector<std::string> turns;
    std::optional<StewardListener> listener;
};
using Turns = std::vector<std::string>;

TEST_F(StewardListenerTest, TurnsToTlsWhenCertificatesAppearAndBackWhenTheyGo) {
    ASSERT_TRUE(listener->start());
    turn();
    turn();
    EXPECT_EQ(turns, Turns{"plain"});
    put_certificates();
    turn();
    turn();
    EXPECT_EQ(turns, (Turns{"plain", "secure"}));
    write("tls.key", "damaged");
    turn();
    EXPECT_EQ(turns.size(), 2u) << "what replaces a pair in use is the watcher's to judge";
    fs::remove(file("tls.crt"));
    turn();
    EXPECT_EQ(turns, (Turns{"plain", "secure", "plain"}));
    EXPECT_EQ(alive, 1);
    EXPECT_TRUE(lines.lines().empty());
}

TEST_F(StewardListenerTest, IsSecureFromTheStartWhenCertificatesAreThere) {
    put_certificates();
    ASSERT_TRUE(listener->start());
    EXPECT_EQ(turns, Turns{"secure"});
}

TEST_F(StewardListenerTest, StaysWithThisPodWhileCertificatesCannotBeUsed) {
    put_certificates();
    write("tls.key", "damaged");
    ASSERT_TRUE(listener->start());
    turn();
    turn();
    EXPECT_EQ(turns, Turns{"plain"});
    EXPECT_EQ(lines.count("the api listener cannot take up TLS"), 1u);
    put_certificates();
    turn();
    EXPECT_EQ(turns, (Turns{"plain", "secure"}));
}

TEST_F(StewardListenerTest, AnAddressThatIsRefusedIsTriedAgainLater) {
    ASSERT_TRUE(listener->start());
    put_certificates();
    refused = "secure";
    turn();
    turn();
    turn();
    EXPECT_EQ(turns, (Turns{"plain", "secure", "plain"}));
    EXPECT_FALSE(listener->secure());
    EXPECT_EQ(alive, 1);
    refused.clear();
    loop.run_for(kStewardListenerRetry);
    EXPECT_TRUE(listener->secure());
    EXPECT_EQ(turns.back(), "secure");
}

TEST_F(StewardListenerTest, WithoutPlainHttpThereIsNoStart) {
    refused = "plain";
    EXPECT_FALSE(listener->start());
}

}  // namespace
}  // namespace capstan::cli
