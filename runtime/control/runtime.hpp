// The heart of the host: watches feed queues, workers of each plugin take keys and call reconcile,
// host calls come back.
//
//     control::Runtime runtime({loop, threads, client, cache, log, metrics, health, …}, options);
//     // for the plugin's entry
//     const capstan_host* host = runtime.host_for(candidate.manifest());
//     runtime.add({module->manifest(), &module->table(), …});
//     runtime.start();
//     …
//     runtime.lead();  // only when options.standby
//     …
//     runtime.stop(30s, [&](const StopReport& report) { … });
//
// One plugin cannot stop another: each has its own workers, supervisor, services and instance. What
// happens to a call past its deadline, to an instance that panicked, and to writes that would
// change nothing is said in docs/architecture.md. Thread: [io] unless tagged; nothing here blocks.
#pragma once

#include "capstan/capstan.h"
#include "capstan/error.hpp"
#include "capstan/webhook.h"
#include "runtime/cache/cache.hpp"
#include "runtime/control/threads.hpp"
#include "runtime/kube/admission.hpp"
#include "runtime/kube/client.hpp"
#include "runtime/net/http.hpp"
#include "runtime/net/loop.hpp"
#include "runtime/obs/health.hpp"
#include "runtime/obs/log.hpp"
#include "runtime/obs/metrics.hpp"
#include "runtime/plugin/manifest.hpp"
#include "runtime/queue/work_queue.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace capstan::control {

// past the deadline: then the call is fenced
inline constexpr std::chrono::seconds kCallGrace{10};
inline constexpr std::chrono::seconds kStopGrace{30};  // default of stop()
// longest hold of a key for the cache to reach our own writes
inline constexpr std::chrono::seconds kOwnWritesWait{5};
inline constexpr std::chrono::milliseconds kOwnWritesPoll{20};
// A key that ran kHotRuns times in kHotWindow is hot: from then on events, and what a run itself
// asks for, run it at most once in kHotPause until the window ends.
inline constexpr std::uint32_t kHotRuns = 60;
inline constexpr std::chrono::seconds kHotWindow{60};
inline constexpr std::chrono::seconds kHotPause{1};
inline constexpr std::size_t kStuckWorkersMax = 16;  // per controller: as many are replaced
// within kPanicsWindow: the plugin is stopped
inline constexpr std::size_t kPanicsMax = 3;
inline constexpr std::chrono::minutes kPanicsWindow{10};
inline constexpr std::chrono::seconds kRecreateFirst{1};  // doubled per panic in the window
inline constexpr std::chrono::seconds kServiceBackoffFirst{1};
inline constexpr std::chrono::seconds kServiceBackoffMax{60};
inline constexpr std::size_t kHeldObjectsMax = 1000;   // by one call; more is counted as a leak
inline constexpr std::size_t kListItemsMax = 100'000;  // of one host list call
inline constexpr std::size_t kPluginsMax = 64;
inline constexpr std::size_t kDebugKeysMax = 200;   // of one controller on the debug page
inline constexpr std::size_t kDebugErrorsMax = 10;  // of one plugin
inline constexpr std::size_t kQuickThreads = 2;     // per plugin, for routes of class "quick"
inline constexpr std::size_t kQuickWaitingMax = 64;
inline constexpr std::chrono::seconds kQuickDeadline{1};
// per plugin, for routes of class "long"; then 503
inline constexpr std::size_t kLongThreadsMax = 4;
inline constexpr std::chrono::seconds kLongDeadline{900};
inline constexpr std::size_t kAdmissionThreads = 4;  // per plugin, for its webhooks
inline constexpr std::size_t kAdmissionWaitingMax = 64;
// Threads whose handler did not return by its deadline; as many are replaced.
inline constexpr std::size_t kAdmissionStuckMax = 16;

// Borrowed; everything outlives the Runtime and its threads.
struct Parts {
    net::Loop& loop;
    Threads& threads;
    kube::Client& client;
    cache::Cache& cache;
    obs::Log log;
    obs::Metrics& metrics;
    obs::Health& health;
    // for capstan.http/1
    std::function<Result<std::unique_ptr<net::HttpClient>>(net::HttpClientOptions)> http_clients;
    // called under a lock of the runtime's
    std::function<std::uint64_t()> random;
    std::function<std::optional<std::string>(const std::string&)> environment;  // for `select`
    // asked before a plugin's HTTP requests that may change something, as `client` asks it for its
    // own; nullptr: always
    kube::WriteGate* gate{nullptr};
};

struct RuntimeOptions {
    std::string identity{"capstan"};  // reportingInstance of Events
    std::chrono::nanoseconds call_grace{kCallGrace};
    std::size_t queue_keys_max{queue::kKeysMax};  // per controller
    // Until lead(): caches are filled, instances made, keys collected in the queues and routes
    // served, but no worker and no service runs.
    bool standby{false};
    // A watch of a namespaced kind without a namespace of its own becomes one for each of these;
    // empty: of all namespaces. Different ones, and not many: each costs a stream per watch.
    std::vector<std::string> namespaces;
    // With `namespaces`: kinds that have none. A kind that is not known is taken for namespaced.
    std::function<bool(const GroupVersionKind&)> cluster_scoped;
};

struct Plugin {
    plugin::Manifest manifest;
    const capstan_plugin* table{nullptr};
    const capstan_plugin_service* service{nullptr};
    const capstan_plugin_http_server* http_server{nullptr};
    const capstan_plugin_webhook* webhook{nullptr};
    // the plugin's own part; an object, or null
    json::Value config;
    plugin::GateSet gates;
    std::map<std::string, std::uint32_t> max_concurrent;  // by controller; overrides the manifest
    // the manifest's permissions are fewer than the plugin declares (plugin/policy.hpp)
    bool narrowed{false};
};

struct StopReport {
    std::vector<std::string> left;  // what did not stop, one sentence each
    bool clean() const noexcept { return left.empty(); }
};

// One webhook of a loaded plugin.
struct WebhookEndpoint {
    std::string plugin;  // id
    std::string path;
    kube::AdmissionHandler handler;  // until the Runtime is destroyed: unavailable afterwards
};

enum class PluginPhase : std::uint8_t { starting, running, restarting, failed, stopping, stopped };

class Runtime {
public:
    Runtime(Parts parts, RuntimeOptions options = {});
    ~Runtime();  // requires: never started, or stop() reported
    Runtime(const Runtime&) = delete;
    Runtime& operator=(const Runtime&) = delete;

    // The host of the plugin with this manifest, also for its entry. Made on first use; lives
    // as long as the process.
    const capstan_host* host_for(const plugin::Manifest& manifest);
    // Errors: invalid (an id twice, a `select` whose value is missing, too many plugins, a webhook
    // path that another plugin has). [startup]
    Result<void> add(Plugin plugin);
    // Starts watches and instances; returns at once. Progress shows in health ("plugin/<id>").
    void start();
    // Ends the standby: workers and services start. Idempotent.
    void lead();
    // Stops dispatch, cancels calls, waits until `grace` has passed at the most, stops and destroys
    // instances. `done` once.
    void stop(std::chrono::nanoseconds grace, std::function<void(StopReport)> done);

    // Answers requests of the plugins' routes on the `api` listener; 404 for the rest.
    net::ServerHandler routes();
    // The webhooks of all plugins added so far; their paths differ.
    std::vector<WebhookEndpoint> webhooks();

    // For tests and debug pages.
    PluginPhase phase(const std::string& plugin_id) const;  // [any]
    struct KeyLook {
        std::string state;
        std::uint32_t failures{0};
    };
    // [any]
    KeyLook look(const std::string& plugin_id,
                 const std::string& controller,
                 const ObjectKey& key) const;
    // Plugins, controllers, their keys and the caches as they are now: docs/operations.md. At most
    // kDebugKeysMax keys of a controller. [io]
    json::Value debug() const;
    bool idle() const;  // every queue is empty of ready and running keys [any]

private:
    struct State;
    // shared with threads that outlive it when a plugin does not return
    std::shared_ptr<State> state_;
};

}  // namespace capstan::control
