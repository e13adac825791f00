// The numbers of backups, under the names that dashboards of etcd-backup-restore ask for. Thread:
// any.
#pragma once

#include "plugins/steward-bridge/snapshot/record.hpp"
#include "plugins/steward-bridge/snapshotter/snapshotter.hpp"

#include "capstan/plugin.hpp"

#include <chrono>
#include <cstdint>
#include <string_view>

namespace capstan::steward {

class SnapshotMetrics {
public:
    // Registers them; a host without capstan.metrics/1 keeps none.
    explicit SnapshotMetrics(const HostTables& host);

    void taken(const SnapshotRecord& record, std::uint64_t stored_bytes);
    void facts(const SnapshotFacts& facts);  // newest revisions and times, deltas since the full
    void required(SnapshotKind kind, bool required);
    void lasted(SnapshotKind kind, bool succeeded, std::chrono::nanoseconds time);
    void collected(std::string_view kind, bool succeeded, std::size_t count);
    void failed(Code code);

private:
    std::uint32_t add(std::int32_t type,
                      std::string_view name,
                      std::string_view help,
                      std::initializer_list<std::string_view> labels);
    void update(std::uint32_t handle,
                std::initializer_list<std::string_view> values,
                double amount);

    const HostTables& host_;
    std::uint32_t latest_revision_, latest_timestamp_, required_, duration_, collected_, failures_,
        deltas_total_, deltas_revisions_, bytes_;
};

}  // namespace capstan::steward
