// get_ext, log, refuse; capstan.call, .queue, .events, .features.
#include "runtime/control/host_tables.hpp"

#include "runtime/control/call.hpp"
#include "runtime/control/controller.hpp"
#include "runtime/control/events.hpp"
#include "runtime/control/unit.hpp"

#include <array>
#include <utility>

namespace capstan::control {
namespace {

constexpr std::size_t kLogFieldsMax = 16;

const void* get_ext(const capstan_host*, capstan_str id) noexcept {
    static const std::array<std::pair<std::string_view, const void*>, 13> kTables{{
        {"capstan.call/1", &kCallTable},
        {"capstan.cache/1", &kCacheTable},
        {"capstan.client/1", &kClientTable},
        {"capstan.queue/1", &kQueueTable},
        {"capstan.events/1", &kEventsTable},
        {"capstan.features/1", &kFeaturesTable},
        {"capstan.clock/1", &kClockTable},
        {"capstan.metrics/1", &kMetricsTable},
        {"capstan.http/1", &kHttpTable},
        {"capstan.http-server/1", &kHttpServerTable},
        {"capstan.digest/1", &kDigestTable},
        {"capstan.webhook/1", &kWebhookTable},
        {"capstan.cli/1", &kCliTable},
    }};
    for (const auto& [name, table] : kTables) {
        if (name == view(id)) {
            return table;
        }
    }
    return nullptr;
}

obs::Level level_of(std::int32_t level) {
    switch (level) {
        case CAPSTAN_LOG_ERROR: return obs::Level::error;
        case CAPSTAN_LOG_WARN: return obs::Level::warn;
        case CAPSTAN_LOG_DEBUG: return obs::Level::debug;
        default: return obs::Level::info;
    }
}

void log(const capstan_host* host,
         std::int32_t level,
         capstan_str message,
         capstan_str fields_json) noexcept {
    const CallState* call = current_call();
    const obs::Log& log = call != nullptr ? call->log : unit_of(host).log();
    const obs::Level wanted = level_of(level);
    if (!log.enabled(wanted)) {
        return;
    }
    json::Value tree;
    if (fields_json.len > 0) {
        auto parsed = json::parse(view(fields_json), {4, obs::kLineBytesMax * 4});
        tree = parsed ? std::move(parsed).value() : json::Value{{"fields", "not JSON"}};
    }
    std::vector<obs::Field> fields;
    std::vector<std::string> nested;  // objects and arrays are shown as text
    nested.reserve(kLogFieldsMax);
    for (const json::Member& member : json::View(tree).object()) {
        if (fields.size() == kLogFieldsMax) {
            break;
        }
        const json::Value& value = member.value;
        if (const bool* b = value.if_bool()) {
            fields.emplace_back(member.key, *b);
        } else if (const std::int64_t* i = value.if_int()) {
            fields.emplace_back(member.key, *i);
        } else if (const double* d = value.if_real()) {
            fields.emplace_back(member.key, *d);
        } else if (const std::string* s = value.if_string()) {
            fields.emplace_back(member.key, *s);
        } else {
            nested.push_back(json::dump(value));
            fields.emplace_back(member.key, nested.back());
        }
    }
    log.write(wanted, view(message), fields.data(), fields.size());
}

void refuse(const capstan_host* host, capstan_rc why, capstan_str message) noexcept {
    unit_of(host).log().error("plugin refused to load", {{"error", view(message)}, {"code", why}});
}

// ---- capstan.call/1

std::int32_t cancelled(capstan_call* handle) noexcept {
    const auto call = handles().calls.find(handle);
    return call == nullptr || call->check() != CAPSTAN_OK ? 1 : 0;
}

std::uint64_t deadline_ns(capstan_call* handle) noexcept {
    const auto call = handles().calls.find(handle);
    return call == nullptr ? 0 : ns_of(call->deadline);
}

void reconcile_done(capstan_call* handle, const capstan_result* result) noexcept {
    const auto call = handles().calls.find(handle);
    if (call == nullptr || call->kind != CallKind::reconcile || result == nullptr) {
        return;
    }
    CallResult given;
    given.rc = result->rc;
    given.retry = result->retry;
    given.after = std::min<std::chrono::nanoseconds>(time_of(result->after_ns), queue::kDelayMax);
    given.message = text(result->message).substr(0, obs::kTextBytesMax);
    given.explicit_result = true;
    const std::lock_guard lock(call->mutex);
    if (!call->result) {
        call->result = std::move(given);
    } else {
        call->log.warn("plugin reported its result twice; the first one holds");
    }
    if (call->done_signal != nullptr) {
        call->done_signal->notify();
    }
}

capstan_str last_error_json(capstan_call*) noexcept {
    return last_report();
}

// ---- capstan.queue/1

capstan_rc queue_add(capstan_call* handle,
                     capstan_str controller,
                     capstan_str ns,
                     capstan_str name,
                     std::uint64_t after_ns) noexcept {
    capstan_rc rc = CAPSTAN_OK;
    const auto call = enter(handle, &rc);
    if (call == nullptr) {
        return rc;
    }
    Controller* target = call->unit->controller(view(controller));
    if (target == nullptr) {
        return report(CAPSTAN_E_NOT_FOUND,
                      "this plugin has no controller \"" + text(controller) + "\"");
    }
    if (name.len == 0) {
        return report(CAPSTAN_E_INVALID, "a key needs a name");
    }
    const auto delay = std::min<std::chrono::nanoseconds>(time_of(after_ns), queue::kDelayMax);
    const Result<void> added = target->enqueue(
        {text(ns), text(name)}, {queue::Reason::plugin, queue::kPriorityNormal, delay});
    return added ? CAPSTAN_OK : report(added.error());
}

// ---- capstan.events/1

capstan_rc emit(capstan_call* handle, const capstan_event* event) noexcept {
    capstan_rc rc = CAPSTAN_OK;
    const auto call = enter(handle, &rc, true);
    if (call == nullptr) {
        return rc;
    }
    if (call->reads_only) {
        return report(CAPSTAN_E_DENIED, "a webhook without side effects emits no events");
    }
    auto gvk = GroupVersionKind::parse(view(event->gvk));
    if (!gvk) {
        return report(gvk.error());
    }
    EventRecord record;
    record.gvk = std::move(gvk).value();
    record.regarding = {text(event->ns), text(event->name)};
    record.uid = text(event->uid);
    record.type = text(event->type);
    record.reason = text(event->reason);
    record.action = text(event->action);
    record.note = text(event->note);
    record.controller = call->unit->manifest().id;
    if (record.type != "Normal" && record.type != "Warning") {
        return report(CAPSTAN_E_INVALID, "an event's type is \"Normal\" or \"Warning\"");
    }
    if (record.reason.empty() || record.action.empty() || record.regarding.name.empty()) {
        return report(CAPSTAN_E_INVALID, "an event needs a name, a reason and an action");
    }
    call->core->events->record(std::move(record));
    return CAPSTAN_OK;
}

// ---- capstan.features/1

std::int32_t enabled(capstan_call* handle, capstan_str gate) noexcept {
    const auto call = handles().calls.find(handle);
    if (call == nullptr) {
        return -1;
    }
    const auto value = call->unit->plugin().gates.enabled(view(gate));
    return value ? (*value ? 1 : 0) : -1;
}

}  // namespace

capstan_host make_host(Unit& unit) noexcept {
    return {{sizeof(capstan_host), CAPSTAN_ABI}, &unit, &get_ext, &log, &refuse};
}

Unit& unit_of(const capstan_host* host) noexcept {
    return *static_cast<Unit*>(host->self);
}

const capstan_ext_call kCallTable{{sizeof(capstan_ext_call), CAPSTAN_ABI},
                                  &cancelled,
                                  &deadline_ns,
                                  &reconcile_done,
                                  &last_error_json};
const capstan_ext_queue kQueueTable{{sizeof(capstan_ext_queue), CAPSTAN_ABI}, &queue_add};
const capstan_ext_events kEventsTable{{sizeof(capstan_ext_events), CAPSTAN_ABI}, &emit};
const capstan_ext_features kFeaturesTable{{sizeof(capstan_ext_features), CAPSTAN_ABI}, &enabled};

}  // namespace capstan::control
