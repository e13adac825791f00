// Series and watches of one controller. Internal to runtime/control.
#pragma once

#include "runtime/control/controller.hpp"
#include "runtime/control/core.hpp"
#include "runtime/queue/work_queue.hpp"

#include <atomic>
#include <memory>
#include <string>

namespace capstan::control {

// The workqueue_* and controller_runtime_* series of one controller, found once.
struct ControllerMetrics final : queue::Observer {
    ControllerMetrics(RuntimeMetrics& m, const std::string& label, std::uint32_t workers)
        : adds(m.queue_adds.with({label, label})),
          retries(m.queue_retries.with({label, label})),
          depth_now(m.queue_depth.with({label, label, ""})),
          waited(m.queue_seconds.with({label, label})),
          worked(m.work_seconds.with({label, label})),
          success(m.reconcile_total.with({label, "success"})),
          error(m.reconcile_total.with({label, "error"})),
          requeue(m.reconcile_total.with({label, "requeue"})),
          requeue_after(m.reconcile_total.with({label, "requeue_after"})),
          errors(m.reconcile_errors.with({label})),
          terminal(m.terminal_errors.with({label})),
          panics(m.reconcile_panics.with({label})),
          timeouts(m.reconcile_timeouts.with({label})),
          took(m.reconcile_seconds.with({label})),
          active(m.active_workers.with({label})),
          stuck(m.stuck_workers.with({label})),
          quarantined(m.quarantined.with({label})),
          own_write_timeouts(m.own_write_timeouts.with({label})),
          hot(m.hot_keys.with({label})),
          unfinished(m.unfinished_seconds.with({label, label})),
          longest(m.longest_running_seconds.with({label, label})),
          delayed(m.queue_delayed.with({label})),
          parked_keys(m.queue_parked.with({label})),
          oldest(m.queue_oldest_seconds.with({label})),
          conflicts(m.conflicts.with({label})) {
        m.max_concurrent.with({label}).set(workers);
    }
    void added() override { adds.add(); }
    void retried() override { retries.add(); }
    void depth(std::size_t ready) override { depth_now.set(static_cast<double>(ready)); }
    void taken(std::chrono::nanoseconds value) override {
        waited.observe(std::chrono::duration<double>(value).count());
    }
    void finished(std::chrono::nanoseconds value) override {
        worked.observe(std::chrono::duration<double>(value).count());
    }

    obs::Counter &adds, &retries;
    obs::Gauge& depth_now;
    obs::Histogram &waited, &worked;
    obs::Counter &success, &error, &requeue, &requeue_after, &errors, &terminal, &panics, &timeouts;
    obs::Histogram& took;
    obs::Gauge& active;
    obs::Counter& stuck;
    obs::Gauge& quarantined;
    obs::Counter& own_write_timeouts;
    obs::Counter& hot;
    obs::Gauge &unfinished, &longest, &delayed, &parked_keys, &oldest;
    obs::Counter& conflicts;
};

struct Controller::Worker {
    std::unique_ptr<Thread> thread;
    // Guarded by the controller's mutex:
    bool stuck{false};     // its call is past its fence
    bool replaced{false};  // stuck, and another one does its work: it ends when its call returns
    CallState* call{nullptr};
    std::atomic<bool> ended{false};
};

// One watch of a controller. [io]
struct Controller::WatchState {
    const plugin::Watch* watch{nullptr};
    cache::WatchSpec spec;
    kube::Parts parts;  // what predicate and map rule look at
    std::unique_ptr<cache::WatchHandle> handle;
    // shared with readers on workers
    std::shared_ptr<std::atomic<bool>> synced{std::make_shared<std::atomic<bool>>(false)};
    cache::WatchState last;
    obs::Counter *filtered{nullptr}, *passed{nullptr}, *forced{nullptr}, *error{nullptr};
};

}  // namespace capstan::control
