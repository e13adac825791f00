// A whole operator in virtual time: runtime, plugins written in the test or loaded as built,
// embedded API server in memory, baton.
//
//     World world({.seed = 7});
//     world.add(demo_plugin());
//     world.boot();
//     world.put("v1", "configmaps", "ns", {…});
//     ASSERT_TRUE(world.settle());
#pragma once

#include "capstan/plugin.hpp"
#include "runtime/cache/cache.hpp"
#include "runtime/control/runtime.hpp"
#include "runtime/kube/client.hpp"
#include "test/fakes/local_transport.hpp"
#include "test/fakes/virtual_loop.hpp"
#include "test/sim/api_handler.hpp"
#include "test/sim/baton.hpp"
#include "test/sim/modules.hpp"

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

namespace capstan::test {

using ReconcileFunction = std::function<Outcome(Call&, const Request&)>;

// A plugin whose parts are functions of the test. Runs through the same C tables as a loaded one.
struct TestPlugin {
    std::string id{"demo.example.io"};
    std::string manifest_json;
    std::map<std::string, ReconcileFunction> controllers;
    std::map<std::string, std::function<Result<void>(Call&)>> services;
    std::map<std::string, std::function<void(Call&, Exchange&)>> routes;
    std::function<Result<void>(Setup&)> on_create;  // may be empty
    // Instead of the C++ adapter: a table of the test's own.
    const capstan_plugin* table{nullptr};
    // Changes the adapter's table; may be empty.
    std::function<capstan_plugin(capstan_plugin)> wrap;
};

// A plugin of the build tree with its real manifest.
struct RealPlugin {
    std::string name;  // "etcd"
    json::Value config;
    std::vector<plugin::GateOverride> gates;
};

// A manifest with one controller "main" on v1/ConfigMap that owns v1/Secret; `extra` is merged over
// the top level.
std::string manifest_json(const std::string& id, const json::Value& extra = {});

struct WorldOptions {
    std::uint64_t seed{1};
    std::chrono::nanoseconds latency{std::chrono::milliseconds(1)};
    std::chrono::nanoseconds watch_delay{0};  // every piece of a watch
    obs::Level log_level{obs::Level::info};
    std::size_t queue_keys_max{queue::kKeysMax};  // per controller
    std::vector<std::string> namespaces;          // empty: all
    std::set<std::string> cluster_scoped;         // kinds that have none
};

// The baton's threads, of which the system can refuse some.
class ScarceThreads final : public control::Threads {
public:
    explicit ScarceThreads(Baton& baton) : baton_(baton) {}
    Result<std::unique_ptr<control::Thread>> start(std::string name,
                                                   std::function<void()> body) override;
    std::unique_ptr<control::Signal> make_signal() override { return baton_.make_signal(); }
    void yield_point() noexcept override { baton_.yield_point(); }

    std::function<bool(const std::string& name)> refuse;  // empty: none

private:
    Baton& baton_;
};

class World {
public:
    explicit World(WorldOptions options = {});
    ~World();

    void add(TestPlugin plugin);  // before boot
    void add(RealPlugin plugin);  // before boot
    void boot();                  // a new process: client, cache, runtime
    // Ends the process in order. False: it did not stop cleanly (report holds what is left).
    bool shut_down(std::chrono::nanoseconds grace = std::chrono::seconds(30));
    // Ends the process as kill -9 does: nothing of it reaches the API server any more.
    void crash();
    // From the next boot on, and against their manifests: real plugins get every key again and
    // again.
    void set_resync(std::optional<std::chrono::nanoseconds> every) { resync_every_ = every; }
    // Runs until nothing is queued or running and nothing happened for `quiet`; false when `limit`
    // passed first.
    bool settle(std::chrono::nanoseconds quiet = std::chrono::seconds(2),
                std::chrono::nanoseconds limit = std::chrono::minutes(30));
    bool run_until(const std::function<bool()>& done,
                   std::chrono::nanoseconds limit = std::chrono::minutes(5));
    void run_for(std::chrono::nanoseconds duration) { baton.run_for(duration); }

    // A person's requests. put_config_map: create or merge-patch; the HTTP status.
    int put_config_map(const std::string& name, const std::string& value);
    int remove(const std::string& path);
    // "/api/v1/namespaces/ns/configmaps/a"
    std::optional<json::Value> read(const std::string& path);
    std::vector<json::Value> list(const std::string& path);

    // POST, PUT, PATCH, DELETE sent by the process
    std::uint64_t writes() const { return writes_; }
    std::string metric(const std::string& series);  // value of one series; "" when absent

    VirtualLoop loop;
    std::mt19937_64 random;
    Baton baton;
    ScarceThreads threads{baton};
    ApiHost api;
    LocalTransport transport;
    std::function<Fault(const net::HttpRequest&)> faults;  // over the world's own
    // From the next boot on; borrowed; nullptr: none.
    kube::ClientObserver* client_observer{nullptr};
    cache::CacheObserver* cache_observer{nullptr};
    obs::LogCapture log;
    std::unique_ptr<obs::Metrics> metrics;
    std::unique_ptr<obs::Health> health;
    std::unique_ptr<kube::Client> client;
    std::unique_ptr<cache::Cache> cache;
    std::unique_ptr<control::Runtime> runtime;
    control::StopReport report;
    // Of real plugins.
    std::uint64_t reconciles{0};
    int overlaps{0};   // of one key in two workers of one controller; must stay 0
    int backwards{0};  // events that showed an object older than before; must stay 0

private:
    control::Plugin make(std::size_t slot);
    control::Plugin make(std::size_t slot, const RealPlugin& real);
    void spy(const plugin::Manifest& manifest);
    void check_order(const std::string& watch, const cache::Event& event);

    WorldOptions options_;
    std::vector<TestPlugin> plugins_;
    std::vector<std::unique_ptr<capstan_plugin>> wrapped_;
    std::vector<RealPlugin> real_plugins_;
    ReconcileWatch guard_;
    std::set<std::string> running_;  // "controller ns/name"
    // Watches of the test's own on what the real plugins watch.
    std::vector<std::unique_ptr<cache::WatchHandle>> spies_;
    std::map<std::string, std::string> versions_;  // newest seen, by watch and uid
    std::optional<std::chrono::nanoseconds> resync_every_;
    bool dead_{false};
    std::uint64_t writes_{0};
    std::uint64_t requests_seen_{0};
};

// Ends a world's process before the locals die that its plugins write to: declare it after them.
class ShutDownFirst {
public:
    explicit ShutDownFirst(World& world) noexcept : world_(world) {}
    ~ShutDownFirst() {
        if (world_.runtime != nullptr) {
            world_.shut_down();
        }
    }
    ShutDownFirst(const ShutDownFirst&) = delete;
    ShutDownFirst& operator=(const ShutDownFirst&) = delete;

private:
    World& world_;
};

}  // namespace capstan::test
