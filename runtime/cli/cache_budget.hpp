// limits.cacheBytes: looks every kBudgetPeriod at what the caches hold. Above the budget the check
// "cache-budget" says so with the largest kinds, and readiness is down until they hold a twentieth
// less than it; nothing else happens. Thread: [io].
#pragma once

#include "runtime/cache/cache.hpp"
#include "runtime/net/loop.hpp"
#include "runtime/obs/health.hpp"
#include "runtime/obs/log.hpp"
#include "runtime/obs/metrics.hpp"

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace capstan::cli {

inline constexpr std::chrono::seconds kBudgetPeriod{10};
inline constexpr std::size_t kBudgetKindsShown = 3;

class CacheBudget {
public:
    using States = std::vector<std::pair<cache::WatchSpec, cache::WatchState>>;

    // Loop, metrics and health are borrowed; outlive *this. `budget` in bytes, above 0.
    CacheBudget(net::Loop& loop,
                obs::Metrics& metrics,
                obs::Health& health,
                obs::Log log,
                std::size_t budget,
                std::function<States()> states);
    CacheBudget(const CacheBudget&) = delete;
    CacheBudget& operator=(const CacheBudget&) = delete;

private:
    void look();

    net::Loop& loop_;
    obs::Health& health_;
    obs::Log log_;
    obs::Gauge& over_;
    const std::size_t budget_;
    const std::function<States()> states_;
    std::unique_ptr<net::Timer> timer_;
    bool above_{false};
};

}  // namespace capstan::cli
