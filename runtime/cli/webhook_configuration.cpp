#include "runtime/cli/webhook_configuration.hpp"

#include "runtime/cli/local_identity.hpp"
#include "runtime/plugin/inspect.hpp"
#include "runtime/plugin/strict_object.hpp"

namespace capstan::cli {
namespace {

json::Value rules_of(const plugin::WebhookSpec& webhook) {
    json::Value rules = json::list();
    for (const plugin::WebhookRule& rule : webhook.rules) {
        rules.push_back({
            {"apiGroups", plugin::list_of(rule.groups)},
            {"apiVersions", plugin::list_of(rule.versions)},
            {"resources", plugin::list_of(rule.resources)},
            {"operations", plugin::list_of(rule.operations)},
            {"scope", rule.scope},
        });
    }
    return rules;
}

json::Value client_config(const WebhookTarget& target, const std::string& path) {
    json::Value config = {{"caBundle", base64(target.ca_pem)}};
    if (target.url.empty()) {
        config.set("service",
                   {{"name", target.service},
                    {"namespace", target.ns},
                    {"path", path},
                    {"port", target.port}});
    } else {
        config.set("url", target.url + path);
    }
    return config;
}

json::Value entry(const plugin::Manifest& manifest,
                  const plugin::WebhookSpec& webhook,
                  const WebhookTarget& target) {
    json::Value made = {
        {"name", webhook.name + "." + manifest.id},
        {"admissionReviewVersions", json::list({"v1", "v1beta1"})},
        {"clientConfig", client_config(target, webhook.path)},
        {"rules", rules_of(webhook)},
        {"failurePolicy", webhook.failure_policy},
        {"matchPolicy", webhook.match_policy},
        {"sideEffects", webhook.side_effects},
        {"timeoutSeconds", webhook.timeout_seconds},
    };
    const std::pair<const char*, const json::Value*> selectors[] = {
        {"namespaceSelector", &webhook.namespace_selector},
        {"objectSelector", &webhook.object_selector},
        {"matchConditions", &webhook.match_conditions},
    };
    for (const auto& [key, value] : selectors) {
        if (!value->is_null()) {
            made.set(key, *value);
        }
    }
    if (webhook.mutating) {
        made.set("reinvocationPolicy", webhook.reinvocation_policy);
    }
    return made;
}

}  // namespace

Result<void> check_object_name(const std::string& option, const std::string& name) {
    if (plugin::is_dns_subdomain(name)) {
        return ok();
    }
    return fail(Code::invalid,
                option + ": \"" + name +
                    "\" is no object name: small letters, digits, \"-\" and \".\", at most 253");
}

Result<void> check_target(const WebhookTarget& target) {
    if (target.url.empty() == target.service.empty()) {
        return fail(Code::invalid,
                    "give either --service NAME with --namespace NS, or --url https://HOST:PORT");
    }
    if (!target.service.empty() && target.ns.empty()) {
        return fail(Code::invalid, "--service needs --namespace, the Service's");
    }
    // A Service's name begins with a letter (DNS-1035), a namespace's may be a digit.
    if (!target.service.empty() &&
        (!plugin::is_dns_label(target.service) || target.service.front() <= '9')) {
        return fail(
            Code::invalid,
            "--service: \"" + target.service +
                "\" is no Service name: small letters, digits and \"-\", a letter first, at "
                "most 63");
    }
    if (!target.ns.empty() && !plugin::is_dns_label(target.ns)) {
        return fail(Code::invalid,
                    "--namespace: \"" + target.ns +
                        "\" is no namespace name: small letters, digits and \"-\", at most 63");
    }
    if (!target.url.empty() && !target.url.starts_with("https://")) {
        return fail(Code::invalid, "--url: the API server calls https:// only");
    }
    if (!target.url.empty() && target.url.find('/', 8) != std::string::npos) {
        return fail(Code::invalid, "--url: give host and port; the paths are the webhooks'");
    }
    if (target.ca_pem.find("-----BEGIN CERTIFICATE-----") == std::string::npos) {
        return fail(Code::invalid, "--ca-file: holds no PEM certificate");
    }
    if (target.ca_pem.find("PRIVATE KEY-----") != std::string::npos) {
        return fail(Code::invalid,
                    "--ca-file: holds a private key, which everybody could read in the "
                    "configuration; give the CA's certificate alone");
    }
    return ok();
}

json::Value webhook_configurations(const std::string& name,
                                   const WebhookTarget& target,
                                   const std::vector<plugin::Manifest>& manifests) {
    json::Value items = json::list();
    for (const bool mutating : {true, false}) {
        json::Value webhooks = json::list();
        for (const plugin::Manifest& manifest : manifests) {
            for (const plugin::WebhookSpec& webhook : manifest.webhooks) {
                if (webhook.mutating == mutating) {
                    webhooks.push_back(entry(manifest, webhook, target));
                }
            }
        }
        if (!webhooks.if_array()->empty()) {
            items.push_back({
                {"apiVersion", "admissionregistration.k8s.io/v1"},
                {"kind",
                 mutating ? "MutatingWebhookConfiguration" : "ValidatingWebhookConfiguration"},
                {"metadata", {{"name", name}}},
                {"webhooks", std::move(webhooks)},
            });
        }
    }
    return {{"apiVersion", "v1"}, {"kind", "List"}, {"items", std::move(items)}};
}

}  // namespace capstan::cli
