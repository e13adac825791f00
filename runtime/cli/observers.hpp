// From what the client and the cache report to metrics and log lines, and the last failed requests
// for the debug page. Thread: [io].
#pragma once

#include "capstan/clock.hpp"
#include "capstan/json.hpp"
#include "runtime/cache/cache.hpp"
#include "runtime/kube/client.hpp"
#include "runtime/obs/health.hpp"
#include "runtime/obs/log.hpp"
#include "runtime/obs/metrics.hpp"

#include <cstddef>
#include <deque>
#include <string>
#include <string_view>

namespace capstan::cli {

inline constexpr std::size_t kFailuresShown = 16;
inline constexpr int kRefusedInRow = 3;
inline constexpr std::string_view kCredentialsCheck = "credentials";

class Observers final : public kube::ClientObserver, public cache::CacheObserver {
public:
    Observers(obs::Metrics& metrics, obs::Log log);  // metrics: borrowed; outlives *this
    void request_done(std::string_view method,
                      std::string_view code,
                      std::string_view host,
                      std::chrono::nanoseconds duration) override;
    void warning(std::string_view text) override;
    void request_sizes(std::string_view method,
                       std::string_view host,
                       std::size_t request_bytes,
                       std::size_t response_bytes) override;
    void request_retried(std::string_view method,
                         std::string_view code,
                         std::string_view host) override;
    void request_waited(std::string_view method,
                        std::string_view host,
                        std::chrono::nanoseconds duration) override;
    void log(const cache::WatchSpec& spec, const cache::LogLine& line) override;
    void listed(const cache::WatchSpec& spec, std::string_view reason) override;
    void watch_ended(const cache::WatchSpec& spec, std::string_view reason) override;

    // capstan_cache_* of what it watches, at each render. Both borrowed; outlive the metrics' last
    // render.
    void show_cache(const cache::Cache& cache, const Clock& clock);
    // Its check kCredentialsCheck fails while the API server knows none of our requests' sender:
    // after kRefusedInRow 401s with no other answer between them. Borrowed, outlives *this.
    void show_acceptance(obs::Health& health);
    json::Value debug(MonotonicTime now) const;

private:
    struct CacheSeries;
    void note_acceptance(std::string_view method, std::string_view code);
    struct Failure {
        MonotonicTime at{0};
        std::string what;  // "PATCH 409"
        std::size_t count{1};
    };

    obs::Metrics& metrics_;
    obs::Log log_;
    obs::Family<obs::Counter>& requests_;
    obs::Family<obs::Histogram>& durations_;
    obs::Family<obs::Histogram>& request_bytes_;
    obs::Family<obs::Histogram>& response_bytes_;
    obs::Family<obs::Histogram>& waits_;
    obs::Family<obs::Counter>& retries_;
    obs::Family<obs::Counter>& lists_;
    obs::Family<obs::Counter>& watch_ends_;
    const Clock* clock_{nullptr};
    obs::Health* health_{nullptr};
    int refused_{0};                // 401s in a row
    std::deque<Failure> failures_;  // newest last, at most kFailuresShown
};

}  // namespace capstan::cli
