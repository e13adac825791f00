// A whole operator in virtual time: runtime, plugins written in the test, embedded API
// server in memory, baton.
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

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
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

// A manifest with one controller "main" on v1/ConfigMap that owns v1/Secret; `extra` is
// merged over the top level.
std::string manifest_json(const std::string& id, const json::Value& extra = {});

struct WorldOptions {
    std::uint64_t seed{1};
    std::chrono::nanoseconds latency{std::chrono::milliseconds(1)};
    std::chrono::nanoseconds watch_delay{0};  // every piece of a watch
    obs::Level log_level{obs::Level::info};
    std::size_t queue_keys_max{queue::kKeysMax};  // per controller
};

class World {
public:
    explicit World(WorldOptions options = {});
    ~World();

    void add(TestPlugin plugin);  // before boot
    void boot();                  // a new process: client, cache, runtime
    // Ends the process in order. False: it did not stop cleanly (report holds what is left).
    bool shut_down(std::chrono::nanoseconds grace = std::chrono::seconds(30));
    // Runs until nothing is queued or running and nothing happened for `quiet`; false
    // when `limit` passed first.
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
    ApiHost api;
    LocalTransport transport;
    std::function<Fault(const net::HttpRequest&)> faults;  // over the world's own
    obs::LogCapture log;
    std::unique_ptr<obs::Metrics> metrics;
    std::unique_ptr<obs::Health> health;
    std::unique_ptr<kube::Client> client;
    std::unique_ptr<cache::Cache> cache;
    std::unique_ptr<control::Runtime> runtime;
    control::StopReport report;

private:
    WorldOptions options_;
    std::vector<TestPlugin> plugins_;
    std::vector<std::unique_ptr<capstan_plugin>> wrapped_;
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
