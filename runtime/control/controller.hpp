// One logical controller of a plugin: its watches, its queue and its workers.
// Internal to runtime/control.
#pragma once

#include "runtime/cache/cache.hpp"
#include "runtime/control/call.hpp"
#include "runtime/control/core.hpp"
#include "runtime/control/last_runs.hpp"
#include "runtime/plugin/manifest.hpp"
#include "runtime/queue/work_queue.hpp"

#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

namespace capstan::control {

// Between two tries to start a worker's thread.
inline constexpr std::chrono::seconds kWorkerBackoffFirst{1};
inline constexpr std::chrono::seconds kWorkerBackoffMax{60};
// A controller without a worker for as long, or twice its deadline, wants a new process.
inline constexpr std::chrono::minutes kWorkersLostMin{5};

struct ReadStore;
struct ControllerMetrics;

class Controller {
public:
    Controller(Unit& unit, const plugin::ControllerSpec& spec, std::uint32_t workers);
    ~Controller();

    const std::string& label() const noexcept { return label_; }  // "etcd/etcd"
    const plugin::ControllerSpec& spec() const noexcept { return spec_; }

    // [io]
    Result<void> prepare();  // resolves `select`; errors: invalid (a value is missing)
    Result<void> start_watches(std::vector<ReadStore>& stores);
    void drop_watches();
    bool synced() const noexcept { return synced_.load(); }
    // what is not served or not synced, and why; "" when all is well [any]
    std::string waiting_for() const;
    void enqueue_all(queue::Reason reason);

    // [any]
    Result<void> enqueue(const ObjectKey& key, const queue::AddOptions& options);
    void reopen();                                // a condition of dispatch has changed
    void stop();                                  // no further dispatch; workers end
    void replace_worker(const CallState& stuck);  // [lifecycle]
    // Starts the workers that are missing. When a thread cannot be had: when to call again.
    MonotonicTime keep_workers();
    // Fewer workers than wanted because of the system, or none because their calls do not return.
    struct Shortage {
        std::string reason;    // "": none
        bool dead{false};      // no worker is left
        bool too_long{false};  // for so long that only a new process helps
    };
    Shortage shortage() const;
    bool workers_ended() const;
    void join();  // [io] requires: every worker ended or was abandoned
    void abandon_workers();
    queue::WorkQueue::Look look(const ObjectKey& key) const;
    bool idle() const;
    void refresh_metrics();
    json::Value debug() const;  // for Runtime::debug [io]

private:
    struct WatchState;
    struct Worker;
    struct KeyPage;

    Result<void> start_worker();
    void work(const std::shared_ptr<Worker>& self);
    // nullptr: no instance takes it
    std::shared_ptr<CallState> make_call(const ObjectKey& key, MonotonicTime start);
    void run(const queue::Item& item, Worker& self);
    capstan_rc await_pending(CallState& call);
    void wake_workers();
    bool returned(Worker& self);  // requires the lock: its call has ended
    std::size_t missing_workers() const;
    std::size_t free_workers() const;
    void note_workers();
    Shortage shortage_now() const;
    MonotonicTime forget_runs(MonotonicTime now);
    bool is_hot(const ObjectKey& key) const;  // requires the lock
    bool count_run(const ObjectKey& key, MonotonicTime now);
    bool forget_own_write(const ObjectKey& key,
                          const GroupVersionKind& gvk,
                          const kube::Object& object);
    bool own_writes_missing(const queue::Item& item, MonotonicTime now);
    queue::Finish conclude(CallState& call,
                           const queue::Item& item,
                           capstan_rc rc,
                           LastRun& last);  // `took` is given, the rest is filled in
    void on_event(WatchState& watch, const cache::Event& event);
    void on_state(WatchState& watch, const cache::WatchState& state);
    void wake_keys(const WatchState& watch,
                   const cache::Event& event,
                   const json::Value* old_object,
                   const json::Value* new_object,
                   bool forced);
    void check_synced();
    void arm_resync();
    Result<void> add(const ObjectKey& key, const queue::AddOptions& options, bool refilling);
    std::string describe_panic(CallState& call) const;
    void refill_after_overflow();
    void refill();
    bool refill_gone();  // false: no more room
    void remember_if_gone(const ObjectKey& key, const cache::Event& event);
    plugin::MapLookups lookups(plugin::MapRule::Kind kind) const;
    void scope_watches();
    // Stores of the primary kind: one, or one for each configured namespace.
    std::vector<std::shared_ptr<const cache::Store>> primary_stores() const;
    std::vector<cache::ObjectPtr> primary_objects() const;  // sorted by namespace and name

    Unit& unit_;
    const plugin::ControllerSpec& spec_;
    const std::string label_;
    const std::uint32_t worker_count_;
    obs::Log log_;
    std::unique_ptr<ControllerMetrics> metrics_;
    std::unique_ptr<Signal> signal_;  // a key may be due

    // Loop only:
    std::vector<std::unique_ptr<WatchState>> watches_;
    std::unique_ptr<net::Timer> resync_timer_;
    // Known from the first primary on; without one there is no key to lead to.
    bool primary_cluster_scoped_{false};
    // The way of a refill once round the keys of the cache, in their order.
    struct Refill {
        bool active{false};
        bool wrapped{false};
        ObjectKey from;  // it ends behind this one
        ObjectKey last;  // the last one that found room
    };
    Refill refill_;
    // Keys that found no room and are not in the cache, where no walk would find them. They are
    // names only, and as many as were deleted while the queue was full.
    std::set<ObjectKey> gone_;

    std::atomic<bool> synced_{false};
    mutable std::mutex mutex_;  // guards what follows
    std::string waiting_for_;
    queue::WorkQueue queue_;
    bool open_{false};     // the instance takes calls, synced and leading
    bool started_{false};  // has workers
    bool stopping_{false};
    bool dropped_{false};  // an add found no room since the last refill began
    std::vector<std::shared_ptr<Worker>> workers_;
    std::size_t stuck_{0};
    std::size_t starting_{0};           // threads that are being started
    MonotonicTime lost_since_{kNever};  // no worker is left
    MonotonicTime start_at_{0};         // no thread is asked for before
    std::chrono::nanoseconds start_pause_{kWorkerBackoffFirst};
    std::string start_error_;  // why one is missing
    struct Held {
        std::vector<OwnWrite> writes;
        MonotonicTime since{kNever};  // of the first hold
    };
    std::unordered_map<ObjectKey, Held> own_writes_;  // at most kKeysMax
    // Runs per key (its hash) since hot_since_, to slow down a key that keeps waking itself. At
    // most kKeysMax entries; emptied when the time is over.
    std::unordered_map<std::size_t, std::uint32_t> recent_runs_;
    MonotonicTime hot_since_{0};
    LastRuns last_runs_;
};

}  // namespace capstan::control
