// One `capstan run` from the configuration to its end: connection, plugins, listeners, the loop.
// Internal to runtime/cli. Thread: main.
#pragma once

#include "runtime/cache/cache.hpp"
#include "runtime/cli/cache_budget.hpp"
#include "runtime/cli/connection.hpp"
#include "runtime/cli/credential_observer.hpp"
#include "runtime/cli/election.hpp"
#include "runtime/cli/observers.hpp"
#include "runtime/cli/ops_server.hpp"
#include "runtime/cli/review.hpp"
#include "runtime/cli/steward_listener.hpp"
#include "runtime/config/operator_config.hpp"
#include "runtime/control/runtime.hpp"
#include "runtime/control/threads.hpp"
#include "runtime/kube/connection.hpp"
#include "runtime/net/certificate_watcher.hpp"
#include "runtime/net/http_server.hpp"
#include "runtime/net/io_loop.hpp"
#include "runtime/plugin/module.hpp"
#include "runtime/webhook/server.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

namespace capstan::cli {

// "capstan run: MESSAGE" on stderr; returns `code`.
int complain(const Error& error, int code);

// Everything between the configuration and a running Runtime. Members are
// destroyed in reverse order.
class Host {
public:
    Host(config::OperatorConfig config, Review review);
    ~Host();
    Host(const Host&) = delete;
    Host& operator=(const Host&) = delete;

    // Until a signal asks for the end. Exit code as of run().
    int run();
    // What the end of this process would leave running: credential plugins. Nothing is asked of
    // the API server after it.
    void end_children() noexcept;

private:
    Result<void> connect();
    Result<void> ask_version();
    Result<void> first_contact();
    void note_server(const net::HttpResponse& version);
    void learn_scopes();
    void watch_signals();
    int load_plugins();
    Result<void> load_plugin(const ReviewedPlugin& reviewed, std::string& refused);
    void refuse(const std::string& name, const std::string& reason);
    Result<void> listen();
    OpsParts ops_parts();
    json::Value debug_page() const;
    // Listens under this name, and follows the certificates of its files.
    Result<Listening> serve(const std::string& name,
                            const config::ListenerConfig& listener,
                            net::ServerHandler handler,
                            std::chrono::milliseconds idle_timeout);
    // The same until the end. The port.
    Result<std::uint16_t> keep_serving(const std::string& name,
                                       const config::ListenerConfig& listener,
                                       net::ServerHandler handler,
                                       std::chrono::milliseconds idle_timeout);
    Result<Listening> serve_routes(const config::ListenerConfig& listener);
    Result<void> listen_for_routes();
    Result<void> listen_for_reviews();
    void stand_for_election();
    bool ended() const { return stop_asked_ || !loss_.empty(); }
    int stop();

    const config::OperatorConfig config_;
    const Review review_;
    std::unique_ptr<net::IoLoop> loop_;
    obs::Metrics metrics_;
    obs::Health health_;
    obs::Log log_;
    Observers observers_;
    CredentialObserver credentials_;
    std::unique_ptr<control::Threads> threads_;
    std::mt19937_64 random_;
    std::unique_ptr<Election> election_;  // nullptr: this process leads without asking anyone
    std::unique_ptr<kube::Connection> api_;
    std::unique_ptr<cache::Cache> cache_;
    std::unique_ptr<control::Runtime> runtime_;
    std::optional<plugin::Loader> loader_;
    std::unique_ptr<webhook::Server> webhooks_;
    std::optional<OpsAuth> ops_auth_;
    std::optional<CacheBudget> cache_budget_;
    std::vector<Listening> listening_;
    std::optional<StewardListener> steward_listener_;
    std::vector<std::unique_ptr<net::Watch>> signals_;
    bool stop_asked_{false};
    std::string loss_;  // of leadership: one sentence
    std::size_t loaded_{0};
    std::set<GroupVersionKind> watched_kinds_;   // with `namespaces`: of the plugins
    std::set<GroupVersionKind> cluster_scoped_;  // of those: have none
};

}  // namespace capstan::cli
