#include "plugins/steward-bridge/api/api_service.hpp"

#include "capstan/testing/fake_host.hpp"
#include "plugins/steward-bridge/files.hpp"

#include <gtest/gtest.h>

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <functional>

namespace capstan::steward {
namespace {

using namespace std::chrono_literals;
using capstan::testing::FakeHost;
using capstan::testing::HttpReply;
using capstan::testing::PluginUnderTest;

std::string run_dir() {
    return ::testing::TempDir() + "api-service-" + std::to_string(::getpid());
}

struct Parts {
    explicit Parts(const HostTables& host)
        : member(host, {"m-0", "ns", "m", "m-0", "m-config", run_dir()}) {}
    Member member;
};
Parts* g_parts = nullptr;

Result<void> make(Setup& setup) {
    auto parts = std::make_shared<Parts>(setup.host());
    g_parts = parts.get();
    setup.service("api", std::make_unique<ApiService>(parts->member, PeerTlsFiles{}));
    setup.own(parts);
    return ok();
}
const capstan_plugin* entry(const capstan_host* host) noexcept {
    return detail::plugin_entry(host, &make, "api.capstan.dev", "0.1.0");
}

class ApiServiceTest : public ::testing::Test {
protected:
    ApiServiceTest() {
        std::filesystem::create_directories(run_dir());
        host.on_http([this](const json::Value& request, std::string_view) {
            asked.push_back(request);
            return HttpReply{served ? CAPSTAN_OK : CAPSTAN_E_UNAVAIL, 200, json::object(), "{}"};
        });
        plugin.emplace(host, &entry);
    }
    ~ApiServiceTest() override { std::filesystem::remove_all(run_dir()); }

    void configure(bool tls, bool token = false) {
        json::Value steward = {
            {"apiVersion", "config.capstan.dev/v1alpha1"},
            {"etcd", {{"replicas", 1}}},
            {"ports", {{"api", 8089}}},
            {"endpoints", {{"local", "https://m-local:2379"}, {"service", json::list()}}},
            {"dataDir", "/data"},
            {"members", {{"m-0", {{"configHash", "h"}, {"config", json::object()}}}}},
        };
        if (tls) {
            steward.set("tls",
                        {{"backup",
                          {{"caSecret", "ca"},
                           {"caKey", "bundle.crt"},
                           {"serverSecret", "server"},
                           {"clientSecret", "client"}}}});
        }
        if (token) {
            steward.set("apiTokenSecret", "m-api-token");
        }
        host.put({{"apiVersion", "v1"},
                  {"kind", "ConfigMap"},
                  {"metadata", {{"namespace", "ns"}, {"name", "m-config"}}},
                  {"data", {{"steward.yaml", json::dump(steward)}}}});
    }
    void secret(const std::string& name, const json::Value& data) {
        host.put({{"apiVersion", "v1"},
                  {"kind", "Secret"},
                  {"metadata", {{"namespace", "ns"}, {"name", name}}},
                  {"data", data}});
    }
    void secrets() {
        secret("ca", {{"bundle.crt", "Q0E="}});                        // CA
        secret("server", {{"tls.crt", "UzE="}, {"tls.key", "SzE="}});  // S1, K1
        secret("client", {{"tls.crt", "Q1A="}, {"tls.key", "Q0s="}});  // CP, CK
    }
    // What happens, or is expected, so long after the start of the service.
    void at(std::chrono::nanoseconds time, std::function<void()> action) {
        host.at(host.now() + time, std::move(action));
    }
    void run(std::chrono::nanoseconds duration) {
        at(duration, [this] { host.cancel(); });
        plugin->run_service("api");
    }
    static std::string file(const std::string& name) {
        const auto text = read_file(run_dir() + "/" + name);
        return text ? text.value() : text.error().code == Code::not_found ? "-" : "?";
    }
    static std::string reason() { return g_parts->member.api_report().reason; }
    static std::string message() { return g_parts->member.api_report().message; }

    FakeHost host;
    bool served{true};
    std::vector<json::Value> asked;
    std::optional<PluginUnderTest> plugin;
};

TEST_F(ApiServiceTest, WritesTheCertificatesAndAsksItselfLikeAnotherSteward) {
    configure(true);
    secrets();
    run(1s);
    EXPECT_EQ(file("tls/backup/ca.crt"), "CA");
    EXPECT_EQ(file("tls/backup/tls.crt") + file("tls/backup/tls.key"), "S1K1");
    EXPECT_EQ(file("tls/backup/client.crt") + file("tls/backup/client.key"), "CPCK");
    ASSERT_EQ(asked.size(), 1u);
    const json::View request(asked[0]);
    EXPECT_EQ(request["url"].string_or(""), "https://m-local:8089/healthz");
    const json::View tls = request["tls"];
    EXPECT_EQ(json::dump(*tls.value()).find("insecure\":true"), std::string::npos);
    const std::string text = json::dump(*tls.value());
    for (const char* part : {"\"CA\"", "\"CP\"", "\"CK\"", "\"m-local\""}) {
        EXPECT_NE(text.find(part), std::string::npos) << part << " in " << text;
    }
    EXPECT_EQ(reason(), "");
}

TEST_F(ApiServiceTest, ARenewedSecretIsWrittenAtItsNextLook) {
    configure(true);
    secrets();
    at(1s, [this] { secret("server", {{"tls.crt", "UzI="}, {"tls.key", "SzI="}}); });
    at(kApiSecretsPeriod + 1s,
       [] { EXPECT_EQ(file("tls/backup/tls.crt") + file("tls/backup/tls.key"), "S2K2"); });
    run(kApiSecretsPeriod + 2s);
}

TEST_F(ApiServiceTest, ATroubleIsToldWhenItHasLastedAndUntilItIsOver) {
    configure(true);
    secrets();
    served = false;
    at(kApiPatience - 1s, [] { EXPECT_EQ(reason(), "") << "the listener takes its time"; });
    at(kApiPatience + 1s, [this] {
        EXPECT_EQ(reason(), "CertificatesRefused");
        for (const char* part : {"https://m-local:8089/healthz", "server", "client", "Secret ca"}) {
            EXPECT_NE(message().find(part), std::string::npos) << part << " in " << message();
        }
        served = true;
    });
    at(kApiPatience + 1s + kApiRetry, [] { EXPECT_EQ(reason(), ""); });
    run(2 * kApiPatience);
    EXPECT_EQ(host.logs().size(), 1u) << "once, not at every look";
}

TEST_F(ApiServiceTest, ASecretThatCannotBeReadIsNamedAtOnce) {
    configure(true);
    secrets();
    secret("ca", {{"ca.crt", "Q0E="}});
    at(1s, [this] {
        EXPECT_EQ(reason(), "CertificatesUnreadable");
        EXPECT_NE(message().find("Secret ca has no \"bundle.crt\""), std::string::npos);
        EXPECT_EQ(file("tls/backup/tls.crt"), "-");
        secrets();
    });
    at(1s + kApiRetry, [] { EXPECT_EQ(reason(), ""); });
    run(2 * kApiRetry);
}

TEST_F(ApiServiceTest, WithoutTheApiServerWhatIsThereStays) {
    configure(true, true);
    secrets();
    secret("m-api-token", {{"token", "dG9rZW4="}});
    at(1s, [this] {
        host.erase("v1/Secret", {"ns", "m-api-token"});
        host.fail_call(2, CAPSTAN_E_UNAVAIL);  // after the configuration: the token
    });
    at(kApiSecretsPeriod + 1s, [this] {
        EXPECT_EQ(file("tls/backup/tls.crt"), "S1");
        EXPECT_EQ(file("cluster-token"), "token");
        EXPECT_EQ(reason(), "");
    });
    at(2 * kApiSecretsPeriod + 2s, [] { EXPECT_EQ(file("cluster-token"), "-"); });
    run(3 * kApiSecretsPeriod);
}

TEST_F(ApiServiceTest, TakesTheCertificatesAwayWhenTlsIsNoLongerAskedFor) {
    configure(true);
    secrets();
    at(1s, [this] {
        asked.clear();
        configure(false);
        g_parts->member.api_wake().notify();
    });
    at(2s, [] {
        for (const char* name : {"ca.crt", "tls.crt", "tls.key", "client.crt", "client.key"}) {
            EXPECT_EQ(file(std::string("tls/backup/") + name), "-") << name;
        }
    });
    run(2 * kApiCheckPeriod);
    EXPECT_TRUE(asked.empty());
}

TEST_F(ApiServiceTest, KeepsTheClustersTokenAsItsSecretHasIt) {
    configure(false, true);
    secret("m-api-token", {{"token", "Zmlyc3Q="}});
    at(1s, [this] {
        EXPECT_EQ(file("cluster-token"), "first");
        struct stat found {};
        ASSERT_EQ(::stat((run_dir() + "/cluster-token").c_str(), &found), 0);
        EXPECT_EQ(found.st_mode & 0777, 0600u);
        host.erase("v1/Secret", {"ns", "m-api-token"});
    });
    at(kApiTokenPeriod + 1s, [this] {
        EXPECT_EQ(file("cluster-token"), "-") << "a token that was taken away opens nothing";
        EXPECT_EQ(reason(), "");
        secret("m-api-token", {{"token", "c2Vjb25k"}});
    });
    at(2 * kApiTokenPeriod + 1s, [] { EXPECT_EQ(file("cluster-token"), "second"); });
    run(3 * kApiTokenPeriod);
}

}  // namespace
}  // namespace capstan::steward
