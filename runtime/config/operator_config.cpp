#include "runtime/config/operator_config.hpp"

#include "runtime/config/rbac_words.hpp"
#include "runtime/config/reader.hpp"
#include "runtime/config/yaml.hpp"

#include <arpa/inet.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

namespace capstan::config {

namespace {

using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;

constexpr std::int64_t kCacheBytesMax = std::int64_t{1} << 40;  // a TiB: more is a slip
constexpr std::size_t kNameBytesMax = 253;  // DNS subdomain, as Kubernetes names

// Letters, digits, "-" and "." as a DNS subdomain (RFC 1123).
bool is_dns_name(std::string_view text) noexcept {
    const auto alnum = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); };
    if (text.empty() || text.size() > kNameBytesMax || !alnum(text.front()) ||
        !alnum(text.back())) {
        return false;
    }
    return std::all_of(
        text.begin(), text.end(), [&](char c) { return alnum(c) || c == '-' || c == '.'; });
}

bool is_address(const std::string& text) noexcept {
    in6_addr address{};
    return ::inet_pton(AF_INET, text.c_str(), &address) == 1 ||
           ::inet_pton(AF_INET6, text.c_str(), &address) == 1;
}

void check_verb(Reader& reader, const std::string& verb) {
    if (verb == "*" || is_rbac_verb(verb)) {
        return;
    }
    std::vector<std::string_view> known = {"*"};
    known.insert(known.end(), kRbacVerbs.begin(), kRbacVerbs.end());
    const std::string_view close = nearest(verb, known);
    reader.problem(
        "verbs",
        "\"" + verb + "\" is no verb" +
            (close.empty() ? std::string() : ", did you mean \"" + std::string(close) + "\"?"));
}

// A rule that cannot match anything would take away a right in silence.
void check_permission(Reader& reader, const PermissionConfig& rule) {
    for (const std::string& group : rule.groups) {
        if (const std::string problem = rbac_group_problem(group, is_dns_name); !problem.empty()) {
            reader.problem("groups", problem);
        }
    }
    for (const std::string& resource : rule.resources) {
        if (const std::string problem = rbac_resource_problem(resource, is_dns_name);
            !problem.empty()) {
            reader.problem("resources", problem);
        }
    }
    for (const std::string& verb : rule.verbs) {
        check_verb(reader, verb);
    }
    const std::pair<const char*, const std::vector<std::string>*> lists[] = {
        {"groups", &rule.groups}, {"resources", &rule.resources}, {"verbs", &rule.verbs}};
    for (const auto& [key, list] : lists) {
        if (!reader.has(key)) {
            reader.problem(key, "missing");
        } else if (list->empty()) {
            reader.problem(key, "is empty: this rule permits nothing; leave it out");
        }
    }
}

void read_plugin(const std::string& name, Reader& reader, PluginConfig& plugin) {
    if (!is_dns_name(name)) {
        reader.problem(
            "", "\"" + name + "\" is no plugin id (lower case letters, digits, \"-\", \".\")");
    }
    reader.boolean("enabled", plugin.enabled);
    reader.text("path", plugin.path);
    reader.switches("featureGates",
                    [&](const std::string& gate, bool on) { plugin.feature_gates[gate] = on; });
    reader.each("controllers", [&](const std::string& controller, Reader& nested) {
        nested.integer(
            "maxConcurrent", plugin.controllers[controller].max_concurrent, 1, kConcurrentMax);
    });
    std::vector<PermissionConfig> rules;
    reader.list("permissions", [&](Reader& nested) {
        PermissionConfig rule;
        nested.texts("groups", rule.groups);
        nested.texts("resources", rule.resources);
        nested.texts("verbs", rule.verbs);
        nested.texts("resourceNames", rule.resource_names);
        check_permission(nested, rule);
        rules.push_back(std::move(rule));
    });
    if (reader.has("permissions")) {
        plugin.permissions = std::move(rules);  // an empty list permits nothing
    }
    reader.free("config", plugin.config);
}

void read_tls(Reader& reader, TlsConfig& tls) {
    reader.text("certificateFile", tls.certificate_file);
    reader.text("keyFile", tls.key_file);
    reader.text("clientCaFile", tls.client_ca_file);
    reader.choice("clientAuth", tls.client_auth, {"none", "request", "require"});
    if (tls.certificate_file.empty() != tls.key_file.empty()) {
        reader.problem("", "certificateFile and keyFile go together");
    }
    if (tls.client_auth != "none" && tls.client_ca_file.empty()) {
        reader.problem("clientAuth", "\"" + tls.client_auth + "\" needs clientCaFile");
    }
    if (tls.client_auth != "none" && tls.certificate_file.empty()) {
        reader.problem("clientAuth",
                       "\"" + tls.client_auth + "\" needs certificateFile and keyFile");
    }
}

void read_listener(Reader& reader, ListenerConfig& listener, bool* says_client_auth = nullptr) {
    reader.boolean("enabled", listener.enabled);
    reader.text("address", listener.address);
    reader.integer("port", listener.port, 0, 65535);  // 0: any free one, said in the log
    reader.object("tls", [&](Reader& tls) {
        read_tls(tls, listener.tls);
        if (says_client_auth != nullptr) {
            *says_client_auth = tls.has("clientAuth");
        }
    });
    if (!is_address(listener.address)) {
        reader.problem("address",
                       "\"" + listener.address +
                           "\" is no IP address; write 127.0.0.1, or 0.0.0.0 or :: for all");
    }
}

void read_limits(Reader& reader, LimitsConfig& limits) {
    reader.integer("requestsInFlight", limits.requests_in_flight, 1, 1024);
    reader.duration("requestTimeout", limits.request_timeout, milliseconds(100), minutes(10));
    reader.duration("reconcileTimeout", limits.reconcile_timeout, milliseconds(100), hours(24));
    reader.duration("cacheSyncTimeout", limits.cache_sync_timeout, seconds(1), hours(1));
    reader.integer("cacheBytes", limits.cache_bytes, 0, kCacheBytesMax);
}

// leaseDuration > renewDeadline > retryPeriod x 1.2 (client-go's jitter), or
// two leaders can overlap.
void read_election(Reader& reader, LeaderElectionConfig& election) {
    reader.boolean("enabled", election.enabled);
    reader.text("leaseName", election.lease_name);
    reader.text("leaseNamespace", election.lease_namespace);
    reader.text("identity", election.identity);
    reader.duration("leaseDuration", election.lease_duration, seconds(1), hours(1));
    reader.duration("renewDeadline", election.renew_deadline, milliseconds(500), hours(1));
    reader.duration("retryPeriod", election.retry_period, milliseconds(100), hours(1));
    if (!is_dns_name(election.lease_name)) {
        reader.problem("leaseName", "\"" + election.lease_name + "\" is no object name");
    }
    if (!election.lease_namespace.empty() && !is_dns_name(election.lease_namespace)) {
        reader.problem("leaseNamespace",
                       "\"" + election.lease_namespace + "\" is no namespace name");
    }
    if (!election.identity.empty() && !is_dns_name(election.identity)) {
        reader.problem("identity",
                       "\"" + election.identity +
                           "\" is no name; use lower case letters, digits, \"-\" and \".\", as in "
                           "a pod's name");
    }
    if (election.lease_duration <= election.renew_deadline) {
        reader.problem("leaseDuration",
                       "must be longer than renewDeadline; raise it, or lower renewDeadline");
    }
    if (election.renew_deadline * 5 <= election.retry_period * 6) {
        reader.problem("renewDeadline",
                       "must be longer than 1.2 x retryPeriod; raise it, or lower retryPeriod");
    }
}

void read_webhook_listener(Reader& reader, ListenerConfig& listener) {
    bool says_client_auth = false;
    listener.enabled = true;  // naming it turns it on
    read_listener(reader, listener, &says_client_auth);
    if (listener.enabled && listener.tls.certificate_file.empty()) {
        reader.problem("tls",
                       "the API server calls webhooks over TLS only; give certificateFile and "
                       "keyFile, or write enabled: false");
    }
    if (!listener.tls.client_ca_file.empty() && !says_client_auth) {
        listener.tls.client_auth = "require";  // a CA for nothing would look like protection
    }
}

void check_listeners(Reader& root, const OperatorConfig& config) {
    const std::pair<const char*, const ListenerConfig*> listeners[] = {
        {"ops", &config.ops}, {"api", &config.api}, {"webhook", &config.webhook}};
    for (std::size_t i = 0; i < std::size(listeners); ++i) {
        for (std::size_t j = i + 1; j < std::size(listeners); ++j) {
            const ListenerConfig& one = *listeners[i].second;
            const ListenerConfig& other = *listeners[j].second;
            if (one.enabled && other.enabled && one.port != 0 && one.port == other.port) {
                root.problem("listeners",
                             std::string(listeners[i].first) + " and " + listeners[j].first +
                                 " have the same port " + std::to_string(one.port));
            }
        }
    }
}

// "etcd" and "etcd.capstan.dev" name the same plugin.
void check_plugin_names(Reader& root, const OperatorConfig& config) {
    std::set<std::string> full;
    for (const auto& [name, plugin] : config.plugins) {
        if (name.find('.') != std::string::npos) {
            full.insert(name.substr(0, name.find('.')));
        }
    }
    for (const auto& [name, plugin] : config.plugins) {
        if (full.contains(name)) {
            root.problem("plugins",
                         "\"" + name + "\" is configured twice, by id and by short name");
        }
    }
}

// Every key, and what holds for one alone.
OperatorConfig read_all(Reader& root) {
    OperatorConfig config;
    std::string api_version;
    std::string kind;
    root.require("apiVersion");
    root.require("kind");
    root.choice("apiVersion", api_version, {kConfigApiVersion});
    root.choice("kind", kind, {kOperatorConfigKind});
    root.each("plugins", [&](const std::string& name, Reader& reader) {
        read_plugin(name, reader, config.plugins[name]);
    });
    root.texts("pluginDirs", config.plugin_dirs);
    root.text("kubeconfig", config.kubeconfig);
    root.text("context", config.context);
    root.texts("namespaces", config.namespaces);
    root.object("listeners", [&](Reader& listeners) {
        listeners.object("ops", [&](Reader& ops) {
            read_listener(ops, config.ops);
            ops.choice("authentication", config.ops.authentication, {"none", "kubernetes"});
        });
        // Naming the api listener turns it on.
        listeners.object("api", [&](Reader& api) {
            config.api.enabled = true;
            read_listener(api, config.api);
        });
        listeners.object("webhook",
                         [&](Reader& webhook) { read_webhook_listener(webhook, config.webhook); });
    });
    root.object("logging", [&](Reader& logging) {
        logging.choice("level", config.log_level, {"debug", "info", "warn", "error"});
    });
    root.object("limits", [&](Reader& limits) { read_limits(limits, config.limits); });
    root.duration("gracefulStop", config.graceful_stop, seconds(0), hours(1));
    root.object("leaderElection",
                [&](Reader& election) { read_election(election, config.leader_election); });
    root.finish();
    return config;
}

}  // namespace

std::vector<FieldShape> operator_config_fields() {
    const Document document = from_json(json::object(), "");
    std::vector<FieldShape> fields;
    Problems problems(document);
    problems.record(fields);
    Reader root(document.value, "", problems);
    read_all(root);
    return fields;
}

CheckedConfig check_operator_config(const Document& document) {
    Problems problems(document);
    Reader root(document.value, "", problems);
    CheckedConfig checked;
    checked.config = read_all(root);
    const OperatorConfig& config = checked.config;
    if (config.namespaces.size() > kNamespacesMax) {
        root.problem("namespaces",
                     "more than " + std::to_string(kNamespacesMax) +
                         "; leave it empty and give the rights by RoleBindings");
    }
    for (std::size_t i = 0; i < config.namespaces.size(); ++i) {
        if (!is_dns_name(config.namespaces[i])) {
            root.problem("namespaces", "\"" + config.namespaces[i] + "\" is no namespace name");
        } else if (std::count(config.namespaces.begin(),
                              config.namespaces.end(),
                              config.namespaces[i]) > 1) {
            root.problem("namespaces", "\"" + config.namespaces[i] + "\" is named twice");
        }
    }
    check_listeners(root, config);
    check_plugin_names(root, config);
    checked.problems = problems.texts();
    return checked;
}

Result<CheckedConfig> check_operator_config_file(const std::string& path) {
    CAPSTAN_TRY(Examined examined, examine_file(path));
    CheckedConfig checked = check_operator_config(examined.document);
    checked.problems.insert(
        checked.problems.begin(), examined.problems.begin(), examined.problems.end());
    return checked;
}

namespace {

Result<OperatorConfig> unless_wrong(CheckedConfig checked) {
    if (checked.problems.empty()) {
        return std::move(checked.config);
    }
    Error error{Code::invalid, {}, {}};
    for (const std::string& text : checked.problems) {
        error.message += (error.message.empty() ? "" : "\n") + text;
    }
    return fail(std::move(error));
}

}  // namespace

Result<OperatorConfig> decode_operator_config(const Document& document) {
    return unless_wrong(check_operator_config(document));
}

Result<OperatorConfig> load_operator_config(const std::string& path) {
    CAPSTAN_TRY(CheckedConfig checked, check_operator_config_file(path));
    return unless_wrong(std::move(checked));
}

}  // namespace capstan::config
