// The tables of the fake host that work on calls: call, queue, events, features, clock, metrics.
// Cache and client: fake_objects.cpp.
#include "fake_state.hpp"

#include <algorithm>
#include <cmath>

namespace capstan::testing {

namespace {

FakeToken* to_fake(capstan_token* token) noexcept {
    return reinterpret_cast<FakeToken*>(token);
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
    if (std::isnan(amount)) {
        return;
    }
    switch (state.metrics[handle].type) {
        case CAPSTAN_METRIC_GAUGE: value = amount; break;
        case CAPSTAN_METRIC_COUNTER: value += amount; break;
        default: value += 1; break;
    }
}

// "name{value,value} 1", a line each: enough to see what was registered.
capstan_rc render(const capstan_host* host, capstan_str* text) noexcept {
    FakeState& state = *testing::to_fake(host);
    state.rendered.clear();
    for (const auto& [series, value] : state.series) {
        state.rendered += series + " " + std::to_string(value) + "\n";
    }
    *text = str(state.rendered);
    return CAPSTAN_OK;
}

}  // namespace

const void* fake_extension(std::string_view id) noexcept {
    static const capstan_ext_call kCall{
        head<capstan_ext_call>(), &cancelled, &deadline_ns, &reconcile_done, &last_error_json};
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
    static const capstan_ext_metrics kMetrics{
        head<capstan_ext_metrics>(), &add_metric, &update, &render};
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
        &kCall, fake_cache(), fake_client(), &kQueue, &kEvents, &kFeatures, &kClock, &kMetrics};
    for (std::size_t i = 0; i < std::size(kIds); ++i) {
        if (kIds[i] == id) {
            return tables[i];
        }
    }
    return nullptr;
}

}  // namespace capstan::testing
