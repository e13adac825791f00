#include "runtime/control/core.hpp"

#include "runtime/control/events.hpp"

#include <array>

namespace capstan::control {

RuntimeMetrics::RuntimeMetrics(obs::Metrics& m)
    : reconcile_total(m.counter(
          "controller_runtime_reconcile_total", "Reconciles by result.", {"controller", "result"})),
      reconcile_errors(m.counter(
          "controller_runtime_reconcile_errors_total", "Reconciles that failed.", {"controller"})),
      terminal_errors(m.counter("controller_runtime_terminal_reconcile_errors_total",
                                "Reconciles that parked their key.",
                                {"controller"})),
      reconcile_panics(m.counter("controller_runtime_reconcile_panics_total",
                                 "Exceptions and panics stopped at the plugin border.",
                                 {"controller"})),
      reconcile_timeouts(m.counter("controller_runtime_reconcile_timeouts_total",
                                   "Reconciles that ran into their deadline.",
                                   {"controller"})),
      reconcile_seconds(m.histogram("controller_runtime_reconcile_time_seconds",
                                    "Time of a reconcile.",
                                    obs::reconcile_seconds_buckets(),
                                    {"controller"})),
      max_concurrent(m.gauge("controller_runtime_max_concurrent_reconciles",
                             "Workers of a controller.",
                             {"controller"})),
      active_workers(m.gauge(
          "controller_runtime_active_workers", "Workers inside a reconcile.", {"controller"})),
      queue_depth(
          m.gauge("workqueue_depth", "Keys that are due.", {"name", "controller", "priority"})),
      queue_adds(m.counter("workqueue_adds_total", "Keys added.", {"name", "controller"})),
      queue_seconds(m.histogram("workqueue_queue_duration_seconds",
                                "Time from due to taken.",
                                obs::queue_seconds_buckets(),
                                {"name", "controller"})),
      work_seconds(m.histogram("workqueue_work_duration_seconds",
                               "Time from taken to done.",
                               obs::queue_seconds_buckets(),
                               {"name", "controller"})),
      unfinished_seconds(m.gauge("workqueue_unfinished_work_seconds",
                                 "Sum of the ages of running keys.",
                                 {"name", "controller"})),
      longest_running_seconds(m.gauge("workqueue_longest_running_processor_seconds",
                                      "Age of the oldest running key.",
                                      {"name", "controller"})),
      queue_retries(
          m.counter("workqueue_retries_total", "Keys added with a delay.", {"name", "controller"})),
      queue_delayed(
          m.gauge("capstan_workqueue_delayed_keys", "Keys that wait for a time.", {"controller"})),
      queue_parked(m.gauge("capstan_workqueue_parked_keys",
                           "Keys that wait for their object to change.",
                           {"controller"})),
      queue_oldest_seconds(m.gauge("capstan_workqueue_oldest_ready_seconds",
                                   "How long the longest waiting key has been due.",
                                   {"controller"})),
      conflicts(m.counter("capstan_reconcile_conflicts_total",
                          "Reconciles that ended with a conflict and are repeated soon.",
                          {"controller"})),
      events(m.counter("capstan_events_total",
                       "Cache events by what the predicate said.",
                       {"gvk", "plugin", "outcome"})),
      leaked_objects(m.counter(
          "capstan_plugin_leaked_objects_total", "Objects a plugin did not release.", {"plugin"})),
      stuck_workers(m.counter("capstan_stuck_workers_total",
                              "Calls that did not return by their fence.",
                              {"controller"})),
      quarantined(m.gauge("capstan_keys_quarantined",
                          "Keys of fenced calls that have not returned.",
                          {"controller"})),
      instances(m.counter("capstan_plugin_instances_total", "Instances created.", {"plugin"})),
      suppressed_writes(m.counter("capstan_writes_suppressed_total",
                                  "Applies not sent because nothing would change.",
                                  {"plugin"})),
      writes(m.counter("capstan_writes_total", "Writes sent.", {"plugin", "verb", "outcome"})),
      denied(m.counter(
          "capstan_denied_total", "Requests outside the manifest, not sent.", {"plugin"})),
      own_write_timeouts(m.counter("capstan_own_write_timeouts_total",
                                   "Keys run although the cache did not show our own write.",
                                   {"controller"})),
      hot_keys(m.counter("capstan_hot_keys_total",
                         "Keys slowed down because they kept waking themselves.",
                         {"controller"})),
      service_starts(
          m.counter("capstan_service_starts_total", "Runs of a service.", {"plugin", "service"})),
      recorded_events(m.counter("capstan_recorded_events_total",
                                "Kubernetes Events by what became of them.",
                                {"outcome"})),
      webhook_panics(m.counter("controller_runtime_webhook_panics_total",
                               "Exceptions and panics of webhook handlers.")
                         .with({})) {
    for (const std::string_view outcome : {"sent", "merged", "dropped", "failed"}) {
        recorded_events.with({outcome});
    }
}

void RuntimeMetrics::prepare(std::string_view plugin) {
    for (auto* family : {&leaked_objects, &instances, &suppressed_writes, &denied}) {
        family->with({plugin});
    }
}

Core::Core(Parts p, RuntimeOptions o)
    : parts(std::move(p)),
      options(std::move(o)),
      metrics(parts.metrics),
      plugin_metrics(parts.metrics),
      http(parts.http_clients),
      events(EventRecorder::make(*this)),
      leading(!options.standby) {}

Core::~Core() = default;

std::uint64_t Core::random() {
    const std::lock_guard lock(random_mutex_);
    return parts.random();
}

double Core::random_unit() {
    return static_cast<double>(random() >> 11) * 0x1p-53;
}

std::string Core::random_id() {
    std::array<std::uint64_t, 2> words{random(), random()};
    // version 4
    words[0] = (words[0] & ~0xF000ull) | 0x4000ull;
    // RFC 9562 variant
    words[1] = (words[1] & ~0xC000000000000000ull) | 0x8000000000000000ull;
    static constexpr char kDigits[] = "0123456789abcdef";
    std::string text;
    for (int i = 0; i < 32; ++i) {
        if (i == 8 || i == 12 || i == 16 || i == 20) {
            text += '-';
        }
        text += kDigits[(words[static_cast<std::size_t>(i / 16)] >> (60 - 4 * (i % 16))) & 15u];
    }
    return text;
}

}  // namespace capstan::control
