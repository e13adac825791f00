#include "runtime/cli/observers.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace capstan::cli {
namespace {

obs::Level level_of(cache::LogLevel level) {
    switch (level) {
        case cache::LogLevel::debug: return obs::Level::debug;
        case cache::LogLevel::info: return obs::Level::info;
        case cache::LogLevel::warn: return obs::Level::warn;
        case cache::LogLevel::error: return obs::Level::error;
    }
    return obs::Level::info;
}

}  // namespace

Observers::Observers(obs::Metrics& metrics, obs::Log log)
    : metrics_(metrics),
      log_(std::move(log)),
      requests_(metrics.counter("rest_client_requests_total",
                                "Requests to the API server by outcome.",
                                {"code", "method", "host"})),
      durations_(metrics.histogram("rest_client_request_duration_seconds",
                                   "Time until the answer.",
                                   obs::request_seconds_buckets(),
                                   {"verb", "host"})),
      request_bytes_(metrics.histogram("rest_client_request_size_bytes",
                                       "Bodies of requests to the API server.",
                                       obs::request_bytes_buckets(),
                                       {"verb", "host"})),
      response_bytes_(metrics.histogram("rest_client_response_size_bytes",
                                        "Bodies of its answers, watches left out.",
                                        obs::request_bytes_buckets(),
                                        {"verb", "host"})),
      waits_(metrics.histogram("rest_client_rate_limiter_duration_seconds",
                               "Time requests waited for their turn or for a pause the API "
                               "server asked for; those that did not are left out.",
                               obs::request_seconds_buckets(),
                               {"verb", "host"})),
      retries_(metrics.counter("rest_client_request_retries_total",
                               "Requests that were sent again, by the answer before.",
                               {"code", "verb", "host"})),
      lists_(metrics.counter(
          "capstan_cache_lists_total", "First states asked for, by reason.", {"gvk", "reason"})),
      watch_ends_(metrics.counter("capstan_cache_watch_ends_total",
                                  "Watch streams that ended, by reason.",
                                  {"gvk", "reason"})) {}

void Observers::request_done(std::string_view method,
                             std::string_view code,
                             std::string_view host,
                             std::chrono::nanoseconds duration) {
    requests_.with({code, method, host}).add();
    durations_.with({method, host}).observe(std::chrono::duration<double>(duration).count());
    note_acceptance(method, code);
    if (clock_ == nullptr || code.starts_with('2')) {
        return;
    }
    const std::string what = std::string(method) + " " + std::string(code);
    if (!failures_.empty() && failures_.back().what == what) {
        failures_.back().at = clock_->now();
        ++failures_.back().count;
        return;
    }
    if (failures_.size() >= kFailuresShown) {
        failures_.pop_front();
    }
    failures_.push_back({clock_->now(), what});
}

void Observers::show_acceptance(obs::Health& health) {
    health_ = &health;
    health_->add(kCredentialsCheck, obs::Probe::readyz, "");
    health_->ready(kCredentialsCheck);
}

void Observers::note_acceptance(std::string_view method, std::string_view code) {
    if (health_ == nullptr || code.empty() || code[0] < '2' || code[0] > '5') {
        return;  // no answer says nothing
    }
    if (code != "401") {
        if (std::exchange(refused_, 0) >= kRefusedInRow) {
            health_->ready(kCredentialsCheck);
        }
        return;
    }
    refused_ = std::min(refused_ + 1, kRefusedInRow);
    if (refused_ == kRefusedInRow) {
        health_->not_ready(
            kCredentialsCheck,
            "unauthenticated: the API server answers every request with 401, last a " +
                std::string(method));
    }
}

void Observers::request_sizes(std::string_view method,
                              std::string_view host,
                              std::size_t request_bytes,
                              std::size_t response_bytes) {
    request_bytes_.with({method, host}).observe(static_cast<double>(request_bytes));
    response_bytes_.with({method, host}).observe(static_cast<double>(response_bytes));
}

void Observers::request_retried(std::string_view method,
                                std::string_view code,
                                std::string_view host) {
    retries_.with({code, method, host}).add();
}

void Observers::request_waited(std::string_view method,
                               std::string_view host,
                               std::chrono::nanoseconds duration) {
    waits_.with({method, host}).observe(std::chrono::duration<double>(duration).count());
}

void Observers::warning(std::string_view text) {
    log_.warn("the API server warns", {{"message", text}});
}

void Observers::log(const cache::WatchSpec& spec, const cache::LogLine& line) {
    const std::string gvk = spec.gvk.to_string();
    if (line.error.empty()) {
        log_.write(level_of(line.level), line.message, {{"gvk", gvk}, {"namespace", spec.ns}});
    } else {
        log_.write(level_of(line.level),
                   line.message,
                   {{"gvk", gvk}, {"namespace", spec.ns}, {"error", line.error}});
    }
}

void Observers::listed(const cache::WatchSpec& spec, std::string_view reason) {
    lists_.with({spec.gvk.to_string(), reason}).add();
}

void Observers::watch_ended(const cache::WatchSpec& spec, std::string_view reason) {
    watch_ends_.with({spec.gvk.to_string(), reason}).add();
}

// One series per kind, however many selections of it are watched.
struct Observers::CacheSeries {
    explicit CacheSeries(obs::Metrics& m)
        : objects(m.gauge("capstan_cache_objects", "Objects held.", {"gvk"})),
          bytes(m.gauge("capstan_cache_bytes", "Bytes of the objects held.", {"gvk"})),
          watches(m.gauge("capstan_cache_watches", "Watches by their state.", {"gvk", "state"})),
          synced(m.gauge("capstan_cache_synced",
                         "1 when every watch of the kind has had a first state.",
                         {"gvk"})),
          event_age(m.gauge("capstan_cache_last_event_age_seconds",
                            "Time since the last event or bookmark, of the stalest watch.",
                            {"gvk"})),
          staleness(m.gauge("capstan_cache_staleness_seconds",
                            "Time since the last byte from the server, of the stalest watch.",
                            {"gvk"})) {}

    struct Sum {
        std::size_t objects{0}, bytes{0};
        std::map<std::string_view, std::size_t> states{
            {"pending", 0}, {"live", 0}, {"degraded", 0}};
        bool synced{true};
        MonotonicTime event{kNever}, heard{kNever};
    };

    void refresh(const cache::Cache& cache, MonotonicTime now) {
        std::map<std::string, Sum> kinds;
        for (const auto& [spec, state] : cache.states()) {
            Sum& sum = kinds[spec.gvk.to_string()];
            sum.objects += state.objects;
            sum.bytes += state.bytes;
            ++sum.states[cache::to_string(state.state)];
            sum.synced = sum.synced && state.synced;
            sum.event = std::min(sum.event, state.last_event);
            sum.heard = std::min(sum.heard, state.last_bytes);
        }
        for (auto* family : {&objects, &bytes, &watches, &synced, &event_age, &staleness}) {
            family->forget_all();
        }
        const auto age = [now](MonotonicTime then) {
            return std::chrono::duration<double>(now - then).count();
        };
        for (const auto& [gvk, sum] : kinds) {
            objects.with({gvk}).set(static_cast<double>(sum.objects));
            bytes.with({gvk}).set(static_cast<double>(sum.bytes));
            synced.with({gvk}).set(sum.synced ? 1 : 0);
            for (const auto& [state, count] : sum.states) {
                watches.with({gvk, state}).set(static_cast<double>(count));
            }
            if (sum.event != kNever) {
                event_age.with({gvk}).set(age(sum.event));
            }
            if (sum.heard != kNever) {
                staleness.with({gvk}).set(age(sum.heard));
            }
        }
    }

    obs::Family<obs::Gauge>&objects, &bytes, &watches, &synced, &event_age, &staleness;
};

void Observers::show_cache(const cache::Cache& cache, const Clock& clock) {
    clock_ = &clock;
    metrics_.before_render([&cache, &clock, series = CacheSeries(metrics_)]() mutable {
        series.refresh(cache, clock.now());
    });
}

json::Value Observers::debug(MonotonicTime now) const {
    json::Value failures = json::list();
    for (auto failure = failures_.rbegin(); failure != failures_.rend(); ++failure) {
        failures.push_back(
            {{"ageSeconds", std::chrono::duration<double>(now - failure->at).count()},
             {"count", failure->count},
             {"request", failure->what}});
    }
    return {{"failures", std::move(failures)}};
}

}  // namespace capstan::cli
