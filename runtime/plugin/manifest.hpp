// The manifest of a plugin, schema 1: what it watches, needs, offers and may do. Pure data, checked
// whole before any code of the plugin runs. The document format is sdk/share/manifest.schema.json
// and docs/plugin-guide.md.
// Thread: any (values).
#pragma once

#include "capstan/error.hpp"
#include "capstan/json.hpp"
#include "capstan/object_ref.hpp"
#include "runtime/plugin/gates.hpp"
#include "runtime/plugin/map_rule.hpp"
#include "runtime/plugin/predicate.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace capstan::plugin {

inline constexpr std::size_t kManifestBytesMax = 256 * 1024;
inline constexpr std::size_t kManifestDepthMax = 64;
inline constexpr std::size_t kManifestItemsMax = 256;  // entries per list or map
inline constexpr std::size_t kManifestTextBytesMax = 1024;
inline constexpr std::uint32_t kWorkersDefault = 4;
inline constexpr std::uint32_t kWorkersMax = 16;
inline constexpr std::chrono::seconds kReconcileDeadlineDefault{60};
inline constexpr std::chrono::seconds kReconcileDeadlineMin{1};
inline constexpr std::chrono::seconds kReconcileDeadlineMax{15 * 60};
inline constexpr std::chrono::seconds kResyncEveryMin{10};
inline constexpr std::uint32_t kWebhookTimeoutSecondsDefault = 10;
inline constexpr std::uint32_t kWebhookTimeoutSecondsMax = 30;  // the API server's limit

// A value written in the manifest, or taken from the plugin's configuration or the
// process's environment.
struct ValueSource {
    enum class Kind : std::uint8_t { literal, config, environment };
    Kind kind{Kind::literal};
    std::string text;  // the value, a JSON pointer, or a variable's name
};

// Narrows a watch on the server. Absent members do not narrow.
struct Select {
    std::optional<ValueSource> ns, name;
    std::optional<ValueSource> labels;  // a label selector
    std::vector<std::pair<std::string, ValueSource>> fields;
};

enum class Role : std::uint8_t { primary, owns, maps };  // "for", "owns", "maps"
std::string_view to_string(Role role) noexcept;

struct Watch {
    GroupVersionKind gvk;
    Role role{Role::primary};
    // What the cache keeps of each object besides apiVersion and kind: pointers of one or two
    // tokens. Metadata is always kept and need not be named. Empty: everything.
    std::vector<std::string> keep;
    Select select;
    Predicate predicate;
    MapRule map;
    bool every_event{true};  // the manifest names no predicate
    // An event that shows what a reconcile of the same key wrote does not wake the key.
    bool ignore_own_writes{false};
};

struct ControllerSpec {
    std::string name;
    std::uint32_t max_concurrent{kWorkersDefault};
    std::chrono::nanoseconds deadline{kReconcileDeadlineDefault};
    std::optional<std::chrono::nanoseconds> resync_every;
    bool async{false};
    std::uint32_t threads{0};
    std::string side_effects{"api-only"};  // or "external"
    std::vector<Watch> watches;            // exactly one with Role::primary, and it is the first

    const Watch& primary() const { return watches.front(); }
};

struct ServiceSpec {
    std::string name;
};

struct RouteSpec {
    std::string name;
    std::string path;                  // exact; or
    std::string prefix;                // ends with "/"; exactly one of the two is set
    std::vector<std::string> methods;  // empty: every method
    bool runs_long{false};             // "class": "long"
};

// What the API server shall ask about, as in admissionregistration.k8s.io/v1.
struct WebhookRule {
    std::vector<std::string> groups, versions, resources, operations;
    std::string scope{"*"};  // or "Cluster", "Namespaced"
};

struct WebhookSpec {
    std::string name;
    bool mutating{false};  // "kind": "mutating"
    std::string path;      // given, or by convention from "gvk"
    std::vector<WebhookRule> rules;
    std::string failure_policy{"Fail"};      // or "Ignore"
    std::string match_policy{"Equivalent"};  // or "Exact"
    std::string side_effects{"None"};        // or "NoneOnDryRun"
    std::string reinvocation_policy{"Never"};
    std::uint32_t timeout_seconds{kWebhookTimeoutSecondsDefault};
    // as written, for the API server to check; null: absent
    json::Value namespace_selector, object_selector, match_conditions;
};

struct CliCommand {
    std::string name, summary;
};

struct PermissionRule {
    std::vector<std::string> groups, resources, verbs, resource_names;
};

struct CrdRef {
    std::string group, kind, storage, schema_digest, shipped_in;
    std::vector<std::string> versions;
};

struct Manifest {
    std::string id;
    std::string version;
    std::uint32_t abi_major{1}, abi_min_minor{0}, abi_built_minor{0};
    std::vector<std::string> extensions;  // required host extensions
    std::string kubernetes;               // ">=1.29" or empty
    std::vector<ControllerSpec> controllers;
    std::vector<ServiceSpec> services;
    std::vector<RouteSpec> routes;
    std::vector<WebhookSpec> webhooks;
    std::vector<CliCommand> cli;
    GateTable gates;
    std::vector<PermissionRule> permissions, grants;
    std::vector<CrdRef> crds;
    std::vector<std::string> finalizers;
    std::string field_manager;
    json::Value config_schema;  // null: the plugin takes no configuration
    std::string handover{"none"};
    std::string isolation_minimum{"in-process"};
    std::string license;
    json::Value document;  // as written

    // True when a permission rule covers it. `resource` may be "etcds/status";
    // `name` empty: all names.
    bool allows(std::string_view verb,
                std::string_view group,
                std::string_view resource,
                std::string_view name = "") const;
};

// What the host offers; a plugin that needs more is refused.
struct HostOffer {
    std::uint32_t abi_major{1}, abi_minor{0};
    std::vector<std::string> extensions;  // empty: every extension of ABI 1.0
    bool draft_extensions{false};         // accept "capstan.draft.…/n"
};

// The whole check; every problem at once, each one sentence that begins with the JSON pointer of
// its place. Problems of meaning that need no other file are included: permissions that do not
// cover a watch, unknown extensions or gates, predicates that do not compile, duplicate names,
// process isolation. nullopt when `problems` is not empty.
std::optional<Manifest> parse_manifest(std::string_view text,
                                       const HostOffer& host,
                                       Problems& problems);
// The same as one Error (invalid) that joins the problems.
Result<Manifest> parse_manifest(std::string_view text, const HostOffer& host = {});

// Every extension id this source tree knows for ABI 1.0, sorted.
const std::vector<std::string>& known_extensions();

// The usual path of a webhook: "/validate-apps-v1-deployment"; core group: "/mutate--v1-pod".
std::string webhook_path(bool mutating, const GroupVersionKind& gvk);

// "StatefulSet" -> "statefulsets", as kubectl guesses; used to compare watches with permissions.
std::string plural_of(std::string_view kind);

}  // namespace capstan::plugin
