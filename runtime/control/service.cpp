#include "runtime/control/service.hpp"

#include "runtime/control/host_tables.hpp"
#include "runtime/control/unit.hpp"

#include <algorithm>

namespace capstan::control {

ServiceRunner::ServiceRunner(Unit& unit, std::string name)
    : unit_(unit), name_(std::move(name)), signal_(unit.core()->parts.threads.make_signal()) {}

Result<void> ServiceRunner::start() {
    CAPSTAN_TRY(thread_,
                unit_.core()->parts.threads.start(unit_.short_name() + "/" + name_,
                                                  [this, unit = unit_.shared_from_this()] {
                                                      loop();
                                                      unit->thread_ended();
                                                  }));
    return ok();
}

void ServiceRunner::stop() {
    stopping_.store(true);
    signal_->notify();
}

void ServiceRunner::abandon() noexcept {
    if (!ended()) {
        thread_->abandon();
    }
}

void ServiceRunner::loop() {
    Core& core = *unit_.core();
    std::chrono::nanoseconds pause = kServiceBackoffFirst;
    MonotonicTime not_before{0};
    while (!stopping_.load()) {
        const Unit::Live live = unit_.live();
        const MonotonicTime now = core.now();
        if (live.ctl == nullptr || now < not_before) {
            signal_->wait_until(live.ctl == nullptr ? kNever : not_before);
            continue;
        }
        const capstan_rc rc = run_once(live.generation, live.ctl);
        if (stopping_.load()) {
            break;
        }
        const MonotonicTime ended = core.now();
        if (ended - now > kServiceBackoffMax) {
            pause = kServiceBackoffFirst;
        }
        const double jittered =
            static_cast<double>(pause.count()) * (0.8 + 0.4 * core.random_unit());
        not_before = ended + std::chrono::nanoseconds(static_cast<std::int64_t>(jittered));
        pause = std::min<std::chrono::nanoseconds>(pause * 2, kServiceBackoffMax);
        unit_.log().warn("service ended; it is started again", {{"service", name_}, {"code", rc}});
    }
}

capstan_rc ServiceRunner::run_once(std::uint64_t generation, capstan_ctl* ctl) {
    Core& core = *unit_.core();
    auto call =
        std::make_shared<CallState>(unit_.core(), unit_.shared_from_this(), CallKind::service);
    call->instance = generation;
    call->ctl = ctl;
    call->what = "service " + unit_.short_name() + "/" + name_;
    call->log = unit_.log().with({{"service", name_}});
    if (!unit_.begin(call)) {
        return CAPSTAN_E_CANCELLED;
    }
    core.metrics.service_starts.with({unit_.manifest().id, name_}).add();
    capstan_rc rc = CAPSTAN_OK;
    {
        const CurrentCall current(*call);
        rc = unit_.plugin().service->run(ctl, call->handle, str(name_));
    }
    unit_.end(call);
    if (rc == CAPSTAN_E_PANIC) {
        core.metrics.reconcile_panics.with({unit_.short_name() + "/" + name_}).add();
        unit_.poison(generation, call->what, "service " + name_);
    }
    return rc;
}

}  // namespace capstan::control
