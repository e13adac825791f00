// Looks after the member's etcd between the big events: reads its alarms, keeps the schedule of
// defragmentation. One service on one thread; decisions are in defragmentation and
// etcd_maintenance.
#pragma once

#include "plugins/steward-bridge/maintenance/defragmentation.hpp"

#include <string>

namespace capstan::steward {

inline constexpr std::chrono::seconds kAlarmPeriod{30};
inline constexpr std::chrono::minutes kDefragmentationRetry{1};
// The leading member waits so long for the others; then one of them cannot, or did it unseen.
inline constexpr std::chrono::hours kLeaderPatience{1};

class MaintenanceService final : public Service {
public:
    // all borrowed; outlive *this
    MaintenanceService(const HostTables& host, Member& member, Defragmenter& defragmenter);
    Result<void> run(Call& call) override;

private:
    void look(Call& call, const Configuration& configuration);
    void follow_schedule(Call& call, const Configuration& configuration);
    bool may_lead_now(Call& call, const Configuration& configuration, WallTime slot);
    void say_once(Call& call, const std::string& what);

    Member& member_;
    Defragmenter& defragmenter_;
    const Metric alarm_, db_size_, db_size_in_use_;
    DefragmentationPlan plan_;
    MonotonicTime not_before_{0};
    std::string said_;
};

}  // namespace capstan::steward
