// Reading the webhooks of a manifest.
#include "runtime/plugin/manifest_reader.hpp"

#include <algorithm>
#include <iterator>

namespace capstan::plugin {
namespace {

// Texts of which each is one of `allowed`.
void check_texts(StrictObject& item,
                 std::string_view key,
                 const std::vector<std::string>& texts,
                 std::initializer_list<std::string_view> allowed) {
    for (const std::string& text : texts) {
        if (std::find(allowed.begin(), allowed.end(), text) == allowed.end()) {
            std::string known;
            for (const std::string_view entry : allowed) {
                known += (known.empty() ? "" : ", ") + std::string(entry);
            }
            item.problem(key, "\"" + text + "\" is none of " + known);
        }
    }
}

WebhookRule read_rule(const json::Value& value, const std::string& path, Problems& problems) {
    StrictObject item(value, path, problems);
    WebhookRule rule;
    rule.groups = item.texts("groups", Need::required);
    rule.versions = item.texts("versions", Need::required);
    rule.resources = item.texts("resources", Need::required);
    rule.operations = item.texts("operations", Need::required);
    rule.scope = item.one_of("scope", {"*", "Cluster", "Namespaced"}, "*");
    check_texts(
        item, "operations", rule.operations, {"CREATE", "UPDATE", "DELETE", "CONNECT", "*"});
    item.finish();
    return rule;
}

json::Value read_object(StrictObject& item, std::string_view key) {
    const json::Value* value = item.take(key);
    if (value == nullptr) {
        return {};
    }
    if (!value->is_object()) {
        item.problem(key, "expected an object");
    }
    return *value;
}

void read_path(StrictObject& item, WebhookSpec& webhook) {
    webhook.path = item.text("path");
    const std::string gvk = item.text("gvk");
    if (webhook.path.empty() == gvk.empty()) {
        item.problem("path", "needs either \"path\", or \"gvk\" for the usual path");
        return;
    }
    if (!gvk.empty()) {
        const auto parsed = GroupVersionKind::parse(gvk);
        if (!parsed) {
            return item.problem("gvk", parsed.error().message);
        }
        webhook.path = webhook_path(webhook.mutating, parsed.value());
    } else if (webhook.path.front() != '/' ||
               webhook.path.find_first_of("?# ") != std::string::npos) {
        item.problem("path", "expected a path that begins with '/', without query or blanks");
    }
}

WebhookSpec read_webhook(const json::Value& value, const std::string& path, Problems& problems) {
    StrictObject item(value, path, problems);
    WebhookSpec webhook;
    webhook.name = item.text("name", Need::required);
    const std::string kind = item.text("kind", Need::required);
    if (!kind.empty()) {
        check_texts(item, "kind", {kind}, {"mutating", "validating"});
    }
    webhook.mutating = kind == "mutating";
    read_path(item, webhook);
    const json::Array& rules = item.list("rules", Need::required);
    if (rules.empty() && value.find("rules") != nullptr) {
        item.problem("rules", "must not be empty");
    }
    for (std::size_t i = 0; i < rules.size(); ++i) {
        webhook.rules.push_back(
            read_rule(rules[i], item.at("rules") + "/" + std::to_string(i), problems));
    }
    webhook.failure_policy = item.one_of("failurePolicy", {"Fail", "Ignore"}, "Fail");
    webhook.match_policy = item.one_of("matchPolicy", {"Equivalent", "Exact"}, "Equivalent");
    webhook.side_effects = item.one_of("sideEffects", {"None", "NoneOnDryRun"}, "None");
    webhook.reinvocation_policy = item.one_of("reinvocationPolicy", {"Never", "IfNeeded"}, "Never");
    if (!webhook.mutating && webhook.reinvocation_policy != "Never") {
        item.problem("reinvocationPolicy", "only mutating webhooks are asked again");
    }
    webhook.timeout_seconds =
        item.number("timeoutSeconds", kWebhookTimeoutSecondsDefault, 1, kWebhookTimeoutSecondsMax);
    webhook.namespace_selector = read_object(item, "namespaceSelector");
    webhook.object_selector = read_object(item, "objectSelector");
    if (const json::Array& conditions = item.list("matchConditions"); !conditions.empty()) {
        webhook.match_conditions = json::Value(conditions);
    }
    item.finish(true);
    return webhook;
}

}  // namespace

std::string webhook_path(bool mutating, const GroupVersionKind& gvk) {
    std::string path = (mutating ? "/mutate-" : "/validate-") + gvk.group + "-" + gvk.version + "-";
    std::replace(path.begin(), path.end(), '.', '-');
    std::transform(gvk.kind.begin(), gvk.kind.end(), std::back_inserter(path), [](char c) {
        return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    });
    return path;
}

void read_webhooks(StrictObject& top, Manifest& manifest, Problems& problems) {
    const json::Array& items = top.list("webhooks");
    for (std::size_t i = 0; i < items.size(); ++i) {
        manifest.webhooks.push_back(
            read_webhook(items[i], top.at("webhooks") + "/" + std::to_string(i), problems));
    }
}

}  // namespace capstan::plugin
