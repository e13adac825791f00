// Queue and runs. The way from events to the queue is in controller_watch.cpp, how many workers
// there are in controller_workers.cpp.
#include "runtime/control/controller.hpp"

#include "runtime/control/controller_parts.hpp"
#include "runtime/control/host_tables.hpp"
#include "runtime/control/unit.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace capstan::control {

Controller::Controller(Unit& unit, const plugin::ControllerSpec& spec, std::uint32_t workers)
    : unit_(unit),
      spec_(spec),
      label_(unit.short_name() + "/" + spec.name),
      worker_count_(workers),
      log_(unit.log().with({{"controller", label_}})),
      metrics_(std::make_unique<ControllerMetrics>(unit.core()->metrics, label_, workers)),
      signal_(unit.core()->parts.threads.make_signal()),
      queue_(queue::Options{[core = unit.core()] { return core->random_unit(); },
                            metrics_.get(),
                            unit.core()->options.queue_keys_max}) {}

Controller::~Controller() = default;

Result<void> Controller::enqueue(const ObjectKey& key, const queue::AddOptions& options) {
    Result<void> added = add(key, options, false);
    if (!added && added.error().code == Code::overloaded) {
        log_.warn("queue is full; keys are looked for again when there is room",
                  {{"error", added.error().message}});
    }
    return added;
}

Result<void> Controller::add(const ObjectKey& key,
                             const queue::AddOptions& options,
                             bool refilling) {
    Result<void> added = ok();
    {
        const std::lock_guard lock(mutex_);
        queue::AddOptions wanted = options;
        if (is_hot(key) && wanted.reason != queue::Reason::plugin) {
            wanted.delay = std::max<std::chrono::nanoseconds>(wanted.delay, kHotPause);
        }
        added = queue_.add(unit_.core()->now(), key, wanted);
        dropped_ = dropped_ || (!added && !refilling);
    }
    if (added) {
        signal_->notify();
    }
    return added;
}

// Called by the supervisor and by the loop: whoever comes last sees all conditions.
void Controller::reopen() {
    bool start = false;
    {
        const std::lock_guard lock(mutex_);
        open_ = unit_.live().ctl != nullptr && synced_.load() && unit_.core()->leading.load();
        start = open_ && !started_ && !stopping_;
        started_ = started_ || start;
    }
    if (start && keep_workers() != kNever) {
        unit_.workers_changed();
    }
    wake_workers();
}

void Controller::wake_workers() {
    std::size_t count = 0;
    {
        const std::lock_guard lock(mutex_);
        count = workers_.size();
    }
    if (count > 0) {
        signal_->notify();  // the woken one passes it on, see work()
    }
}

void Controller::stop() {
    {
        const std::lock_guard lock(mutex_);
        stopping_ = true;
        queue_.shut_down();
    }
    wake_workers();
}

bool Controller::workers_ended() const {
    const std::lock_guard lock(mutex_);
    return std::all_of(
        workers_.begin(), workers_.end(), [](const auto& w) { return w->ended.load(); });
}

void Controller::abandon_workers() {
    const std::lock_guard lock(mutex_);
    for (const auto& worker : workers_) {
        if (!worker->ended.load()) {
            worker->thread->abandon();
        }
    }
}

void Controller::join() {
    std::vector<std::shared_ptr<Worker>> workers;
    {
        const std::lock_guard lock(mutex_);
        workers = workers_;
    }
    for (const auto& worker : workers) {
        worker->thread.reset();
    }
}

queue::WorkQueue::Look Controller::look(const ObjectKey& key) const {
    const std::lock_guard lock(mutex_);
    return queue_.look(key);
}

void Controller::refresh_metrics() {
    const std::lock_guard lock(mutex_);
    const auto running = queue_.running(unit_.core()->now());
    metrics_->unfinished.set(std::chrono::duration<double>(running.total).count());
    metrics_->longest.set(std::chrono::duration<double>(running.longest).count());
    const auto counts = queue_.counts();
    metrics_->delayed.set(static_cast<double>(counts.delayed));
    metrics_->parked_keys.set(static_cast<double>(counts.parked));
    const auto oldest = queue_.oldest_ready(unit_.core()->now());
    metrics_->oldest.set(std::chrono::duration<double>(oldest).count());
}

bool Controller::idle() const {
    const std::lock_guard lock(mutex_);
    const auto counts = queue_.counts();
    return counts.in_flight == 0 && (counts.ready == 0 || !open_) &&
           queue_.next_due() > unit_.core()->now();
}

void Controller::work(const std::shared_ptr<Worker>& self) {
    const Core& core = *unit_.core();
    for (;;) {
        std::optional<queue::Item> item;
        MonotonicTime next = kNever;
        MonotonicTime wake = kNever;
        bool end = false;
        {
            const std::lock_guard lock(mutex_);
            end = stopping_ || self->replaced;
            if (!end && open_) {
                item = queue_.try_take(core.now());
                next = queue_.next_due();
            }
            wake = std::min(next, forget_runs(core.now()));
        }
        if (end || (item && next != kNever)) {
            signal_->notify();  // for the next worker: to end too, or to wait for what is due next
        }
        if (end) {
            return;
        }
        if (item) {
            run(*item, *self);
        } else {
            signal_->wait_until(wake);
        }
    }
}

// Requires the lock. Empties recent_runs_ when its time is over; when to call again.
MonotonicTime Controller::forget_runs(MonotonicTime now) {
    if (now - hot_since_ >= kHotWindow) {
        recent_runs_ = {};
    }
    return recent_runs_.empty() ? kNever : hot_since_ + kHotWindow;
}

bool Controller::is_hot(const ObjectKey& key) const {
    const auto recent = recent_runs_.find(std::hash<ObjectKey>{}(key));
    return recent != recent_runs_.end() && recent->second >= kHotRuns;
}

// True when the key became hot with this run.
bool Controller::count_run(const ObjectKey& key, MonotonicTime now) {
    const std::lock_guard lock(mutex_);
    forget_runs(now);
    if (recent_runs_.empty()) {
        hot_since_ = now;
    }
    return recent_runs_.size() < queue::kKeysMax &&
           ++recent_runs_[std::hash<ObjectKey>{}(key)] == kHotRuns;
}

std::shared_ptr<CallState> Controller::make_call(const ObjectKey& key, MonotonicTime start) {
    const std::shared_ptr<Core>& core = unit_.core();
    const Unit::Live live = unit_.live();
    auto call = std::make_shared<CallState>(core, unit_.shared_from_this(), CallKind::reconcile);
    call->controller = this;
    call->instance = live.generation;
    call->ctl = live.ctl;
    call->key = key;
    call->what = label_ + " " + key.to_string();
    call->id = core->random_id();
    call->log = log_.with({{"namespace", key.ns}, {"name", key.name}, {"reconcileID", call->id}});
    call->deadline = start + spec_.deadline;
    call->fence_at = call->deadline + core->options.call_grace;
    return live.ctl != nullptr && unit_.begin(call) ? call : nullptr;
}

void Controller::run(const queue::Item& item, Worker& self) {
    const std::shared_ptr<Core>& core = unit_.core();
    const MonotonicTime start = core->now();
    const auto call = own_writes_missing(item, start) ? nullptr : make_call(item.key, start);
    if (call == nullptr) {
        const std::lock_guard lock(mutex_);
        queue_.done(core->now(), item.key, queue::Finish::put_back(kOwnWritesPoll));
        return;
    }
    {
        const std::lock_guard lock(mutex_);
        self.call = call.get();
    }
    if (count_run(item.key, start)) {
        metrics_->hot.add();
        call->log.warn("key keeps waking itself and is slowed down", {{"count", kHotRuns}});
    }
    metrics_->active.add(1);
    const GroupVersionKind& gvk = spec_.primary().gvk;
    const capstan_request request{{sizeof(capstan_request), CAPSTAN_ABI},
                                  str(spec_.name),
                                  str(gvk.group),
                                  str(gvk.kind),
                                  str(item.key.ns),
                                  str(item.key.name),
                                  ns_of(call->deadline),
                                  item.failures,
                                  0};
    capstan_rc rc = CAPSTAN_OK;
    {
        const CurrentCall current(*call);
        rc = unit_.plugin().table->reconcile(call->ctl, call->handle, &request);
        if (rc == CAPSTAN_PENDING && spec_.async) {
            rc = await_pending(*call);
        }
    }
    unit_.end(call);
    LastRun last;
    last.at = core->now();
    last.took = last.at - start;
    queue::Finish finish = conclude(*call, item, rc, last);
    if (!last.error.empty() && last.result != "requeue") {
        unit_.note_error(call->what + ": " + last.error);
    }
    metrics_->active.add(-1);
    bool was_stuck = false;
    {
        const std::lock_guard lock(mutex_);
        was_stuck = returned(self);
        const std::lock_guard own(call->mutex);
        if (!call->own_writes.empty()) {
            if (own_writes_.size() >= queue::kKeysMax) {
                own_writes_.erase(own_writes_.begin());
            }
            own_writes_[item.key] = Held{std::move(call->own_writes), kNever};
        }
        last_runs_.note(item.key, std::move(last));
        if (finish.kind == queue::Finish::Kind::after && is_hot(item.key)) {
            finish.delay = std::max<std::chrono::nanoseconds>(finish.delay, kHotPause);
        }
        queue_.done(core->now(), item.key, finish);
    }
    if (was_stuck) {
        unit_.workers_changed();
    }
    if (rc == CAPSTAN_E_PANIC) {
        unit_.poison(call->instance, call->what, describe_panic(*call));
    }
    refill_after_overflow();
}

// An asynchronous plugin returned; the result comes through reconcile_done. The
// worker stays with its key.
capstan_rc Controller::await_pending(CallState& call) {
    auto signal = unit_.core()->parts.threads.make_signal();
    {
        const std::lock_guard lock(call.mutex);
        call.done_signal = signal.get();
    }
    const auto done = [&call] {
        const std::lock_guard lock(call.mutex);
        return call.result.has_value();
    };
    call.add_waiter(*signal);
    // Past the deadline it may still answer, until the fence.
    while (!done() && !call.fenced()) {
        signal->wait_until(call.next_change());
    }
    call.remove_waiter(*signal);
    const std::lock_guard lock(call.mutex);
    call.done_signal = nullptr;
    return call.result ? call.result->rc : CAPSTAN_E_FENCED;
}

}  // namespace capstan::control
