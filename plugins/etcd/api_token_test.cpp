#include "plugins/etcd/api_token.hpp"

#include "capstan/testing/fake_host.hpp"

#include <gtest/gtest.h>

#include <string>

namespace capstan::etcd {
namespace {

using capstan::testing::FakeHost;
using capstan::testing::PluginUnderTest;

class Maker final : public Service {
public:
    Result<void> run(Call& call) override;
};

json::Value secret_of(std::string_view owner) {
    json::Value metadata = {{"namespace", "n"}, {"name", "main-api-token"}};
    if (!owner.empty()) {
        metadata.set("ownerReferences",
                     json::list({{{"apiVersion", "druid.gardener.cloud/v1alpha1"},
                                  {"kind", "Etcd"},
                                  {"name", "main"},
                                  {"uid", owner},
                                  {"controller", true}}}));
    }
    return {{"apiVersion", "v1"}, {"kind", "Secret"}, {"metadata", std::move(metadata)}};
}

Result<void> g_outcome = ok();

Result<void> Maker::run(Call& call) {
    g_outcome = create_api_token(call, secret_of("uid-1"), "uid-1");
    return ok();
}

Result<void> make(Setup& setup) {
    setup.service("maker", std::make_unique<Maker>());
    return ok();
}
const capstan_plugin* entry(const capstan_host* host) noexcept {
    return detail::plugin_entry(host, &make, "token.capstan.dev", "0.1.0");
}

class ApiToken : public ::testing::Test {
protected:
    void create() { PluginUnderTest(host, &entry).run_service("maker"); }
    std::string token() const {
        const auto found = host.find("v1/Secret", {"n", "main-api-token"});
        return found ? std::string(json::View(*found)["stringData"]["token"].string_or("")) : "";
    }
    FakeHost host;
};

TEST_F(ApiToken, IsRandomAndMadeOnce) {
    create();
    EXPECT_TRUE(g_outcome);
    const std::string first = token();
    EXPECT_EQ(first.size(), 64u);
    EXPECT_EQ(first.find_first_not_of("0123456789abcdef"), std::string::npos);
    create();
    EXPECT_TRUE(g_outcome);
    EXPECT_EQ(token(), first) << "never rewritten";
    host.erase("v1/Secret", {"n", "main-api-token"});
    create();
    EXPECT_NE(token(), first);
    EXPECT_EQ(token().size(), 64u);
}

TEST_F(ApiToken, OfAPersonIsLeftAlone) {
    host.put(secret_of(""));
    create();
    EXPECT_TRUE(g_outcome);
    EXPECT_EQ(token(), "");
}

TEST_F(ApiToken, OfAnEtcdBeforeIsReplaced) {
    host.put(secret_of("uid-0"));
    create();
    ASSERT_TRUE(g_outcome) << g_outcome.error().message;
    EXPECT_EQ(token().size(), 64u);
    const auto found = host.find("v1/Secret", {"n", "main-api-token"});
    EXPECT_EQ(json::View(*found)["metadata"]["ownerReferences"][0]["uid"].string_or(""), "uid-1");
}

TEST_F(ApiToken, OfAnotherObjectIsWaitedForToBeGone) {
    json::Value other = secret_of("uid-9");
    other["metadata"].set("ownerReferences",
                          json::list({{{"apiVersion", "example.org/v1"},
                                       {"kind", "Safe"},
                                       {"name", "main"},
                                       {"uid", "uid-9"},
                                       {"controller", true}}}));
    host.put(other);
    create();
    ASSERT_FALSE(g_outcome);
    EXPECT_EQ(g_outcome.error().code, Code::unavailable);
    EXPECT_EQ(g_outcome.error().message.substr(0, 62),
              "Secret n/main-api-token belongs to Safe main, not to this Etcd");
    host.erase("v1/Secret", {"n", "main-api-token"});
    create();
    EXPECT_TRUE(g_outcome);
}

TEST_F(ApiToken, IsNoSuccessWhenTheServerRefuses) {
    host.fail_call(1, CAPSTAN_E_FORBIDDEN, true);
    create();
    EXPECT_FALSE(g_outcome);
}

}  // namespace
}  // namespace capstan::etcd
