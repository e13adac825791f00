// TlsRotation: when files are read again, and what a bad one does.
#include "runtime/kube/tls_rotation.hpp"

#include "test/fakes/virtual_loop.hpp"

#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace capstan::kube {
namespace {

using namespace std::chrono_literals;

struct Http final : net::HttpClient {
    std::vector<std::string> set;
    bool refuse{false};
    std::unique_ptr<net::HttpExchange> send(
        net::HttpRequest, std::function<void(Result<net::HttpResponse>)>) override {
        return nullptr;
    }
    std::unique_ptr<net::HttpStream> stream(net::HttpRequest,
                                            net::StreamOptions,
                                            net::StreamHandler) override {
        return nullptr;
    }
    Result<void> set_tls(const net::TlsClientOptions& tls) override {
        if (refuse) {
            return fail(Code::invalid, "certificate and private key do not match");
        }
        set.push_back(tls.ca_pem + "|" + tls.certificate_pem + "|" + tls.key_pem);
        return ok();
    }
};

struct KubeRotationTest : testing::Test, RotationObserver {
    test::VirtualLoop loop;
    Http http;
    std::map<std::string, std::string> files{{"/ca", "CA1"}, {"/crt", "C1"}, {"/key", "K1"}};
    std::vector<std::string> seen;
    int changes{0};
    int reads{0};
    std::optional<TlsRotation> rotation;

    void SetUp() override {
        net::TlsClientOptions tls;
        tls.ca_pem = "CA1";
        tls.certificate_pem = "C1";
        tls.key_pem = "K1";
        rotation.emplace(
            loop,
            http,
            tls,
            TlsFiles{"/ca", "/crt", "/key"},
            this,
            [this] { ++changes; },
            [this](const std::string& path) -> Result<std::string> {
                ++reads;
                const auto found = files.find(path);
                return found == files.end()
                           ? Result<std::string>(fail(Code::invalid, "cannot open " + path))
                           : found->second;
            });
    }
    void reloaded(bool good, std::string_view reason) override {
        seen.push_back((good ? "+" : "-") + std::string(reason));
    }
    void changed(std::string_view what) override { seen.emplace_back(what); }
    void failed(const Error& error) override { seen.push_back(error.message); }
    void expires(WallTime, std::string_view) override {}
};

TEST_F(KubeRotationTest, ReadsEachPeriodAndSetsOnlyChanges) {
    loop.run_for(59s);
    EXPECT_EQ(reads, 0);
    loop.run_for(2s);
    EXPECT_EQ(seen, (std::vector<std::string>{"+unchanged"}));
    files["/ca"] = "CA2";
    loop.run_for(60s);
    EXPECT_EQ(http.set, (std::vector<std::string>{"CA2|C1|K1"}));
    EXPECT_EQ(changes, 1);
    EXPECT_EQ(seen.back(), "CA");
    files["/crt"] = "C2";
    files["/key"] = "K2";
    loop.run_for(60s);
    EXPECT_EQ(http.set.back(), "CA2|C2|K2");
    EXPECT_EQ(seen.back(), "client certificate");
}

TEST_F(KubeRotationTest, AFailureKeepsTheOldAndIsSaidOnce) {
    files.erase("/key");
    loop.run_for(180s);
    EXPECT_TRUE(http.set.empty());
    EXPECT_EQ(seen,
              (std::vector<std::string>{
                  "-unreadable", "cannot open /key", "-unreadable", "-unreadable"}));
    files["/key"] = "K2";  // the certificate is not there yet
    http.refuse = true;
    seen.clear();
    loop.run_for(60s);
    EXPECT_EQ(seen,
              (std::vector<std::string>{"-unusable", "certificate and private key do not match"}));
    EXPECT_EQ(changes, 0);
    http.refuse = false;
    loop.run_for(60s);
    EXPECT_EQ(http.set, (std::vector<std::string>{"CA1|C1|K2"}));
    files["/ca"].clear();
    seen.clear();
    loop.run_for(60s);
    EXPECT_EQ(seen, (std::vector<std::string>{"-unreadable", "/ca is empty"}))
        << "an empty file must not mean the system's CAs";
}

TEST_F(KubeRotationTest, ARefusalReadsAtOnceButNotInARow) {
    loop.run_for(5s);
    files["/ca"] = "CA2";
    EXPECT_TRUE(rotation->refresh());
    EXPECT_FALSE(rotation->refresh()) << "nothing new";
    const int before = reads;
    for (int i = 0; i < 100; ++i) {
        EXPECT_FALSE(rotation->refresh());
    }
    EXPECT_EQ(reads, before);
    loop.run_for(kTlsFilesPauseMin);
    rotation->refresh();
    EXPECT_GT(reads, before);
}

TEST_F(KubeRotationTest, APairFromAPluginIsSetOnce) {
    ASSERT_TRUE(rotation->set_pair("C9", "K9"));
    ASSERT_TRUE(rotation->set_pair("C9", "K9"));
    EXPECT_EQ(http.set, (std::vector<std::string>{"CA1|C9|K9"}));
    http.refuse = true;
    EXPECT_FALSE(rotation->set_pair("C10", "K9"));
    EXPECT_EQ(changes, 1);
}

}  // namespace
}  // namespace capstan::kube
