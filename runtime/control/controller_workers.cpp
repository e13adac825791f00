// How many workers a controller has: threads that cannot be had, calls that do not return.
#include "runtime/control/controller.hpp"
#include "runtime/control/controller_parts.hpp"
#include "runtime/control/unit.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace capstan::control {

// Requires the lock. As many that work, or will when their calls return, as are wanted: how many
// are missing.
std::size_t Controller::missing_workers() const {
    const auto able = static_cast<std::size_t>(
        std::count_if(workers_.begin(), workers_.end(), [](const auto& worker) {
            return !worker->replaced && !worker->ended.load();
        }));
    return worker_count_ - std::min<std::size_t>(worker_count_, able + starting_);
}

// Requires the lock.
std::size_t Controller::free_workers() const {
    return static_cast<std::size_t>(
        std::count_if(workers_.begin(), workers_.end(), [](const auto& worker) {
            return !worker->stuck && !worker->replaced && !worker->ended.load();
        }));
}

// Requires the lock.
void Controller::note_workers() {
    if (!started_ || stopping_ || free_workers() > 0) {
        lost_since_ = kNever;
    } else if (lost_since_ == kNever) {
        lost_since_ = unit_.core()->now();
    }
}

MonotonicTime Controller::keep_workers() {
    for (;;) {
        {
            const std::lock_guard lock(mutex_);
            if (!started_ || stopping_) {
                return kNever;
            }
            if (missing_workers() == 0) {
                if (starting_ == 0) {
                    start_error_.clear();
                }
                return kNever;
            }
            if (unit_.core()->now() < start_at_) {
                return start_at_;
            }
            ++starting_;
        }
        const Result<void> started = start_worker();
        if (started) {
            continue;
        }
        log_.error("worker cannot be started; it is tried again",
                   {{"error", started.error().message}});
        const std::lock_guard lock(mutex_);
        start_error_ = started.error().message;
        start_at_ = unit_.core()->now() + start_pause_;
        start_pause_ = std::min<std::chrono::nanoseconds>(start_pause_ * 2, kWorkerBackoffMax);
        return start_at_;
    }
}

// Requires: counted in starting_.
Result<void> Controller::start_worker() {
    auto worker = std::make_shared<Worker>();  // shared by its thread and the list
    std::size_t number = 0;
    {
        const std::lock_guard lock(mutex_);
        number = workers_.size() + 1;
    }
    auto thread = unit_.core()->parts.threads.start(
        label_ + "/" + std::to_string(number), [this, worker, unit = unit_.shared_from_this()] {
            work(worker);
            worker->ended.store(true);
            unit->thread_ended();
        });
    std::vector<std::shared_ptr<Worker>> ended;  // joined without the lock: their stacks are freed
    const std::lock_guard lock(mutex_);
    --starting_;
    if (!thread) {
        note_workers();
        return std::move(thread).error();
    }
    worker->thread = std::move(thread).value();
    start_pause_ = kWorkerBackoffFirst;
    const auto gone = std::stable_partition(
        workers_.begin(), workers_.end(), [](const auto& w) { return !w->ended.load(); });
    ended.assign(std::make_move_iterator(gone), std::make_move_iterator(workers_.end()));
    workers_.erase(gone, workers_.end());
    workers_.push_back(std::move(worker));
    note_workers();
    return ok();
}

void Controller::replace_worker(const CallState& stuck) {
    {
        const std::lock_guard lock(mutex_);
        const auto found = std::find_if(workers_.begin(), workers_.end(), [&stuck](const auto& w) {
            return w->call == &stuck;
        });
        if (found == workers_.end()) {
            return;  // it has just returned
        }
        ++stuck_;
        metrics_->quarantined.add(1);
        (*found)->stuck = true;
        (*found)->replaced = !stopping_ && stuck_ <= kStuckWorkersMax;
        note_workers();
    }
    metrics_->stuck.add();
    keep_workers();
}

// Who was not replaced goes on, and so does who is missing still; of two one that has returned
// rather than one that has not. True when it had been stuck.
bool Controller::returned(Worker& self) {
    self.call = nullptr;
    if (!std::exchange(self.stuck, false)) {
        return false;
    }
    --stuck_;
    metrics_->quarantined.add(-1);
    if (self.replaced && missing_workers() > 0) {
        self.replaced = false;
    }
    const auto other = std::find_if(workers_.begin(), workers_.end(), [](const auto& worker) {
        return worker->stuck && !worker->replaced;
    });
    if (self.replaced && other != workers_.end()) {
        (*other)->replaced = true;
        self.replaced = false;
    }
    note_workers();
    return true;
}

Controller::Shortage Controller::shortage() const {
    const std::lock_guard lock(mutex_);
    return shortage_now();
}

// Requires the lock.
Controller::Shortage Controller::shortage_now() const {
    Shortage out;
    const std::size_t missing = missing_workers();
    out.dead = lost_since_ != kNever;
    if (!started_ || stopping_ || (!out.dead && (missing == 0 || start_error_.empty()))) {
        return out;
    }
    const MonotonicTime now = unit_.core()->now();
    const auto grace = std::max<std::chrono::nanoseconds>(2 * spec_.deadline, kWorkersLostMin);
    out.too_long = out.dead && now - lost_since_ >= grace;
    out.reason = "controller " + spec_.name + " has ";
    out.reason += out.dead ? "no worker left"
                           : std::to_string(worker_count_ - missing) + " of " +
                                 std::to_string(worker_count_) + " workers";
    const Worker* oldest = nullptr;  // of those that are stuck
    for (const auto& worker : workers_) {
        if (worker->stuck &&
            (oldest == nullptr || worker->call->deadline < oldest->call->deadline)) {
            oldest = worker.get();
        }
    }
    if (out.dead && oldest != nullptr) {
        const auto since = std::chrono::duration_cast<std::chrono::seconds>(
            now - (oldest->call->deadline - spec_.deadline));
        out.reason += ": " + std::to_string(stuck_) + (stuck_ == 1 ? " call does" : " calls do") +
                      " not return; " + oldest->call->key.to_string() + " since " +
                      std::to_string(since.count()) + " s";
    }
    if (missing > 0 && !start_error_.empty()) {
        out.reason += "; tried again: " + start_error_;
    }
    return out;
}

}  // namespace capstan::control
