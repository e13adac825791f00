// Webhooks of plugins at the border: examples/guard as built and loaded for real, and files whose
// manifest and code do not agree.
#include "capstan/testing/fake_webhook.hpp"
#include "test/abi/abi_fixture.hpp"

namespace capstan::plugin {
namespace {

using capstan::testing::PluginUnderTest;
using capstan::testing::review;
using capstan::testing::Reviewed;

const capstan_plugin* g_guard = nullptr;
const capstan_plugin* guard_entry(const capstan_host*) noexcept {
    return g_guard;
}

class WebhookModule : public AbiTest {
protected:
    void SetUp() override {
        Loader plugins = loader();
        auto candidate = plugins.check(test_plugin("guard"));
        ASSERT_TRUE(candidate) << candidate.error().message;
        EXPECT_EQ(candidate.value().manifest().webhooks.size(), 2u);
        const auto module = plugins.load(std::move(candidate).value(), host_.host());
        ASSERT_TRUE(module) << module.error().message;
        EXPECT_NE(module.value()->webhook(), nullptr);
        g_guard = &module.value()->table();
    }
    static json::Value request(json::Value data, json::Value annotations = {}) {
        json::Value metadata = {{"name", "a"}};
        if (!annotations.is_null()) {
            metadata.set("annotations", std::move(annotations));
        }
        return {{"operation", "CREATE"},
                {"namespace", "n"},
                {"userInfo", {{"username", "alice"}}},
                {"object", {{"metadata", std::move(metadata)}, {"data", std::move(data)}}}};
    }
};

TEST_F(WebhookModule, MutatesAndValidates) {
    const PluginUnderTest plugin(host_, &guard_entry, R"({"maxKeys": 1})");
    ASSERT_EQ(plugin.create_rc(), CAPSTAN_OK);
    const Reviewed owned = review(host_, "owner", request(json::object()));
    EXPECT_EQ(owned.rc, CAPSTAN_OK);
    EXPECT_TRUE(owned.allowed);
    EXPECT_EQ(json::dump(*owned.object.pointer("/metadata/annotations")),
              R"({"guard.example.com/owner":"alice"})");
    const Reviewed kept =
        review(host_, "owner", request(json::object(), {{"guard.example.com/owner", "bob"}}));
    EXPECT_EQ(json::dump(*kept.object.pointer("/metadata/annotations")),
              R"({"guard.example.com/owner":"bob"})");
    const Reviewed few = review(host_, "limits", request({{"a", "1"}}));
    EXPECT_TRUE(few.allowed);
    EXPECT_TRUE(few.object.is_null());
    EXPECT_EQ(json::dump(few.audit), R"({"keys":"1"})");
    const Reviewed none = review(host_, "limits", request(json::object()));
    EXPECT_EQ(json::dump(none.warnings), R"(["it has no data"])");
    const Reviewed many = review(host_, "limits", request({{"a", "1"}, {"b", "2"}}));
    EXPECT_FALSE(many.allowed);
    EXPECT_EQ(many.code, 403);
    EXPECT_EQ(many.message, "it has 2 keys; at most 1 are allowed here");
}

TEST_F(WebhookModule, ReadsLive) {
    const PluginUnderTest plugin(host_, &guard_entry, R"({"maxKeys": 1})");
    host_.put({{"apiVersion", "v1"},
               {"kind", "ConfigMap"},
               {"metadata", {{"namespace", "n"}, {"name", "guard-policy"}}},
               {"data", {{"maxKeys", "2"}}}});
    EXPECT_TRUE(review(host_, "limits", request({{"a", "1"}, {"b", "2"}})).allowed);
    EXPECT_EQ(host_.calls().front().verb, "client.get");
    host_.fail_call(1, CAPSTAN_E_UNAVAIL);
    const Reviewed failed = review(host_, "limits", request({{"a", "1"}}));
    EXPECT_FALSE(failed.allowed) << "no answer is no yes";
    EXPECT_EQ(failed.code, 500);
}

TEST_F(WebhookModule, UnknownWebhookIsAnError) {
    const PluginUnderTest plugin(host_, &guard_entry);
    const Reviewed unknown = review(host_, "other", request(json::object()));
    EXPECT_EQ(unknown.rc, CAPSTAN_E_UNSUPP);
    EXPECT_FALSE(unknown.answered);
}

using WebhookManifest = AbiTest;

TEST_F(WebhookManifest, WithoutCodeIsRefused) {
    EXPECT_NE(refusal(test_plugin("webhookless"))
                  .find("its manifest names webhooks, its code has no capstan.webhook/1"),
              std::string::npos);
}

TEST_F(WebhookManifest, IsShownByInspect) {
    const std::string text = to_text(inspect(test_plugin("guard")));
    EXPECT_NE(text.find("webhooks:\n"
                        "  owner: mutating at /mutate--v1-configmap, 5s, its failure refuses the "
                        "request\n"
                        "    CREATE of configmaps in group \"\", version v1\n"
                        "  limits: validating at /validate--v1-configmap, 5s"),
              std::string::npos)
        << text;
}

}  // namespace
}  // namespace capstan::plugin
