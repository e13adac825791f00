// Several operators with leader election on one embedded API server, in virtual time, and an
// auditor at the server.
//
// The auditor knows nothing of fences inside the processes. For each process it keeps, from what
// was sent and what the server accepted, until when a rival cannot have won; every write is looked
// at twice: when it is sent, and when it arrives. Thread: the loop's.
#pragma once

#include "runtime/cache/cache.hpp"
#include "runtime/control/runtime.hpp"
#include "runtime/kube/client.hpp"
#include "runtime/lease/elector.hpp"
#include "test/sim/api_handler.hpp"
#include "test/sim/demo.hpp"
#include "test/sim/process.hpp"

#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

namespace capstan::test {

inline constexpr const char* kLeasePath =
    "/apis/coordination.k8s.io/v1/namespaces/ns/leases/capstan";

class ElectionWorld;

// One start of an operator process, wired as `capstan run` wires it.
class Candidate {
public:
    Candidate(ElectionWorld& world, std::size_t slot, std::string identity);
    ~Candidate();

    void start();
    bool leads() const { return elector.role() == lease::Role::leading && fence.holds(); }
    // SIGTERM: drain, then release. Runs the world. False: something did not stop.
    bool shut_down(std::chrono::nanoseconds grace = std::chrono::seconds(10));
    void cut(bool on);  // from the API server, both connections

    ElectionWorld& world;
    const std::size_t slot;
    const std::string identity;
    StoppableLoop loop;
    StoppableThreads threads;
    LocalTransport wire, lease_wire;
    StoppableTransport http, lease_http;
    obs::LogCapture log;
    obs::Metrics metrics;
    obs::Health health;
    lease::Fence fence;
    kube::Client client, lease_client;
    cache::Cache cache;
    DemoRecord record;
    std::string lost;
    bool elected{false};
    bool stopped{false};
    std::unique_ptr<control::Runtime> runtime;
    lease::Elector elector;

    // The auditor's:
    MonotonicTime lease_sent_at{0};
    MonotonicTime may_send_until{0};
    std::uint64_t sent{0};
};

class ElectionWorld {
public:
    explicit ElectionWorld(std::uint64_t seed);
    ~ElectionWorld();

    Candidate& start(const std::string& identity);
    // The process is over: its runtime is stopped, and nothing of it reaches the server.
    void end(Candidate& candidate);
    Candidate* leader();
    std::string holder();  // as stored
    // Merges `spec` into the stored Lease, as a person would; "" deletes it. The HTTP status.
    int edit_lease(const std::string& spec);
    int put(const std::string& name, const std::string& value);
    std::string secret(const std::string& name);
    bool run_until(const std::function<bool()>& done, std::chrono::nanoseconds limit) {
        return baton.run_until(done, loop.now() + limit);
    }

    VirtualLoop loop;
    std::mt19937_64 random;
    Baton baton;
    ApiHost api;
    std::vector<std::unique_ptr<Candidate>> candidates;
    lease::LeaderOptions options;
    // Per request of a candidate; `lease`: on its own connection.
    std::function<Fault(const net::HttpRequest&, bool lease)> faults;

    // The auditor's findings; must stay empty.
    std::vector<std::string> findings;
    std::uint64_t arrived{0};

private:
    friend class Candidate;
    Fault on_sent(Candidate& candidate, const net::HttpRequest& request, bool lease);
    net::ServerHandler on_arrival(Candidate& candidate);
    void find(const Candidate& candidate, const std::string& what);
};

}  // namespace capstan::test
