// The service "snapshotter" of the plugin: reads what the Etcd wants, and runs an engine while this
// member leads.
#pragma once

#include "plugins/steward-bridge/member.hpp"
#include "plugins/steward-bridge/snapshotter/leases.hpp"
#include "plugins/steward-bridge/snapshotter/metrics.hpp"
#include "plugins/steward-bridge/snapshotter/snapshotter.hpp"
#include "plugins/steward-bridge/snapshotter/store_claim.hpp"
#include "plugins/steward-bridge/store/store.hpp"
#include "plugins/steward-bridge/stream/host_digest.hpp"

#include <memory>
#include <optional>
#include <string>

namespace capstan::steward {

inline constexpr std::chrono::seconds kOrdersPeriod{5};  // how old a read configuration may be

// What a member's steward.yaml says of backups and of the way to its etcd.
struct ReadOrders {
    SnapshotterConfig config;
    EtcdAccess etcd;
};

class SnapshotService final : public Service {
public:
    // All borrowed, outlive *this. `defaults`: of the plugin's own configuration.
    SnapshotService(const HostTables& host,
                    Member& member,
                    Snapshotter& face,
                    SnapshotterConfig defaults);
    Result<void> run(Call& call) override;

private:
    Result<ReadOrders> read_orders(Call& call) const;
    void look_at_orders(Call& call);  // at most every kOrdersPeriod
    void report();
    PrefixOwner owner(Call& call);
    Result<void> lead(Call& call, const Snapshotter::Orders& orders);
    Result<std::unique_ptr<ObjectStore>> open_store_of(const SnapshotterConfig& config,
                                                       Transport& transport,
                                                       Pace& pace);
    // False: the service ends.
    bool wait(Call& call, MonotonicTime until);

    Member& member_;
    Snapshotter& face_;
    const SnapshotterConfig defaults_;
    const std::string process_;  // as in VaultParts
    SnapshotMetrics metrics_;
    HostDigests digests_;
    SnapshotLeases leases_;
    MonotonicTime looked_at_orders_{};
    bool looked_{false};
    std::optional<MonotonicTime> unsynced_since_;
    std::string orders_problem_;
    std::uint64_t reported_{0};
};

}  // namespace capstan::steward
