// One plugin in the runtime: its instance, controllers, services, routes, webhooks, and the
// supervisor thread that runs its lifecycle. Internal to runtime/control.
//
// Lifecycle functions of the plugin are called on the supervisor only. When an instance panics it
// is poisoned: dispatch stops, its calls are cancelled, destroy is skipped (its state cannot be
// trusted), and a fresh instance follows with back-off. kPanicsMax panics within kPanicsWindow stop
// the plugin for good. Thread: as tagged.
#pragma once

#include "capstan/capstan.h"
#include "runtime/control/admission.hpp"
#include "runtime/control/call.hpp"
#include "runtime/control/controller.hpp"
#include "runtime/control/core.hpp"
#include "runtime/control/routes.hpp"
#include "runtime/control/service.hpp"

#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace capstan::control {

// A store of this plugin's watches, for reads from workers.
struct ReadStore {
    GroupVersionKind gvk;
    bool projected{false};  // it keeps a part of each object
    std::shared_ptr<const cache::Store> store;
    std::shared_ptr<const std::atomic<bool>> synced;  // shared with the watch on the loop
};

class Unit : public std::enable_shared_from_this<Unit> {
public:
    // The host exists before the plugin's table does, for its entry.
    Unit(std::shared_ptr<Core> core, const plugin::Manifest& manifest);
    ~Unit();

    const capstan_host* host() const noexcept { return &host_; }
    bool attached() const noexcept { return plugin_.table != nullptr; }
    // Fills in the loaded plugin. [startup]
    Result<void> attach(Plugin plugin);
    void set_short_name(std::string name) { short_name_ = std::move(name); }  // [startup]
    void start();  // watches and supervisor [io]
    void lead();   // core()->leading has become true [io]
    // `stopped` runs on the loop with what is left. [io]
    void stop(MonotonicTime deadline, std::function<void(std::vector<std::string>)> stopped);
    void drop_watches();  // [io]
    void abandon();       // its supervisor does not return [io]
    void join();          // after `stopped`: waits for the threads that ended [io]

    const std::shared_ptr<Core>& core() const noexcept { return core_; }
    const plugin::Manifest& manifest() const noexcept { return plugin_.manifest; }
    const Plugin& plugin() const noexcept { return plugin_; }
    const std::string& short_name() const noexcept { return short_name_; }  // "etcd"
    const std::string& config_json() const noexcept { return config_json_; }
    // The manifest's, with its variables filled in; empty: none. [any]
    const std::string& field_manager() const noexcept { return field_manager_; }
    const obs::Log& log() const noexcept { return log_; }
    const std::vector<std::unique_ptr<Controller>>& controllers() const noexcept {
        return controllers_;
    }
    std::string workers_check() const { return "workers/" + plugin_.manifest.id; }  // of /livez
    Controller* controller(std::string_view name) const noexcept;
    RoutePool* routes() const noexcept { return routes_.get(); }
    AdmissionPool* admission() const noexcept { return admission_.get(); }
    // constant after start()
    const std::vector<ReadStore>& stores() const noexcept { return stores_; }
    PluginPhase phase() const;  // [any]

    // The instance calls may use now; ctl is nullptr when there is none. [any]
    struct Live {
        capstan_ctl* ctl{nullptr};
        std::uint64_t generation{0};
    };
    Live live() const;
    // A call of this instance returned E_PANIC. `last`: for the sentence that says why the plugin
    // failed, "controller main, key default/a: TEXT". [any]
    void poison(std::uint64_t generation, const std::string& where, const std::string& last);
    // Registers a call for deadlines and cancellation. False: the unit is stopping or its
    // instance is gone. [worker]
    bool begin(const std::shared_ptr<CallState>& call);
    // Ends it; counts leaks. [worker]
    void end(const std::shared_ptr<CallState>& call);
    void thread_ended();                // one of its threads is about to end [any]
    void workers_changed();             // some are missing, or no longer stuck [any]
    void controllers_changed();         // health must be looked at again [io]
    void note_error(std::string text);  // for the debug page [any]
    json::Value debug() const;          // for Runtime::debug [io]

private:
    friend struct UnitSupervisor;
    void supervise();
    void start_supervisor(std::chrono::nanoseconds pause);
    bool make_instance();
    void fail_for_good(const std::string& why);
    void set_phase(PluginPhase phase);
    MonotonicTime watch_calls();
    MonotonicTime watch_workers();
    MonotonicTime heal(MonotonicTime now);
    void shut_down();
    std::vector<std::string> what_is_left(std::vector<std::shared_ptr<CallState>>& left) const;
    void cancel_calls(std::uint64_t generation, CallState::Stage stage);
    void wake_all();
    void update_health();  // [any]
    void show_workers(const std::string& check, std::string waiting);
    void start_services();

    const std::shared_ptr<Core> core_;
    capstan_host host_;
    Plugin plugin_;
    std::string short_name_, config_json_, field_manager_;
    std::string ready_note_;  // what gates that are off leave undone
    obs::Log log_;
    std::vector<std::unique_ptr<Controller>> controllers_;
    std::vector<std::unique_ptr<ServiceRunner>> services_;
    std::unique_ptr<RoutePool> routes_;
    std::unique_ptr<AdmissionPool> admission_;
    std::vector<ReadStore> stores_;
    std::unique_ptr<Thread> thread_;            // the supervisor
    std::unique_ptr<net::Timer> thread_retry_;  // [io]
    std::unique_ptr<Signal> signal_;            // wakes the supervisor
    bool short_of_workers_{false};              // supervisor's only

    std::mutex health_mutex_;   // makes looking and publishing one step; taken before every other
    mutable std::mutex mutex_;  // guards what follows
    PluginPhase phase_{PluginPhase::starting};
    std::string failure_;
    Live live_;
    std::uint64_t generations_{0};
    std::vector<std::shared_ptr<CallState>> calls_;
    std::deque<MonotonicTime> panics_;
    std::string last_panic_;
    struct NotedError {
        MonotonicTime at{0};
        std::string text;
        std::size_t count{1};  // of the same in a row
    };
    std::deque<NotedError> errors_;  // newest last, at most kDebugErrorsMax
    MonotonicTime recreate_at_{kNever};
    MonotonicTime supervisor_until_{kNever};  // what it sleeps to
    bool stopping_{false};
    MonotonicTime stop_deadline_{kNever};
    std::function<void(std::vector<std::string>)> stopped_;
};

}  // namespace capstan::control
