// Defragments the database of this member's etcd: on request, and by its schedule.
//
// A member that is defragmented answers nothing else, so: one at a time in a cluster (turn.hpp),
// only while every member is healthy, and by schedule the leading member last. What it did is in
// EtcdMember.status.lastDefragmentation. Owns its mutex. Thread: any.
#pragma once

#include "api/etcd_member.hpp"
#include "capstan/plugin.hpp"
#include "plugins/common/schedule.hpp"
#include "plugins/steward-bridge/maintenance/etcd_maintenance.hpp"
#include "plugins/steward-bridge/member.hpp"
#include "plugins/steward-bridge/metric.hpp"

#include <mutex>
#include <optional>
#include <string>

namespace capstan::steward {

class Defragmenter {
public:
    // `member` is borrowed and outlives *this.
    Defragmenter(const HostTables& host, Member& member);

    // Does it now; returns when etcd is done. `reason`: "Requested", "Scheduled". Errors: conflict
    // (this or another member is at it: who), unavailable (a member is not healthy: which; nothing
    // was done), timeout, or why it failed (recorded).
    Result<api::Defragmentation> run(Call& call, std::string reason);

private:
    Result<api::Defragmentation> run_alone(Call& call, std::string reason);
    Result<api::Defragmentation> defragment(Call& call,
                                            const Configuration& configuration,
                                            const std::string& endpoint,
                                            std::string reason,
                                            bool& under_way);  // etcd may still be at it
    Result<void> record(Call& call, api::Defragmentation& done, const Result<void>& outcome);

    Member& member_;
    Metric seconds_;
    std::mutex mutex_;
    bool busy_{false};  // guarded by mutex_
};

// The schedule's side, without a clock of its own.
class DefragmentationPlan {
public:
    // Looks at a schedule from `now` on; a changed text begins anew, "" is never due. Requires: it
    // can be parsed.
    void follow(const std::string& schedule, WallTime now);
    // The slot whose work is still to be done; a newer slot replaces one that was never finished.
    std::optional<WallTime> due(WallTime now);
    void done() { due_.reset(); }
    // When to look again if nothing is due; nullopt: never.
    std::optional<WallTime> next() const { return next_; }

private:
    std::string text_;
    std::optional<Schedule> schedule_;
    std::optional<WallTime> next_;
    std::optional<WallTime> due_;
    WallTime looked_at_{};
};

// True when every member of `others` (EtcdMember objects) has been defragmented since `slot`, so
// that the leading member may follow; else who is awaited is written to `waits_for`.
bool others_are_done(const std::vector<json::Value>& others, WallTime slot, std::string& waits_for);

}  // namespace capstan::steward
