// From what the client and the cache report to metrics and log lines. Thread: [io].
#pragma once

#include "runtime/cache/cache.hpp"
#include "runtime/kube/client.hpp"
#include "runtime/obs/log.hpp"
#include "runtime/obs/metrics.hpp"

namespace capstan::cli {

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

private:
    obs::Log log_;
    obs::Family<obs::Counter>& requests_;
    obs::Family<obs::Histogram>& durations_;
    obs::Family<obs::Histogram>& request_bytes_;
    obs::Family<obs::Histogram>& response_bytes_;
    obs::Family<obs::Histogram>& waits_;
    obs::Family<obs::Counter>& retries_;
    obs::Family<obs::Counter>& lists_;
};

}  // namespace capstan::cli
