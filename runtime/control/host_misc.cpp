// capstan.clock/1, capstan.metrics/1, capstan.digest/1.
#include "runtime/control/host_tables.hpp"

#include "runtime/control/call.hpp"
#include "runtime/control/digest.hpp"
#include "runtime/control/plugin_metrics.hpp"
#include "runtime/control/unit.hpp"

#include <algorithm>
#include <cstring>

namespace capstan::control {

struct TokenState {
    std::mutex mutex;  // guards both
    bool noticed{false};
    std::vector<Signal*> waiters;
};

struct HashState {
    std::unique_ptr<Digest> digest;
    bool broken{false};
};

namespace {

// ---- capstan.clock/1

std::uint64_t monotonic_ns(const capstan_host* host) noexcept {
    return ns_of(unit_of(host).core()->now());
}

std::int64_t wall_ns(const capstan_host* host) noexcept {
    return unit_of(host).core()->parts.loop.wall_now().time_since_epoch().count();
}

capstan_token* token_create(const capstan_host*) noexcept {
    return static_cast<capstan_token*>(handles().tokens.insert(std::make_shared<TokenState>()));
}

void token_destroy(capstan_token* token) noexcept {
    handles().tokens.take(token);
}

void notify(capstan_token* handle) noexcept {
    const auto token = handles().tokens.find(handle);
    if (token == nullptr) {
        return;
    }
    const std::lock_guard lock(token->mutex);
    token->noticed = true;
    for (Signal* signal : token->waiters) {
        signal->notify();
    }
}

capstan_rc wait(capstan_call* handle,
                capstan_token* token_handle,
                std::uint64_t until_ns) noexcept {
    capstan_rc rc = CAPSTAN_OK;
    const auto call = enter(handle, &rc);
    if (call == nullptr) {
        return rc;
    }
    std::shared_ptr<TokenState> token;
    if (token_handle != nullptr) {
        token = handles().tokens.find(token_handle);
        if (token == nullptr) {
            return report(CAPSTAN_E_INVALID, "this token was destroyed");
        }
    }
    const auto signal = call->core->parts.threads.make_signal();
    if (token != nullptr) {
        const std::lock_guard lock(token->mutex);
        token->waiters.push_back(signal.get());
    }
    const auto ready = [&token] {
        if (token == nullptr) {
            return false;
        }
        const std::lock_guard lock(token->mutex);
        return std::exchange(token->noticed, false);
    };
    call->core->parts.threads.yield_point();
    rc = call->wait(*signal, ready, time_of(until_ns));
    if (token != nullptr) {
        const std::lock_guard lock(token->mutex);
        token->waiters.erase(
            std::remove(token->waiters.begin(), token->waiters.end(), signal.get()),
            token->waiters.end());
    }
    return rc == CAPSTAN_OK ? rc : report(rc, "the wait ended without a notice");
}

// ---- capstan.metrics/1

capstan_rc add_metric(const capstan_host* host,
                      std::int32_t type,
                      capstan_str name,
                      capstan_str help,
                      const capstan_str* labels,
                      std::uint32_t label_count,
                      const double* buckets,
                      std::uint32_t bucket_count,
                      std::uint32_t* handle) noexcept {
    std::vector<std::string_view> names;
    for (std::uint32_t i = 0; i < std::min(label_count, std::uint32_t{kPluginLabelsMax + 1}); ++i) {
        names.push_back(view(labels[i]));
    }
    const std::span<const double> bounds(
        buckets, std::min<std::size_t>(bucket_count, kPluginBucketsMax + 1));
    Core& core = *unit_of(host).core();
    auto added = core.plugin_metrics.add(
        unit_of(host).manifest().id, type, view(name), view(help), names, bounds);
    if (!added) {
        unit_of(host).log().error("metric cannot be registered",
                                  {{"metric", view(name)}, {"error", added.error().message}});
        return report(added.error());
    }
    *handle = added.value();
    return CAPSTAN_OK;
}

void update_metric(const capstan_host* host,
                   std::uint32_t handle,
                   const capstan_str* values,
                   std::uint32_t value_count,
                   double amount) noexcept {
    std::vector<std::string_view> texts;
    for (std::uint32_t i = 0; i < std::min(value_count, std::uint32_t{kPluginLabelsMax + 1}); ++i) {
        texts.push_back(view(values[i]));
    }
    unit_of(host).core()->plugin_metrics.update(handle, texts, amount);
}

capstan_rc render_metrics(const capstan_host* host, capstan_str* out) noexcept {
    thread_local std::string rendered;
    const Unit& unit = unit_of(host);
    rendered = unit.core()->plugin_metrics.render(unit.manifest().id);
    *out = str(rendered);
    return CAPSTAN_OK;
}

// ---- capstan.digest/1

capstan_rc digest_open(const capstan_host*,
                       std::int32_t algorithm,
                       capstan_str key,
                       capstan_hash** out) noexcept {
    auto opened = Digest::open(algorithm, view(key));
    if (!opened) {
        return report(opened.error());
    }
    auto state = std::make_shared<HashState>();
    state->digest = std::move(opened).value();
    *out = static_cast<capstan_hash*>(handles().hashes.insert(std::move(state)));
    return *out == nullptr ? report(CAPSTAN_E_TOO_LARGE, "no digest handle is left") : CAPSTAN_OK;
}

capstan_rc digest_update(capstan_hash* handle, capstan_str bytes) noexcept {
    const auto state = handles().hashes.find(handle);
    if (state == nullptr) {
        return report(CAPSTAN_E_INVALID, "this digest was finished");
    }
    state->broken = state->broken || !state->digest->update(view(bytes));
    return state->broken ? report(CAPSTAN_E_INTERNAL, "the digest failed") : CAPSTAN_OK;
}

capstan_rc digest_finish(capstan_hash* handle, std::uint8_t* out, std::uint32_t* out_len) noexcept {
    const auto state = handles().hashes.take(handle);
    if (state == nullptr) {
        return report(CAPSTAN_E_INVALID, "this digest was finished");
    }
    if (state->broken) {
        return report(CAPSTAN_E_INTERNAL, "the digest failed");
    }
    const auto raw = state->digest->finish();
    if (!raw) {
        return report(raw.error());
    }
    std::memcpy(out, raw.value().data(), raw.value().size());
    *out_len = static_cast<std::uint32_t>(raw.value().size());
    return CAPSTAN_OK;
}

}  // namespace

const capstan_ext_clock kClockTable{{sizeof(capstan_ext_clock), CAPSTAN_ABI},
                                    &monotonic_ns,
                                    &wall_ns,
                                    &token_create,
                                    &token_destroy,
                                    &wait,
                                    &notify};
const capstan_ext_metrics kMetricsTable{
    {sizeof(capstan_ext_metrics), CAPSTAN_ABI}, &add_metric, &update_metric, &render_metrics};
const capstan_ext_digest kDigestTable{
    {sizeof(capstan_ext_digest), CAPSTAN_ABI}, &digest_open, &digest_update, &digest_finish};

}  // namespace capstan::control
