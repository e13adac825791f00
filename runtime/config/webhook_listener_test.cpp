#include "runtime/config/operator_config.hpp"
#include "runtime/config/yaml.hpp"

#include <gtest/gtest.h>

#include <ostream>
#include <string>

namespace capstan::config {
namespace {

Result<OperatorConfig> decode(const std::string& listeners) {
    const auto document = load(
        "apiVersion: config.capstan.dev/v1alpha1\nkind: OperatorConfig\nlisteners: " + listeners +
            "\n",
        "f");
    return document ? decode_operator_config(document.value())
                    : Result<OperatorConfig>(fail(document.error()));
}

TEST(WebhookListener, IsOffUnlessNamed) {
    const OperatorConfig config = decode("{}").value();
    EXPECT_FALSE(config.webhook.enabled);
    EXPECT_EQ(config.webhook.port, 9443);
    EXPECT_EQ(config.webhook.address, "0.0.0.0");
    const OperatorConfig named =
        decode("{webhook: {tls: {certificateFile: /c, keyFile: /k}}}").value();
    EXPECT_TRUE(named.webhook.enabled);
    EXPECT_EQ(named.webhook.tls.client_auth, "none");
    EXPECT_FALSE(decode("{webhook: {enabled: false}}").value().webhook.enabled);
}

TEST(WebhookListener, AClientCaMeansItIsRequired) {
    const std::string tls = "certificateFile: /c, keyFile: /k, clientCaFile: /ca";
    EXPECT_EQ(decode("{webhook: {tls: {" + tls + "}}}").value().webhook.tls.client_auth, "require");
    EXPECT_EQ(decode("{webhook: {tls: {" + tls + ", clientAuth: request}}}")
                  .value()
                  .webhook.tls.client_auth,
              "request");
}

TEST(WebhookListener, IsPrinted) {
    const OperatorConfig config =
        decode("{webhook: {port: 1, tls: {certificateFile: /c, keyFile: /k}}}").value();
    const auto again = decode_operator_config(load(print(config), "f").value());
    ASSERT_TRUE(again) << again.error().message;
    EXPECT_EQ(to_json(again.value()), to_json(config));
    EXPECT_EQ(again.value().webhook.port, 1);
}

struct Row {
    const char* name;
    const char* listeners;
    const char* problem;
};
std::ostream& operator<<(std::ostream& out, const Row& row) {
    return out << row.name;
}
class RefusedWebhookListener : public ::testing::TestWithParam<Row> {};

TEST_P(RefusedWebhookListener, SaysWhy) {
    const auto config = decode(GetParam().listeners);
    ASSERT_FALSE(config);
    EXPECT_EQ(config.error().message, GetParam().problem);
}

INSTANTIATE_TEST_SUITE_P(
    Rules,
    RefusedWebhookListener,
    ::testing::Values(
        Row{"without_tls",
            "{webhook: {port: 9443}}",
            "f:3: /listeners/webhook/tls: the API server calls webhooks over TLS only; give "
            "certificateFile and keyFile, or write enabled: false"},
        Row{"port_of_another",
            "{ops: {port: 9443}, webhook: {tls: {certificateFile: /c, keyFile: /k}}}",
            "f:3: /listeners: ops and webhook have the same port 9443"},
        Row{"misspelt",
            "{webhok: {}}",
            "f:3: /listeners/webhok: unknown key \"webhok\", did you mean \"webhook\"?"}),
    [](const auto& row) { return row.param.name; });

}  // namespace
}  // namespace capstan::config
