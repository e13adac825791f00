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

// client-go's, in bytes.
constexpr double kSizeBuckets[] = {
    64, 256, 512, 1024, 4096, 16384, 65536, 262144, 1048576, 4194304, 16777216};

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
      request_bytes_(metrics.histogram("rest_client_request_size_bytes",
                                       "Bodies of requests to the API server.",
                                       kSizeBuckets,
                                       {"verb", "host"})),
      response_bytes_(metrics.histogram("rest_client_response_size_bytes",
                                        "Bodies of its answers, watches left out.",
                                        kSizeBuckets,
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
          "capstan_cache_lists_total", "First states asked for, by reason.", {"gvk", "reason"})) {}

void Observers::request_done(std::string_view method,
                             std::string_view code,
                             std::string_view host,
                             std::chrono::nanoseconds duration) {
    requests_.with({code, method, host}).add();
    durations_.with({method, host}).observe(std::chrono::duration<double>(duration).count());
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

}  // namespace capstan::cli
