// A runtime on threads of the operating system with one plugin, given as C tables: what no virtual
// time and no baton can show.
//
//     LiveWorld world;
//     world.boot();
//     world.on_worker([&](capstan_call* call) { … world.http->open(call, …); });
//
// The thread of the test is the loop's: the loop runs inside until() and on_worker() only, so what
// belongs to the loop may be used between them. Its lies: the API server is the embedded core in
// memory, reached without sockets; time is real, so tests assert on what comes, not on when.
#pragma once

#include "capstan/capstan.h"
#include "capstan/json.hpp"
#include "capstan/webhook.h"
#include "runtime/cache/cache.hpp"
#include "runtime/control/runtime.hpp"
#include "runtime/kube/client.hpp"
#include "runtime/net/io_loop.hpp"
#include "test/fakes/local_transport.hpp"
#include "test/sim/api_handler.hpp"

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <string>
#include <string_view>

namespace capstan::test {

inline constexpr std::chrono::seconds kLiveLimit{30};  // of anything that could hang
// until() asks again after each callback of the loop, and this often
inline constexpr std::chrono::milliseconds kLiveGlance{20};

class LiveWorld {
public:
    using Reconcile = std::function<capstan_rc(capstan_call*, const capstan_request*)>;
    using Review = std::function<capstan_rc(capstan_call*, const capstan_admission_request*)>;
    using Handle = std::function<void(capstan_call*, std::string_view route, capstan_exchange*)>;

    LiveWorld();
    ~LiveWorld();
    LiveWorld(const LiveWorld&) = delete;
    LiveWorld& operator=(const LiveWorld&) = delete;

    // Before boot: called on the host's threads. Without `reconcile` only on_worker() works.
    Reconcile reconcile;
    Handle handle;
    Review review;  // every webhook of the manifest
    std::function<void(capstan_call*)> cancel;
    std::function<capstan_rc(capstan_call*)> service;  // every service of the manifest
    json::Value manifest = json::object();             // merged over the usual one

    void boot();  // returns when the plugin runs
    // False: something of the plugin did not end.
    bool stop();
    // Runs the loop until `done`; false: kLiveLimit passed.
    bool until(const std::function<bool()>& done);
    // Runs `job` in a reconcile of its own while the loop runs. False: it did not return.
    bool on_worker(std::function<void(capstan_call*)> job);
    // The same without waiting.
    void start_on_worker(std::function<void(capstan_call*)> job);
    int put_config_map(const std::string& name);
    void wake();  // until() asks again [any]
    // The detail of the last failed host call of this thread. [worker]
    std::string last_error(capstan_call* call) const;

    const std::unique_ptr<net::IoLoop> loop;
    ApiHost api;
    LocalTransport transport;
    obs::LogCapture log;
    obs::Metrics metrics;
    obs::Health health;
    std::unique_ptr<control::Runtime> runtime;
    const capstan_host* host{nullptr};
    const capstan_ext_call* call{nullptr};
    const capstan_ext_clock* clock{nullptr};
    const capstan_ext_http* http{nullptr};
    const capstan_ext_http_server* http_server{nullptr};
    const capstan_ext_client* client{nullptr};
    const capstan_ext_cache* cache{nullptr};
    const capstan_ext_webhook* webhook{nullptr};

private:
    struct Tables;
    const std::unique_ptr<control::Threads> threads_;
    std::mt19937_64 random_{1};
    std::unique_ptr<kube::Client> client_;
    std::unique_ptr<cache::Cache> cache_;
    std::uint64_t jobs_{0};
    std::mutex mutex_;  // guards what follows
    std::function<void(capstan_call*)> job_;
    std::string job_key_;
    bool job_done_{false};
};

// Ends a world before the locals die that its plugin's threads use: declare it after them.
class StopFirst {
public:
    explicit StopFirst(LiveWorld& world) noexcept : world_(world) {}
    ~StopFirst() {
        if (world_.runtime != nullptr) {
            world_.stop();
        }
    }
    StopFirst(const StopFirst&) = delete;
    StopFirst& operator=(const StopFirst&) = delete;

private:
    LiveWorld& world_;
};

}  // namespace capstan::test
