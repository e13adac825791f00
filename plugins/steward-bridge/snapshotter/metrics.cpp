#include "plugins/steward-bridge/snapshotter/metrics.hpp"

#include <array>
#include <iterator>
#include <limits>

namespace capstan::steward {
namespace {

constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();
constexpr std::array<double, 11> kSeconds{0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10};
constexpr std::size_t kLabelsMax = 4;

std::string_view label(SnapshotKind kind) {
    return kind == SnapshotKind::full ? "Full" : "Incr";
}
std::string_view label(bool flag) {
    return flag ? "true" : "false";
}
double seconds_of(WallTime time) {
    return std::chrono::duration<double>(time.time_since_epoch()).count();
}

}  // namespace

std::uint32_t SnapshotMetrics::add(std::int32_t type,
                                   std::string_view name,
                                   std::string_view help,
                                   std::initializer_list<std::string_view> labels) {
    if (host_.metrics == nullptr) {
        return kNone;
    }
    std::array<capstan_str, kLabelsMax> names{};
    std::size_t count = 0;
    for (const std::string_view text : labels) {
        names[count++] = to_str(text);
    }
    std::uint32_t handle = kNone;
    const bool histogram = type == CAPSTAN_METRIC_HISTOGRAM;
    const capstan_rc rc =
        host_.metrics->add_metric(host_.host,
                                  type,
                                  to_str(name),
                                  to_str(help),
                                  names.data(),
                                  static_cast<std::uint32_t>(count),
                                  histogram ? kSeconds.data() : nullptr,
                                  histogram ? static_cast<std::uint32_t>(kSeconds.size()) : 0,
                                  &handle);
    return rc == CAPSTAN_OK ? handle : kNone;
}

void SnapshotMetrics::update(std::uint32_t handle,
                             std::initializer_list<std::string_view> values,
                             double amount) {
    if (handle == kNone) {
        return;
    }
    std::array<capstan_str, kLabelsMax> texts{};
    std::size_t count = 0;
    for (const std::string_view text : values) {
        texts[count++] = to_str(text);
    }
    host_.metrics->update(
        host_.host, handle, texts.data(), static_cast<std::uint32_t>(count), amount);
}

SnapshotMetrics::SnapshotMetrics(const HostTables& host)
    : host_(host),
      latest_revision_(add(CAPSTAN_METRIC_GAUGE,
                           "etcdbr_snapshot_latest_revision",
                           "Last revision of the newest snapshot.",
                           {"kind"})),
      latest_timestamp_(add(CAPSTAN_METRIC_GAUGE,
                            "etcdbr_snapshot_latest_timestamp",
                            "When the newest snapshot was taken, in Unix seconds.",
                            {"kind"})),
      required_(add(CAPSTAN_METRIC_GAUGE,
                    "etcdbr_snapshot_required",
                    "1 while there are changes that no snapshot of the kind holds.",
                    {"kind"})),
      duration_(add(CAPSTAN_METRIC_HISTOGRAM,
                    "etcdbr_snapshot_duration_seconds",
                    "Time to take, store and read back a snapshot.",
                    {"kind", "succeeded"})),
      collected_(add(CAPSTAN_METRIC_COUNTER,
                     "etcdbr_snapshot_gc_total",
                     "Snapshots that retention removed.",
                     {"kind", "succeeded"})),
      failures_(add(CAPSTAN_METRIC_COUNTER,
                    "etcdbr_snapshotter_failure",
                    "Failures to take, store or collect snapshots, by kind of error.",
                    {"error"})),
      deltas_total_(add(CAPSTAN_METRIC_GAUGE,
                        "etcdbr_snapstore_latest_deltas_total",
                        "Delta snapshots since the newest full one.",
                        {})),
      deltas_revisions_(add(CAPSTAN_METRIC_GAUGE,
                            "etcdbr_snapstore_latest_deltas_revisions_total",
                            "Revisions in the delta snapshots since the newest full one.",
                            {})),
      bytes_(add(CAPSTAN_METRIC_COUNTER,
                 "steward_snapshot_stored_bytes_total",
                 "Bytes of snapshots stored and read back.",
                 {"kind"})) {
    for (const SnapshotKind kind : {SnapshotKind::full, SnapshotKind::delta}) {
        update(latest_revision_, {label(kind)}, 0);
        update(latest_timestamp_, {label(kind)}, 0);
        update(required_, {label(kind)}, 0);
        update(bytes_, {label(kind)}, 0);
    }
    for (const std::string_view kind : {"Full", "Incr", "Chunk"}) {
        update(collected_, {kind, label(true)}, 0);
        update(collected_, {kind, label(false)}, 0);
    }
}

void SnapshotMetrics::taken(const SnapshotRecord& record, std::uint64_t stored_bytes) {
    update(bytes_, {label(record.kind)}, static_cast<double>(stored_bytes));
}

void SnapshotMetrics::facts(const SnapshotFacts& facts) {
    const auto newest = [&](const SnapshotRecord& record) {
        update(latest_revision_, {label(record.kind)}, static_cast<double>(record.last_revision));
        update(latest_timestamp_, {label(record.kind)}, seconds_of(record.created));
    };
    if (facts.full) {
        newest(*facts.full);
    }
    if (!facts.deltas.empty()) {
        newest(facts.deltas.back());
    }
    update(deltas_total_, {}, static_cast<double>(facts.deltas.size()));
    const std::int64_t revisions = facts.deltas.empty() ? 0
                                                        : facts.deltas.back().last_revision -
                                                              facts.deltas.front().start_revision;
    update(deltas_revisions_, {}, static_cast<double>(revisions));
}

void SnapshotMetrics::required(SnapshotKind kind, bool required) {
    update(required_, {label(kind)}, required ? 1 : 0);
}

void SnapshotMetrics::lasted(SnapshotKind kind, bool succeeded, std::chrono::nanoseconds time) {
    update(duration_, {label(kind), label(succeeded)}, std::chrono::duration<double>(time).count());
}

void SnapshotMetrics::collected(std::string_view kind, bool succeeded, std::size_t count) {
    update(collected_, {kind, label(succeeded)}, static_cast<double>(count));
}

void SnapshotMetrics::failed(Code code) {
    update(failures_, {to_string(code)}, 1);
}

}  // namespace capstan::steward
