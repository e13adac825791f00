// How snapshots are taken and where they go: the knobs of etcd-backup-restore, under the names of
// its configuration file.
//
// Read twice: from the plugin's own configuration (what holds for every cluster) and from `backup`
// in steward.yaml (what one Etcd asks for), which wins member by member. Values.
#pragma once

#include "plugins/common/schedule.hpp"
#include "plugins/steward-bridge/snapshot/compression.hpp"
#include "plugins/steward-bridge/snapshot/retention.hpp"
#include "plugins/steward-bridge/store/store_config.hpp"

#include "capstan/error.hpp"
#include "capstan/json.hpp"

#include <chrono>
#include <cstdint>
#include <string>

namespace capstan::steward {

struct SnapshotterConfig {
    StoreConfig store;                    // an empty provider: no backups
    std::string home;                     // Local: containers are below it; empty: as they are
    std::string schedule{"0 */1 * * *"};  // parsed by parse(), so always right
    std::chrono::nanoseconds jitter{0};   // fulls by schedule wait up to this, by chance
    std::chrono::nanoseconds delta_period{std::chrono::seconds(20)};  // 0: no deltas
    std::uint64_t delta_memory_bytes{10'485'760};
    std::chrono::nanoseconds delta_retention{0};
    std::chrono::nanoseconds collect_period{std::chrono::minutes(1)};  // 0: nothing is removed
    RetentionPolicy policy{RetentionPolicy::exponential};
    std::int64_t max_backups{7};
    Compression compression{Compression::gzip};
    std::chrono::nanoseconds connection_timeout{std::chrono::seconds(30)};
    std::chrono::nanoseconds snapshot_timeout{std::chrono::minutes(15)};
    std::string username, password;  // of etcd, where its authentication is on
    std::int64_t backoff_multiplier{2};
    std::int64_t backoff_attempts{6};
    std::chrono::nanoseconds backoff_max{std::chrono::seconds(128)};
    bool renew_leases{false};  // the two snapshot leases of etcd-druid
    std::string full_lease{"full-snapshot-revisions"};
    std::string delta_lease{"delta-snapshot-revisions"};

    bool backups() const { return !store.provider.empty(); }
    bool deltas() const { return delta_period >= std::chrono::seconds(1); }

    // What `document` says, over `base`. Unknown members are ignored. Errors: invalid, with the
    // field's path.
    static Result<SnapshotterConfig> parse(const json::View& document, SnapshotterConfig base);
    static Result<SnapshotterConfig> parse(const json::View& document) {
        return parse(document, SnapshotterConfig());
    }

    friend bool operator==(const SnapshotterConfig& a, const SnapshotterConfig& b);
};

}  // namespace capstan::steward
