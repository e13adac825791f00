// The file of `capstan run --config FILE`: apiVersion
// config.capstan.dev/v1alpha1, kind OperatorConfig.
//
// docs/config.example.yaml shows every key with its default. Keys are public:
// additive only. Thread: values.
#pragma once

#include "capstan/error.hpp"
#include "capstan/json.hpp"
#include "runtime/config/document.hpp"

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace capstan::config {

inline constexpr std::string_view kConfigApiVersion = "config.capstan.dev/v1alpha1";
inline constexpr std::string_view kOperatorConfigKind = "OperatorConfig";
inline constexpr int kConcurrentDefault = 4;  // workers of one controller
inline constexpr int kConcurrentMax = 16;
// each costs a stream per watch, of which the cache takes 512
inline constexpr std::size_t kNamespacesMax = 32;

struct ControllerConfig {
    int max_concurrent{0};  // 0: what the plugin's manifest says, else kConcurrentDefault
};

// As in a manifest; "*" stands for everything.
struct PermissionConfig {
    std::vector<std::string> groups, resources, verbs, resource_names;
};

struct PluginConfig {
    bool enabled{true};
    std::string path;  // empty: searched in plugin_dirs
    std::map<std::string, bool> feature_gates;
    std::map<std::string, ControllerConfig> controllers;  // by name inside the plugin
    // What of its manifest's permissions the plugin may use; absent: all of them.
    std::optional<std::vector<PermissionConfig>> permissions;
    // handed to the plugin; it checks the keys
    json::Value config{json::object()};
};

struct TlsConfig {
    std::string certificate_file;  // empty: plain HTTP
    std::string key_file;
    std::string client_ca_file;
    std::string client_auth{"none"};  // none, request, require
};

struct ListenerConfig {
    bool enabled{true};
    std::string address{"127.0.0.1"};
    std::uint16_t port{0};
    TlsConfig tls;
    // of /metrics and /debug; ops only: none, kubernetes
    std::string authentication{"none"};
};

struct LimitsConfig {
    int requests_in_flight{32};  // to the API server, watches not counted
    std::chrono::nanoseconds request_timeout{std::chrono::seconds(30)};
    std::chrono::nanoseconds reconcile_timeout{std::chrono::minutes(2)};
    std::chrono::nanoseconds cache_sync_timeout{std::chrono::minutes(2)};
    std::int64_t cache_bytes{0};  // of all objects held; 0: no budget
};

struct LeaderElectionConfig {
    bool enabled{false};
    std::string lease_name{"capstan"};
    std::string lease_namespace;  // empty: the namespace the process runs in
    std::string identity;         // empty: the host's name; a random part is always added
    std::chrono::nanoseconds lease_duration{std::chrono::seconds(15)};
    std::chrono::nanoseconds renew_deadline{std::chrono::seconds(10)};
    std::chrono::nanoseconds retry_period{std::chrono::seconds(2)};
};

struct OperatorConfig {
    // by id (etcd.capstan.dev) or its first label (etcd)
    std::map<std::string, PluginConfig> plugins;
    std::vector<std::string> plugin_dirs{"/usr/lib/capstan/plugins"};
    std::string kubeconfig;               // empty: in-cluster, else $KUBECONFIG
    std::string context;                  // of the kubeconfig; empty: its current one
    std::vector<std::string> namespaces;  // empty: all
    ListenerConfig ops{true, "127.0.0.1", 8080, {}, "none"};
    ListenerConfig api{false, "127.0.0.1", 8081, {}, "none"};
    // Not from the file. A steward's door for the launcher beside it: a Unix socket.
    ListenerConfig api_local{false, "", 0, {}, "none"};
    // What `api` of a steward turns into while the files that it names are there.
    ListenerConfig api_secure{false, "", 0, {}, "none"};
    // The API server calls it, so it listens on all addresses, and TLS is a must.
    ListenerConfig webhook{false, "0.0.0.0", 9443, {}, "none"};
    std::string log_level{"info"};
    LimitsConfig limits;
    std::chrono::nanoseconds graceful_stop{std::chrono::seconds(30)};
    LeaderElectionConfig leader_election;
};

// A configuration and everything that is wrong with its text: a key that cannot be used has its
// default, so that more can be said about the rest.
struct CheckedConfig {
    OperatorConfig config;
    std::vector<std::string> problems;  // each with file, line and key
};
CheckedConfig check_operator_config(const Document& document);
// Errors: those of examine_file, where there is nothing to check.
Result<CheckedConfig> check_operator_config_file(const std::string& path);

// Checks everything and reports every problem at once. Errors: invalid.
Result<OperatorConfig> decode_operator_config(const Document& document);
// Reads and decodes. Errors: invalid, too_large, not_found, forbidden, unavailable.
Result<OperatorConfig> load_operator_config(const std::string& path);
// The whole configuration with defaults filled in; decodes to an equal one.
json::Value to_json(const OperatorConfig& config);
std::string print(const OperatorConfig& config);  // as YAML
// Every key that decoding knows, in the order it is read.
std::vector<FieldShape> operator_config_fields();
// The same as a Markdown table with defaults and meanings, for docs/operations.md.
std::string operator_config_reference();

}  // namespace capstan::config
