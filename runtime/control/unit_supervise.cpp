// The supervisor: lifecycle of one plugin's instances, deadlines and fences of its
// calls, its orderly end.
#include "runtime/control/host_tables.hpp"
#include "runtime/control/unit.hpp"

#include <algorithm>
#include <utility>

namespace capstan::control {
namespace {

// threads notify just before they end, not after
constexpr std::chrono::milliseconds kStopPoll{50};
// how old what is said of missing workers may be
constexpr std::chrono::seconds kShortageShown{10};

std::string rc_name(capstan_rc rc) {
    return "code " + std::to_string(rc);
}

}  // namespace

void Unit::supervise() {
    bool services_wait = make_instance();
    for (;;) {
        if (services_wait && core_->leading.load()) {
            services_wait = false;
            start_services();
        }
        const MonotonicTime now = core_->now();
        {
            const std::lock_guard lock(mutex_);
            if (stopping_) {
                break;
            }
        }
        const MonotonicTime healed = heal(now);
        const MonotonicTime called = watch_calls();
        const MonotonicTime until = std::min({called, healed, watch_workers()});
        {
            const std::lock_guard lock(mutex_);
            supervisor_until_ = until;
            // A call that began since watch_calls() looked saw the old time and
            // may not have notified.
            for (const auto& call : calls_) {
                if (call->stage() == CallState::Stage::running) {
                    supervisor_until_ = std::min(supervisor_until_, call->deadline);
                }
            }
        }
        signal_->wait_until(supervisor_until_);
    }
    shut_down();
}

bool Unit::make_instance() {
    const capstan_plugin& table = *plugin_.table;
    capstan_ctl* ctl = nullptr;
    core_->metrics.instances.with({plugin_.manifest.id}).add();
    const capstan_rc created = table.create(&host_, str(config_json_), &ctl);
    if (created != CAPSTAN_OK) {
        fail_for_good("create failed with " + rc_name(created));
        return false;
    }
    const capstan_rc started = table.start(ctl);
    if (started != CAPSTAN_OK) {
        if (started != CAPSTAN_E_PANIC) {
            table.destroy(ctl);
        }
        fail_for_good("start failed with " + rc_name(started));
        return false;
    }
    {
        const std::lock_guard lock(mutex_);
        live_ = {ctl, ++generations_};
        recreate_at_ = kNever;
    }
    log_.info("plugin started", {{"version", plugin_.manifest.version}});
    set_phase(PluginPhase::running);
    return true;
}

void Unit::start_services() {
    for (auto& service : services_) {
        if (const Result<void> started = service->start(); !started) {
            log_.error("service cannot be started",
                       {{"service", service->name()}, {"error", started.error().message}});
        }
    }
}

// Replaces a poisoned instance when its time has come. Returns when to look again.
MonotonicTime Unit::heal(MonotonicTime now) {
    std::size_t panics = 0;
    std::string last_panic;
    {
        const std::lock_guard lock(mutex_);
        if (phase_ != PluginPhase::restarting) {
            return kNever;
        }
        panics = panics_.size();
        last_panic = last_panic_;
        if (panics < kPanicsMax && now < recreate_at_) {
            return recreate_at_;
        }
    }
    if (panics >= kPanicsMax) {
        fail_for_good("it panicked " + std::to_string(panics) + " times in " +
                      std::to_string(kPanicsWindow.count()) + " minutes, last in " + last_panic);
        return kNever;
    }
    if (make_instance()) {
        // What the old instance knew is gone: every key gets a look from the new one.
        core_->parts.loop.post([self = shared_from_this()] {
            for (auto& controller : self->controllers_) {
                controller->enqueue_all(queue::Reason::forced);
            }
        });
    }
    return kNever;
}

// Starts workers that are missing, and shows what keeps controllers without any. Returns when to
// look again.
MonotonicTime Unit::watch_workers() {
    MonotonicTime next = kNever;
    bool short_now = false;
    for (auto& controller : controllers_) {
        next = std::min(next, controller->keep_workers());
        short_now = short_now || !controller->shortage().reason.empty();
    }
    if (std::exchange(short_of_workers_, short_now) || short_now) {
        update_health();  // also for how long, and that it is over
    }
    return short_now ? std::min(next, core_->now() + kShortageShown) : next;
}

// Deadlines and fences that have come. Returns the next one.
MonotonicTime Unit::watch_calls() {
    std::vector<std::shared_ptr<CallState>> calls;
    Live live;
    {
        const std::lock_guard lock(mutex_);
        calls = calls_;
        live = live_;
    }
    const MonotonicTime now = core_->now();
    MonotonicTime next = kNever;
    for (const auto& call : calls) {
        if (now >= call->deadline) {
            if (call->move_to(CallState::Stage::timed_out)) {
                call->log.warn("call passed its deadline and is cancelled");
            }
        }
        if (call->stage() != CallState::Stage::running && !call->cancel_told) {
            call->cancel_told = true;
            // A poisoned instance is not called any more, also when no other follows.
            if (plugin_.table->cancel != nullptr && call->instance == live.generation &&
                phase() == PluginPhase::running) {
                plugin_.table->cancel(call->ctl, call->handle);
            }
        }
        if (now >= call->fence_at && !call->fence_told) {
            call->fence_told = true;
            call->move_to(CallState::Stage::fenced);
            call->log.error(
                "call did not end in time; it is fenced and its key is quarantined until it "
                "returns");
            if (call->controller != nullptr) {
                call->controller->replace_worker(*call);
            } else if (routes_ != nullptr) {
                routes_->replace_worker(*call);
            }
        }
        if (!call->fence_told) {
            next = std::min(next, now >= call->deadline ? call->fence_at : call->deadline);
        }
    }
    return next;
}

void Unit::shut_down() {
    MonotonicTime deadline = kNever;
    {
        const std::lock_guard lock(mutex_);
        deadline = stop_deadline_;
    }
    // Not set_phase: services and workers must see the cancellation first.
    for (auto& controller : controllers_) {
        controller->stop();
    }
    for (auto& service : services_) {
        service->stop();
    }
    if (routes_ != nullptr) {
        routes_->stop();
    }
    if (admission_ != nullptr) {
        admission_->stop();
    }
    cancel_calls(0, CallState::Stage::cancelled);
    std::vector<std::shared_ptr<CallState>> left;
    std::vector<std::string> report;
    for (;;) {
        watch_calls();
        report = what_is_left(left);
        const MonotonicTime now = core_->now();
        if (report.empty() || now >= deadline) {
            break;
        }
        signal_->wait_until(std::min(deadline, now + kStopPoll));
    }
    const Live instance = live();  // none when a call panicked, also one that had to end just now
    if (report.empty() && instance.ctl != nullptr) {
        const capstan_rc stopped = plugin_.table->stop(instance.ctl, ns_of(deadline));
        if (stopped != CAPSTAN_OK) {
            log_.warn("plugin did not stop cleanly", {{"code", stopped}});
        }
        plugin_.table->destroy(instance.ctl);
    }
    if (!report.empty()) {
        for (const auto& call : left) {
            call->move_to(CallState::Stage::fenced);
        }
        for (auto& controller : controllers_) {
            controller->abandon_workers();
        }
        for (auto& service : services_) {
            service->abandon();
        }
        if (routes_ != nullptr) {
            routes_->abandon();
        }
        if (admission_ != nullptr) {
            admission_->abandon();
        }
    }
    std::function<void(std::vector<std::string>)> done;
    {
        const std::lock_guard lock(mutex_);
        phase_ = PluginPhase::stopped;
        done = std::move(stopped_);
    }
    update_health();
    core_->parts.loop.post([done = std::move(done), report = std::move(report)] { done(report); });
}

std::vector<std::string> Unit::what_is_left(std::vector<std::shared_ptr<CallState>>& left) const {
    std::vector<std::string> report;
    {
        const std::lock_guard lock(mutex_);
        left = calls_;
    }
    for (const auto& call : left) {
        report.push_back(call->what + " is still running");
    }
    const auto add = [&](bool ended, const std::string& what) {
        if (!ended && left.empty()) {
            report.push_back(what + " did not end");
        }
    };
    for (const auto& controller : controllers_) {
        add(controller->workers_ended(), "a worker of " + controller->label());
    }
    for (const auto& service : services_) {
        add(service->ended(), "service " + short_name_ + "/" + service->name());
    }
    if (routes_ != nullptr) {
        add(routes_->ended(), "a route of " + short_name_);
    }
    if (admission_ != nullptr) {
        add(admission_->ended(), "a webhook of " + short_name_);
    }
    return report;
}

}  // namespace capstan::control
