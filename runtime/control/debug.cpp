// What the debug page shows of plugins, controllers and caches.
#include "runtime/control/controller_parts.hpp"
#include "runtime/control/debug_parts.hpp"
#include "runtime/control/unit.hpp"

#include <algorithm>

namespace capstan::control {
namespace {

std::string_view phase_name(PluginPhase phase) {
    switch (phase) {
        case PluginPhase::starting: return "starting";
        case PluginPhase::running: return "running";
        case PluginPhase::restarting: return "restarting";
        case PluginPhase::failed: return "failed";
        case PluginPhase::stopping: return "stopping";
        case PluginPhase::stopped: return "stopped";
    }
    return "";
}

std::string_view stage_name(CallState::Stage stage) {
    switch (stage) {
        case CallState::Stage::running: return "";
        case CallState::Stage::timed_out: return "past its deadline, cancelled";
        case CallState::Stage::cancelled: return "cancelled";
        case CallState::Stage::fenced: return "fenced; the key waits until the call returns";
        case CallState::Stage::ended: return "returning";
    }
    return "";
}

}  // namespace

double seconds(std::chrono::nanoseconds value) {
    const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(value).count();
    return static_cast<double>(ms) / 1000.0;
}

json::Value debug_of(const cache::WatchSpec& spec,
                     const cache::WatchState& state,
                     MonotonicTime now) {
    json::Value out = {{"gvk", spec.gvk.to_string()},
                       {"state", std::string(cache::to_string(state.state))},
                       {"synced", state.synced},
                       {"objects", state.objects},
                       {"bytes", state.bytes},
                       {"resourceVersion", state.resource_version}};
    const std::pair<const char*, const std::string*> texts[] = {
        {"namespace", &spec.ns},
        {"labelSelector", &spec.label_selector},
        {"fieldSelector", &spec.field_selector},
        {"reason", &state.reason}};
    for (const auto& [name, text] : texts) {
        if (!text->empty()) {
            out.set(name, *text);
        }
    }
    if (state.last_event != kNever) {
        out.set("lastEventAgeSeconds", seconds(now - state.last_event));
    }
    if (state.last_bytes != kNever) {
        out.set("lastBytesAgeSeconds", seconds(now - state.last_bytes));
    }
    return out;
}

// One key, and why it does not run.
struct Controller::KeyPage {
    const Controller& controller;
    MonotonicTime now;
    bool open;
    std::string closed;  // why not open
    std::size_t busy;    // workers inside a call that is not stuck

    std::string blocking(const ObjectKey& key, const queue::WorkQueue::Look& look) const {
        if (look.state == "in_flight") {
            for (const auto& worker : controller.workers_) {
                if (worker->call != nullptr && worker->call->key == key) {
                    return std::string(stage_name(worker->call->stage()));
                }
            }
            return "";
        }
        if (look.state == "parked") {
            return "parked: waits for its object to change";
        }
        if (look.held) {
            return "waits for the cache to show its own write";
        }
        if (look.state == "backoff") {
            return "backs off after " + std::to_string(look.failures) + " failures";
        }
        if (look.state == "delayed") {
            return "waits for its time";
        }
        if (!open) {
            return closed;
        }
        const std::size_t working = controller.free_workers();
        if (working == 0) {
            return "no worker is left";
        }
        return busy >= working ? "all workers are busy" : "";
    }

    json::Value page(const ObjectKey& key, const queue::WorkQueue::Look& look) const {
        json::Value out = {{"key", key.to_string()},
                           {"state", look.state},
                           {"failures", look.failures},
                           {"reasons", queue::describe_reasons(look.reasons)}};
        if (look.state == "in_flight") {
            out.set("ageSeconds", seconds(now - look.taken));
            out.set("runsAgain", look.again);
        } else if (look.state != "parked" && look.due > now) {
            out.set("nextRunInSeconds", seconds(look.due - now));
        } else if (look.state == "ready") {
            out.set("ageSeconds", seconds(now - look.due));
        }
        if (const std::string why = blocking(key, look); !why.empty()) {
            out.set("blockedBy", why);
        }
        if (const LastRun* last = controller.last_runs_.find(key); last != nullptr) {
            out.set("lastResult", std::string(last->result));
            out.set("lastRunAgeSeconds", seconds(now - last->at));
            out.set("lastDurationSeconds", seconds(last->took));
            if (!last->error.empty()) {
                out.set("lastError", last->error);
            }
        }
        return out;
    }
};

json::Value Controller::debug() const {
    const std::string closed = std::string(phase_name(unit_.phase()));
    const std::lock_guard lock(mutex_);
    const MonotonicTime now = unit_.core()->now();
    std::size_t busy = 0;
    for (const auto& worker : workers_) {
        busy += worker->call != nullptr && !worker->stuck ? 1 : 0;
    }
    const std::string shortage = shortage_now().reason;
    KeyPage page{*this, now, open_, "the plugin is " + closed, busy};
    if (!waiting_for_.empty() && !synced_.load()) {
        page.closed = "waits for " + waiting_for_;
    } else if (!unit_.core()->leading.load()) {
        page.closed = "another process leads";
    }
    json::Value keys = json::list();
    for (const auto& [key, look] : queue_.looks(kDebugKeysMax)) {
        keys.push_back(page.page(key, look));
    }
    const auto counts = queue_.counts();
    json::Value out = {
        {"controller", label_},
        {"workers", free_workers()},
        {"wantedWorkers", worker_count_},
        {"busyWorkers", busy},
        {"stuckWorkers", stuck_},
        {"open", open_},
        {"synced", synced_.load()},
        {"ready", counts.ready},
        {"delayed", counts.delayed},
        {"inFlight", counts.in_flight},
        {"parked", counts.parked},
        {"oldestReadySeconds", seconds(queue_.oldest_ready(now))},
        {"keysNotShown",
         counts.ready + counts.delayed + counts.in_flight + counts.parked -
             json::View(keys).array().size()},
        {"keys", std::move(keys)},
    };
    if (const std::string waits = waiting_for_.empty() ? shortage : waiting_for_; !waits.empty()) {
        out.set("waitsFor", waits);
    }
    return out;
}

void Unit::note_error(std::string text) {
    const MonotonicTime now = core_->now();
    text.resize(std::min(text.size(), kLastErrorBytesMax));
    const std::lock_guard lock(mutex_);
    if (!errors_.empty() && errors_.back().text == text) {
        errors_.back().at = now;
        ++errors_.back().count;
        return;
    }
    if (errors_.size() >= kDebugErrorsMax) {
        errors_.pop_front();
    }
    errors_.push_back({now, std::move(text)});
}

json::Value Unit::debug() const {
    json::Value controllers = json::list();
    for (const auto& controller : controllers_) {
        controllers.push_back(controller->debug());
    }
    const MonotonicTime now = core_->now();
    const std::lock_guard lock(mutex_);
    json::Value errors = json::list();
    for (auto error = errors_.rbegin(); error != errors_.rend(); ++error) {
        errors.push_back({{"ageSeconds", seconds(now - error->at)},
                          {"count", error->count},
                          {"error", error->text}});
    }
    json::Value out = {
        {"plugin", plugin_.manifest.id},
        {"version", plugin_.manifest.version},
        {"phase", std::string(phase_name(phase_))},
        {"instance", live_.generation},
        {"panics", panics_.size()},
        {"calls", calls_.size()},
        {"errors", std::move(errors)},
        {"controllers", std::move(controllers)},
    };
    if (!failure_.empty()) {
        out.set("failure", failure_);
    }
    return out;
}

}  // namespace capstan::control
