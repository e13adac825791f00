#include "runtime/config/operator_config.hpp"
#include "runtime/config/yaml.hpp"

namespace capstan::config {

namespace {

// Go's notation, so that parse_duration reads it back: "15s", "250ms".
std::string duration_text(std::chrono::nanoseconds value) {
    const auto ns = value.count();
    if (ns % 1'000'000'000 == 0) {
        return std::to_string(ns / 1'000'000'000) + "s";
    }
    if (ns % 1'000'000 == 0) {
        return std::to_string(ns / 1'000'000) + "ms";
    }
    return std::to_string(ns) + "ns";
}

json::Value texts(const std::vector<std::string>& items) {
    json::Value list = json::list();
    for (const std::string& item : items) {
        list.push_back(item);
    }
    return list;
}

json::Value rules_json(const std::vector<PermissionConfig>& rules) {
    json::Value list = json::list();
    for (const PermissionConfig& rule : rules) {
        json::Value entry = {{"groups", texts(rule.groups)},
                             {"resources", texts(rule.resources)},
                             {"verbs", texts(rule.verbs)}};
        if (!rule.resource_names.empty()) {
            entry.set("resourceNames", texts(rule.resource_names));
        }
        list.push_back(std::move(entry));
    }
    return list;
}

json::Value plugin_json(const PluginConfig& plugin) {
    json::Value gates = json::object();
    for (const auto& [gate, on] : plugin.feature_gates) {
        gates.set(gate, on);
    }
    json::Value controllers = json::object();
    for (const auto& [name, controller] : plugin.controllers) {
        json::Value entry = json::object();
        if (controller.max_concurrent > 0) {
            entry.set("maxConcurrent", controller.max_concurrent);
        }
        controllers.set(name, std::move(entry));
    }
    json::Value out = {{"enabled", plugin.enabled}};
    if (!plugin.path.empty()) {
        out.set("path", plugin.path);
    }
    out.set("featureGates", std::move(gates));
    out.set("controllers", std::move(controllers));
    if (plugin.permissions) {
        out.set("permissions", rules_json(*plugin.permissions));
    }
    out.set("config", plugin.config);
    return out;
}

json::Value listener_json(const ListenerConfig& listener) {
    json::Value out = {
        {"enabled", listener.enabled}, {"address", listener.address}, {"port", listener.port}};
    if (!listener.tls.certificate_file.empty()) {
        out.set("tls",
                {{"certificateFile", listener.tls.certificate_file},
                 {"keyFile", listener.tls.key_file},
                 {"clientCaFile", listener.tls.client_ca_file},
                 {"clientAuth", listener.tls.client_auth}});
    }
    return out;
}

json::Value listeners_json(const OperatorConfig& config) {
    json::Value ops = listener_json(config.ops);
    ops.set("authentication", config.ops.authentication);
    json::Value out = {{"ops", std::move(ops)}, {"api", listener_json(config.api)}};
    out.set("webhook", listener_json(config.webhook));
    return out;
}

}  // namespace

json::Value to_json(const OperatorConfig& config) {
    json::Value plugins = json::object();
    for (const auto& [name, plugin] : config.plugins) {
        plugins.set(name, plugin_json(plugin));
    }
    return {
        {"apiVersion", kConfigApiVersion},
        {"kind", kOperatorConfigKind},
        {"plugins", std::move(plugins)},
        {"pluginDirs", texts(config.plugin_dirs)},
        {"kubeconfig", config.kubeconfig},
        {"context", config.context},
        {"namespaces", texts(config.namespaces)},
        {"listeners", listeners_json(config)},
        {"logging", {{"level", config.log_level}}},
        {"limits",
         {{"requestsInFlight", config.limits.requests_in_flight},
          {"requestTimeout", duration_text(config.limits.request_timeout)},
          {"reconcileTimeout", duration_text(config.limits.reconcile_timeout)},
          {"cacheSyncTimeout", duration_text(config.limits.cache_sync_timeout)},
          {"cacheBytes", config.limits.cache_bytes}}},
        {"gracefulStop", duration_text(config.graceful_stop)},
        {"leaderElection",
         {{"enabled", config.leader_election.enabled},
          {"leaseName", config.leader_election.lease_name},
          {"leaseNamespace", config.leader_election.lease_namespace},
          {"identity", config.leader_election.identity},
          {"leaseDuration", duration_text(config.leader_election.lease_duration)},
          {"renewDeadline", duration_text(config.leader_election.renew_deadline)},
          {"retryPeriod", duration_text(config.leader_election.retry_period)}}},
    };
}

std::string print(const OperatorConfig& config) {
    return to_yaml(to_json(config));
}

}  // namespace capstan::config
