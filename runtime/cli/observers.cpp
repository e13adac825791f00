#include "runtime/cli/observers.hpp"

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
    : log_(std::move(log)),
      requests_(metrics.counter("rest_client_requests_total",
                                "Requests to the API server by outcome.",
                                {"code", "method", "host"})),
      durations_(metrics.histogram("rest_client_request_duration_seconds",
                                   "Time until the answer.",
                                   obs::request_seconds_buckets(),
                                   {"verb", "host"})),
      lists_(metrics.counter(
          "capstan_cache_lists_total", "First states asked for, by reason.", {"gvk", "reason"})) {}

void Observers::request_done(std::string_view method,
                             std::string_view code,
                             std::string_view host,
                             std::chrono::nanoseconds duration) {
    requests_.with({code, method, host}).add();
    durations_.with({method, host}).observe(std::chrono::duration<double>(duration).count());
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

}  // namespace capstan::cli
