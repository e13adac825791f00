// The tables of the fake host that work on calls: call, cache, client, queue, events,
// features, clock, metrics.
#include "fake_state.hpp"

#include <algorithm>

namespace capstan::testing {

namespace {

const FakeObject* to_fake(const capstan_obj* object) noexcept {
    return reinterpret_cast<const FakeObject*>(object);
}
FakeObject* to_mutable(const capstan_obj* object) noexcept {
    return reinterpret_cast<FakeObject*>(const_cast<capstan_obj*>(object));
}
const capstan_obj* to_abi(const FakeObject* object) noexcept {
    return reinterpret_cast<const capstan_obj*>(object);
}
FakeToken* to_fake(capstan_token* token) noexcept {
    return reinterpret_cast<FakeToken*>(token);
}

ObjectKey key_from(capstan_str ns, capstan_str name) {
    return {std::string(view(ns)), std::string(view(name))};
}

// ---- call

std::int32_t cancelled(capstan_call* call) noexcept {
    return testing::to_fake(call)->state->cancelled ? 1 : 0;
}
std::uint64_t deadline_ns(capstan_call* call) noexcept {
    return testing::to_fake(call)->deadline_ns;
}
void reconcile_done(capstan_call* raw, const capstan_result* result) noexcept {
    FakeCall* call = testing::to_fake(raw);
    if (!call->done) {
        call->done =
            Reconciled{result->rc,
                       result->retry,
                       std::chrono::nanoseconds(static_cast<std::int64_t>(result->after_ns)),
                       std::string(view(result->message)),
                       0};
    }
}
capstan_str last_error_json(capstan_call* call) noexcept {
    return str(testing::to_fake(call)->last_error);
}

// ---- cache

capstan_rc visit_all(FakeState& state,
                     const std::vector<const json::Value*>& found,
                     capstan_rc (*visit)(void*, const capstan_obj*),
                     void* user) {
    for (const json::Value* value : found) {
        FakeObject* object = state.hand_out(nullptr, *value, false);
        const capstan_rc rc = visit(user, to_abi(object));
        delete object;
        if (rc != CAPSTAN_OK) {
            return rc;
        }
    }
    return CAPSTAN_OK;
}

capstan_rc cache_get(capstan_call* raw,
                     capstan_str gk,
                     capstan_str ns,
                     capstan_str name,
                     const capstan_obj** out) noexcept {
    FakeCall* call = testing::to_fake(raw);
    FakeState& state = *call->state;
    const ObjectKey key = key_from(ns, name);
    if (const capstan_rc rc = state.enter(call, "cache.get", view(gk), key); rc != CAPSTAN_OK) {
        return rc;
    }
    const json::Value* found = state.world.find(view(gk), key, state.stale_cache);
    if (found == nullptr) {
        return state.refuse(
            call,
            {Code::not_found, std::string(view(gk)) + " " + key.to_string() + ": not found", {}});
    }
    *out = to_abi(state.hand_out(call, *found, false));
    return CAPSTAN_OK;
}

capstan_rc cache_list(capstan_call* raw,
                      capstan_str gk,
                      capstan_str ns,
                      capstan_str selector,
                      capstan_rc (*visit)(void*, const capstan_obj*),
                      void* user) noexcept {
    FakeCall* call = testing::to_fake(raw);
    FakeState& state = *call->state;
    if (const capstan_rc rc = state.enter(call, "cache.list", view(gk), key_from(ns, {}));
        rc != CAPSTAN_OK) {
        return rc;
    }
    return visit_all(state,
                     state.world.list(view(gk), view(ns), view(selector), state.stale_cache),
                     visit,
                     user);
}

capstan_str bytes(const capstan_obj* object) noexcept {
    return str(to_fake(object)->bytes);
}

capstan_rc field(const capstan_obj* raw, capstan_str pointer, capstan_str* raw_json) noexcept {
    FakeObject* object = to_mutable(raw);
    const json::Value* found = object->value.pointer(view(pointer));
    if (found == nullptr) {
        return CAPSTAN_E_NOT_FOUND;
    }
    object->fields.push_back(json::dump(*found));
    *raw_json = str(object->fields.back());
    return CAPSTAN_OK;
}

void release(const capstan_obj* raw) noexcept {
    FakeObject* object = to_mutable(raw);
    for (FakeCall* call : object->state->open_calls) {
        call->objects.erase(object);
    }
    delete object;
}

// ---- client

capstan_rc client_get(capstan_call* raw,
                      capstan_str gvk,
                      capstan_str ns,
                      capstan_str name,
                      const capstan_obj** out) noexcept {
    FakeCall* call = testing::to_fake(raw);
    FakeState& state = *call->state;
    const ObjectKey key = key_from(ns, name);
    const std::string gk = group_kind_of(view(gvk));
    if (const capstan_rc rc = state.enter(call, "client.get", gk, key); rc != CAPSTAN_OK) {
        return rc;
    }
    const json::Value* found = state.world.find(gk, key);
    if (found == nullptr) {
        return state.refuse(call,
                            {Code::not_found, gk + " " + key.to_string() + ": not found", {}});
    }
    *out = to_abi(state.hand_out(call, *found, true));
    return CAPSTAN_OK;
}

capstan_rc client_list(capstan_call* raw,
                       capstan_str gvk,
                       capstan_str ns,
                       capstan_str selector,
                       capstan_rc (*visit)(void*, const capstan_obj*),
                       void* user) noexcept {
    FakeCall* call = testing::to_fake(raw);
    FakeState& state = *call->state;
    const std::string gk = group_kind_of(view(gvk));
    if (const capstan_rc rc = state.enter(call, "client.list", gk, key_from(ns, {}));
        rc != CAPSTAN_OK) {
        return rc;
    }
    return visit_all(state, state.world.list(gk, view(ns), view(selector), false), visit, user);
}

capstan_rc finish_write(FakeCall* call,
                        const Result<json::Value>& written,
                        bool changed,
                        const capstan_obj** out) {
    if (!written) {
        return call->state->refuse(call, written.error());
    }
    call->state->calls.back().changed = changed;
    if (out != nullptr) {
        *out = to_abi(call->state->hand_out(call, written.value(), true));
    }
    return CAPSTAN_OK;
}

// Parses the body of a write and enters the call.
capstan_rc begin_write(FakeCall* call,
                       std::string_view verb,
                       capstan_str gvk,
                       const ObjectKey* key,
                       capstan_str body,
                       json::Value& parsed) {
    auto value = json::parse(view(body));
    const ObjectKey target = key != nullptr ? *key : (value ? key_of(value.value()) : ObjectKey{});
    const capstan_rc rc =
        call->state->enter(call, verb, group_kind_of(view(gvk)), target, view(body));
    if (rc != CAPSTAN_OK) {
        return rc;
    }
    if (!value) {
        return call->state->refuse(call, value.error());
    }
    parsed = std::move(value).value();
    return CAPSTAN_OK;
}

capstan_rc apply(capstan_call* raw,
                 capstan_str gvk,
                 capstan_str body,
                 capstan_str sub,
                 std::uint32_t flags,
                 const capstan_obj** out) noexcept {
    FakeCall* call = testing::to_fake(raw);
    json::Value intent;
    if (const capstan_rc rc = begin_write(call, "client.apply", gvk, nullptr, body, intent);
        rc != CAPSTAN_OK) {
        return rc;
    }
    bool changed = false;
    const auto written = call->state->world.apply(
        view(gvk), intent, view(sub), (flags & CAPSTAN_APPLY_DRY_RUN) != 0, changed);
    return finish_write(call, written, changed, out);
}

capstan_rc patch(capstan_call* raw,
                 capstan_str gvk,
                 capstan_str ns,
                 capstan_str name,
                 std::int32_t type,
                 capstan_str body,
                 capstan_str sub,
                 const capstan_obj** out) noexcept {
    FakeCall* call = testing::to_fake(raw);
    const ObjectKey key = key_from(ns, name);
    json::Value parsed;
    if (const capstan_rc rc = begin_write(call, "client.patch", gvk, &key, body, parsed);
        rc != CAPSTAN_OK) {
        return rc;
    }
    bool changed = false;
    const auto written = call->state->world.patch(view(gvk), key, type, parsed, view(sub), changed);
    return finish_write(call, written, changed, out);
}

capstan_rc create(capstan_call* raw,
                  capstan_str gvk,
                  capstan_str body,
                  const capstan_obj** out) noexcept {
    FakeCall* call = testing::to_fake(raw);
    json::Value object;
    if (const capstan_rc rc = begin_write(call, "client.create", gvk, nullptr, body, object);
        rc != CAPSTAN_OK) {
        return rc;
    }
    return finish_write(call, call->state->world.create(view(gvk), std::move(object)), true, out);
}

capstan_rc remove(capstan_call* raw, const capstan_obj* object, capstan_str) noexcept {
    FakeCall* call = testing::to_fake(raw);
    const FakeObject* target = to_fake(object);
    const json::View view_of_target(target->value);
    const std::string gk =
        GroupVersionKind::from_api_version(view_of_target["apiVersion"].string_or(""),
                                           view_of_target["kind"].string_or(""))
            .group_kind();
    if (const capstan_rc rc = call->state->enter(call, "client.remove", gk, key_of(target->value));
        rc != CAPSTAN_OK) {
        return rc;
    }
    if (!target->live) {
        return call->state->refuse(
            call, {Code::invalid, "the object does not come from a live get of this call", {}});
    }
    const Result<void> removed =
        call->state->world.remove(gk, key_of(target->value), &target->value);
    if (!removed) {
        return call->state->refuse(call, removed.error());
    }
    call->state->calls.back().changed = true;
    return CAPSTAN_OK;
}

// ---- queue, events, features

capstan_rc queue_add(capstan_call* raw,
                     capstan_str controller,
                     capstan_str ns,
                     capstan_str name,
                     std::uint64_t after_ns) noexcept {
    FakeCall* call = testing::to_fake(raw);
    const capstan_rc rc =
        call->state->enter(call, "queue.add", view(controller), key_from(ns, name));
    if (rc != CAPSTAN_OK) {
        return rc;
    }
    call->state->woken.push_back({std::string(view(controller)),
                                  key_from(ns, name),
                                  std::chrono::nanoseconds(static_cast<std::int64_t>(after_ns))});
    return CAPSTAN_OK;
}

capstan_rc emit(capstan_call* raw, const capstan_event* event) noexcept {
    FakeCall* call = testing::to_fake(raw);
    const ObjectKey key = key_from(event->ns, event->name);
    if (const capstan_rc rc = call->state->enter(call, "events.emit", view(event->gvk), key);
        rc != CAPSTAN_OK) {
        return rc;
    }
    call->state->events.push_back({std::string(view(event->gvk)),
                                   key,
                                   std::string(view(event->type)),
                                   std::string(view(event->reason)),
                                   std::string(view(event->note))});
    return CAPSTAN_OK;
}

std::int32_t enabled(capstan_call* call, capstan_str gate) noexcept {
    const auto& gates = testing::to_fake(call)->state->gates;
    const auto at = gates.find(view(gate));
    return at == gates.end() ? -1 : (at->second ? 1 : 0);
}

// ---- clock

std::uint64_t monotonic_ns(const capstan_host* host) noexcept {
    return static_cast<std::uint64_t>(testing::to_fake(host)->now.count());
}
std::int64_t wall_ns(const capstan_host* host) noexcept {
    constexpr std::int64_t kStart = 1'767'225'600'000'000'000;  // 2026-01-01T00:00:00Z
    return kStart +
           (testing::to_fake(host)->now - MonotonicTime(std::chrono::seconds(1'000'000))).count();
}
capstan_token* token_create(const capstan_host* host) noexcept {
    auto token = std::make_unique<FakeToken>();
    token->state = testing::to_fake(host);
    return reinterpret_cast<capstan_token*>(token.release());
}
void token_destroy(capstan_token* token) noexcept {
    delete to_fake(token);
}
void notify(capstan_token* token) noexcept {
    to_fake(token)->notified = true;
}

capstan_rc wait(capstan_call* raw, capstan_token* token, std::uint64_t until_ns) noexcept {
    FakeCall* call = testing::to_fake(raw);
    FakeState& state = *call->state;
    if (const capstan_rc rc = state.enter(call, "clock.wait"); rc != CAPSTAN_OK) {
        return rc;
    }
    const std::uint64_t limit =
        std::min<std::uint64_t>(until_ns, static_cast<std::uint64_t>(INT64_MAX));
    const MonotonicTime until(static_cast<std::int64_t>(limit));
    for (;;) {
        if (state.cancelled) {
            return CAPSTAN_E_CANCELLED;
        }
        if (token != nullptr && std::exchange(to_fake(token)->notified, false)) {
            return CAPSTAN_OK;
        }
        if (state.now >= until) {
            return CAPSTAN_E_DEADLINE;
        }
        if (!state.planned.empty() && state.planned.begin()->first <= until) {
            state.run_until(state.planned.begin()->first);
        } else if (until_ns == CAPSTAN_NEVER) {
            return CAPSTAN_E_CANCELLED;  // nothing can end it
        } else {
            state.run_until(until);
        }
    }
}

// ---- metrics

capstan_rc add_metric(const capstan_host* host,
                      std::int32_t type,
                      capstan_str name,
                      capstan_str,
                      const capstan_str*,
                      std::uint32_t label_count,
                      const double*,
                      std::uint32_t,
                      std::uint32_t* handle) noexcept {
    auto& metrics = testing::to_fake(host)->metrics;
    for (std::size_t i = 0; i < metrics.size(); ++i) {
        if (metrics[i].name == view(name)) {
            *handle = static_cast<std::uint32_t>(i);
            return metrics[i].type == type && metrics[i].label_count == label_count
                       ? CAPSTAN_OK
                       : CAPSTAN_E_INVALID;
        }
    }
    if (name.len == 0 || type < CAPSTAN_METRIC_COUNTER || type > CAPSTAN_METRIC_HISTOGRAM) {
        return CAPSTAN_E_INVALID;
    }
    *handle = static_cast<std::uint32_t>(metrics.size());
    metrics.push_back({std::string(view(name)), type, label_count});
    return CAPSTAN_OK;
}

void update(const capstan_host* host,
            std::uint32_t handle,
            const capstan_str* values,
            std::uint32_t value_count,
            double amount) noexcept {
    FakeState& state = *testing::to_fake(host);
    if (handle >= state.metrics.size() || value_count != state.metrics[handle].label_count) {
        return;
    }
    std::string series = state.metrics[handle].name;
    for (std::uint32_t i = 0; i < value_count; ++i) {
        series += (i == 0 ? "{" : ",") + std::string(view(values[i]));
    }
    series += value_count > 0 ? "}" : "";
    double& value = state.series[series];
    switch (state.metrics[handle].type) {
        case CAPSTAN_METRIC_GAUGE: value = amount; break;
        case CAPSTAN_METRIC_COUNTER: value += amount; break;
        default: value += 1; break;
    }
}

template <class Table>
constexpr capstan_head head() {
    return {sizeof(Table), CAPSTAN_ABI};
}

}  // namespace

const void* fake_extension(std::string_view id) noexcept {
    static const capstan_ext_call kCall{
        head<capstan_ext_call>(), &cancelled, &deadline_ns, &reconcile_done, &last_error_json};
    static const capstan_ext_cache kCache{
        head<capstan_ext_cache>(), &cache_get, &cache_list, &bytes, &field, &release};
    static const capstan_ext_client kClient{
        head<capstan_ext_client>(), &client_get, &client_list, &apply, &patch, &create, &remove};
    static const capstan_ext_queue kQueue{head<capstan_ext_queue>(), &queue_add};
    static const capstan_ext_events kEvents{head<capstan_ext_events>(), &emit};
    static const capstan_ext_features kFeatures{head<capstan_ext_features>(), &enabled};
    static const capstan_ext_clock kClock{head<capstan_ext_clock>(),
                                          &monotonic_ns,
                                          &wall_ns,
                                          &token_create,
                                          &token_destroy,
                                          &wait,
                                          &notify};
    static const capstan_ext_metrics kMetrics{head<capstan_ext_metrics>(), &add_metric, &update};
    static constexpr std::string_view kIds[] = {
        "capstan.call/1",
        "capstan.cache/1",
        "capstan.client/1",
        "capstan.queue/1",
        "capstan.events/1",
        "capstan.features/1",
        "capstan.clock/1",
        "capstan.metrics/1",
    };
    const void* tables[] = {
        &kCall, &kCache, &kClient, &kQueue, &kEvents, &kFeatures, &kClock, &kMetrics};
    for (std::size_t i = 0; i < std::size(kIds); ++i) {
        if (kIds[i] == id) {
            return tables[i];
        }
    }
    return nullptr;
}

}  // namespace capstan::testing
