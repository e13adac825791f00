// What the outcome of a reconcile means for its key.
#include "runtime/control/controller.hpp"
#include "runtime/control/controller_parts.hpp"
#include "runtime/control/unit.hpp"

#include "capstan/plugin.hpp"

#include <algorithm>
#include <optional>
#include <string>

namespace capstan::control {
namespace {

constexpr std::size_t kPanicBytesMax = 256;  // of an exception's text, in the plugin's failure

bool known(capstan_rc rc) {
    return rc <= CAPSTAN_OK && rc >= CAPSTAN_E_EXPIRED;
}

// One finished reconcile, and how its failures are counted and told.
struct Conclusion {
    ControllerMetrics& metrics;
    CallState& call;
    const queue::Item& item;
    std::chrono::milliseconds::rep duration;  // ms
    LastRun& last;

    queue::Finish failed(std::string_view message,
                         std::string_view error,
                         std::chrono::nanoseconds floor) const {
        metrics.error.add();
        metrics.errors.add();
        last.result = "error";
        last.error = error;
        call.log.warn(message,
                      {{"error", error}, {"attempt", item.failures}, {"duration_ms", duration}});
        return queue::Finish::failed(floor);
    }

    queue::Finish parked(std::string_view error) const {
        metrics.error.add();
        metrics.errors.add();
        metrics.terminal.add();
        last.result = "parked";
        last.error = error;
        call.log.warn("reconcile parked its key until the object changes",
                      {{"error", error}, {"duration_ms", duration}});
        return queue::Finish::parked();
    }
};

// When the plugin broke the contract, or its call: nothing it said counts.
std::optional<queue::Finish> broken(const Conclusion& end,
                                    capstan_rc rc,
                                    const CallResult& result,
                                    CallState::Stage stage) {
    if (rc == CAPSTAN_E_PANIC) {
        end.metrics.panics.add();
        return end.failed(
            "reconcile panicked", "exception or panic stopped at the plugin border", {});
    }
    if (!known(rc) || (result.explicit_result && !known(result.rc))) {
        const std::string code = std::to_string(known(rc) ? result.rc : rc);
        if (rc == CAPSTAN_PENDING) {
            return end.failed(
                "reconcile failed",
                "it returned CAPSTAN_PENDING, which needs \"async\": true in the manifest",
                {});
        }
        return end.failed("reconcile failed", "it returned the unknown code " + code, {});
    }
    if (stage == CallState::Stage::fenced) {
        end.metrics.timeouts.add();
        return end.failed("reconcile returned after its fence", "its result is not used", {});
    }
    return std::nullopt;
}

}  // namespace

// The text of the exception comes as the call's result from plugins that know it.
std::string Controller::describe_panic(CallState& call) const {
    std::string text;
    {
        const std::lock_guard lock(call.mutex);
        text = call.result ? call.result->message.substr(0, kPanicBytesMax) : "";
    }
    std::replace_if(
        text.begin(), text.end(), [](unsigned char c) { return c < ' ' || c == 0x7f; }, ' ');
    return "controller " + spec_.name + ", key " + call.key.to_string() +
           (text.empty() ? "" : ": " + text);
}

queue::Finish Controller::conclude(CallState& call,
                                   const queue::Item& item,
                                   capstan_rc rc,
                                   LastRun& last) {
    ControllerMetrics& m = *metrics_;
    m.took.observe(std::chrono::duration<double>(last.took).count());
    CallResult result;
    {
        const std::lock_guard lock(call.mutex);
        result = call.result.value_or(CallResult{});
    }
    const CallState::Stage stage = call.stage_at_end();
    const auto duration = std::chrono::duration_cast<std::chrono::milliseconds>(last.took).count();
    const Conclusion end{m, call, item, duration, last};
    if (auto finish = broken(end, rc, result, stage)) {
        return *finish;
    }
    if (!result.explicit_result) {
        result.rc = rc;
        result.retry = rc == CAPSTAN_OK ? CAPSTAN_RETRY_NONE : CAPSTAN_RETRY_BACKOFF;
    }
    const std::string error =
        result.message.empty() ? std::string(to_string(code_of(result.rc))) : result.message;
    if (result.rc != CAPSTAN_OK && stage == CallState::Stage::timed_out) {
        m.timeouts.add();
        return end.failed("reconcile failed at its deadline", error, result.after);
    }
    if (result.rc == CAPSTAN_E_CANCELLED && stage == CallState::Stage::cancelled) {
        // stopping, or the instance is being replaced: not the plugin's failure
        last.result = "requeue";
        return queue::Finish::failed();
    }
    const bool conflict = result.rc == CAPSTAN_E_CONFLICT || result.rc == CAPSTAN_E_EXISTS;
    if (conflict && result.retry == CAPSTAN_RETRY_BACKOFF) {
        m.conflicts.add();
        last.result = "requeue";
        last.error = error;
        m.requeue.add();  // control flow, not an error; the short first back-offs re-read soon
        call.log.debug("reconcile met a conflict", {{"error", error}, {"duration_ms", duration}});
        return queue::Finish::failed(result.after);
    }
    switch (result.retry) {
        case CAPSTAN_RETRY_NONE:
        case CAPSTAN_RETRY_AFTER:
            if (result.rc != CAPSTAN_OK) {
                return end.failed("reconcile failed", error, result.after);
            }
            break;
        case CAPSTAN_RETRY_PARKED: return end.parked(error);
        case CAPSTAN_RETRY_BACKOFF: return end.failed("reconcile failed", error, result.after);
        default:
            return end.failed("reconcile failed",
                              "it asked for the unknown retry " + std::to_string(result.retry),
                              {});
    }
    call.log.debug("reconciled", {{"duration_ms", duration}});
    if (result.retry == CAPSTAN_RETRY_AFTER) {
        m.requeue_after.add();
        last.result = "requeue_after";
        return queue::Finish::after(result.after);
    }
    m.success.add();
    last.result = "success";
    return queue::Finish::forget();
}

}  // namespace capstan::control
