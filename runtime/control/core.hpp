// What every part of the runtime shares. Internal to runtime/control.
#pragma once

#include "runtime/control/http_pool.hpp"
#include "runtime/control/plugin_metrics.hpp"
#include "runtime/control/runtime.hpp"
#include "runtime/control/writes.hpp"

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

namespace capstan::control {

class EventRecorder;

// Metric families of the runtime; series are made where they are used.
struct RuntimeMetrics {
    explicit RuntimeMetrics(obs::Metrics& metrics);

    obs::Family<obs::Counter>& reconcile_total;
    obs::Family<obs::Counter>& reconcile_errors;
    obs::Family<obs::Counter>& terminal_errors;
    obs::Family<obs::Counter>& reconcile_panics;
    obs::Family<obs::Counter>& reconcile_timeouts;
    obs::Family<obs::Histogram>& reconcile_seconds;
    obs::Family<obs::Gauge>& max_concurrent;
    obs::Family<obs::Gauge>& active_workers;
    obs::Family<obs::Gauge>& queue_depth;
    obs::Family<obs::Counter>& queue_adds;
    obs::Family<obs::Histogram>& queue_seconds;
    obs::Family<obs::Histogram>& work_seconds;
    obs::Family<obs::Gauge>& unfinished_seconds;
    obs::Family<obs::Gauge>& longest_running_seconds;
    obs::Family<obs::Counter>& queue_retries;
    obs::Family<obs::Gauge>& queue_delayed;
    obs::Family<obs::Gauge>& queue_parked;
    obs::Family<obs::Gauge>& queue_oldest_seconds;
    obs::Family<obs::Counter>& conflicts;           // controller
    obs::Family<obs::Counter>& events;              // gvk, plugin, outcome
    obs::Family<obs::Counter>& leaked_objects;      // plugin
    obs::Family<obs::Counter>& stuck_workers;       // controller
    obs::Family<obs::Gauge>& quarantined;           // controller
    obs::Family<obs::Counter>& instances;           // plugin
    obs::Family<obs::Counter>& suppressed_writes;   // plugin
    obs::Family<obs::Counter>& writes;              // plugin, verb, outcome
    obs::Family<obs::Counter>& denied;              // plugin
    obs::Family<obs::Counter>& own_write_timeouts;  // controller
    obs::Family<obs::Counter>& hot_keys;            // controller
    obs::Family<obs::Counter>& service_starts;      // plugin, service
    obs::Family<obs::Counter>& recorded_events;     // outcome
    obs::Counter& webhook_panics;

    void prepare(std::string_view plugin);  // its series appear as 0
};

struct Core {
    Core(Parts p, RuntimeOptions o);
    ~Core();

    Parts parts;
    RuntimeOptions options;
    RuntimeMetrics metrics;
    IntentBook intents;
    PluginMetrics plugin_metrics;
    HttpPool http;  // [io]
    // shared with its timers and calls in flight on the loop
    std::shared_ptr<EventRecorder> events;
    std::atomic<bool> leading;  // workers and services may run

    MonotonicTime now() const noexcept { return parts.loop.now(); }
    std::uint64_t random();   // [any]
    double random_unit();     // [0, 1). [any]
    std::string random_id();  // a version 4 UUID [any]

private:
    std::mutex random_mutex_;  // guards parts.random
};

}  // namespace capstan::control
