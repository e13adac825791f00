// Leader election of a process: performs what LeaderFsm decides, keeps the fence, and says what
// happens in log, metrics and readiness.
//
// Its client should have a connection of its own, so that no other traffic delays a renewal, and no
// gate. It uses no discovery: whether a renewal succeeds depends on this one resource alone.
// Writes are PUTs of the whole Lease with the resourceVersion it was read with: `update` is the
// verb that rights made for client-go grant, a Lease without a version is refused by the server,
// and all that others put into it goes back as it came.
// Thread: [io].
#pragma once

#include "runtime/kube/client.hpp"
#include "runtime/lease/fence.hpp"
#include "runtime/lease/leader_fsm.hpp"
#include "runtime/obs/health.hpp"
#include "runtime/obs/log.hpp"
#include "runtime/obs/metrics.hpp"

#include <functional>
#include <memory>
#include <string>

namespace capstan::lease {

// Name of the check in /readyz. A standby is ready, and the check says that it is one.
inline constexpr std::string_view kHealthCheck = "leader-election";

// Borrowed; outlive the Elector.
struct ElectorParts {
    net::Loop& loop;
    kube::Client& client;
    Fence& fence;
    obs::Log log;
    obs::Metrics& metrics;
    obs::Health& health;
    LeaderFsm::Random random;
};

// Each at most once.
struct ElectorHandler {
    std::function<void()> elected;
    // The fence is closed already. `why`: one sentence.
    std::function<void(const std::string& why)> lost;
};

class Elector {
public:
    Elector(ElectorParts parts, LeaderOptions options, ElectorHandler handler);
    ~Elector();  // without release(): the lease runs out by itself
    Elector(const Elector&) = delete;
    Elector& operator=(const Elector&) = delete;

    void start();
    // Closes the fence and, when leading, gives the lease back; a standby only ends. Requires: all
    // that may write has ended. `done` once; on an error the lease runs out by itself.
    void release(std::function<void(Result<void>)> done);

    Role role() const noexcept { return fsm_.role(); }
    const std::string& loss() const noexcept { return fsm_.loss(); }

private:
    Moment moment() const { return {parts_.loop.now(), parts_.loop.wall_now()}; }
    void perform(Step step);
    void send(Step step);
    void answered(const std::string& what, Result<net::HttpResponse> answer);
    void report();
    void report_standby();
    void report_trouble();

    ElectorParts parts_;
    ElectorHandler handler_;
    LeaderFsm fsm_;
    obs::Gauge& master_;
    obs::Counter& slow_path_;
    Role told_{Role::standby};
    std::string told_holder_;
    bool told_standby_{false};
    std::string refused_;  // what the last failed request wanted
    std::unique_ptr<net::Timer> timer_;
    kube::CallHandle call_;
    std::function<void(Result<void>)> released_;
};

}  // namespace capstan::lease
