#include "plugins/steward-bridge/snapshotter/report.hpp"

namespace capstan::steward {
namespace {

api::Snapshot snapshot_of(const SnapshotRecord& record, std::uint64_t bytes) {
    api::Snapshot out;
    out.end_revision = record.last_revision;
    out.name = record.name;
    out.start_revision = record.start_revision;
    out.timestamp = to_rfc3339(record.created);
    if (bytes > 0) {
        out.size = api::IntOrString{std::to_string(bytes), true};
    }
    return out;
}

}  // namespace

api::Snapshots to_status(const SnapshotFacts& facts) {
    api::Snapshots out;
    out.last_full = snapshot_of(*facts.full, facts.full_bytes);
    if (!facts.deltas.empty()) {
        out.last_delta = snapshot_of(facts.deltas.back(), facts.last_delta_bytes);
    }
    out.accumulated_delta_size = api::IntOrString{std::to_string(facts.delta_bytes), true};
    out.observed_at = to_rfc3339(*facts.observed_at);
    return out;
}

}  // namespace capstan::steward
