#include "runtime/cli/cache_budget.hpp"

#include <algorithm>
#include <map>

namespace capstan::cli {
namespace {

constexpr const char* kCheck = "cache-budget";
constexpr std::size_t kMib = 1024u * 1024;

// Rounded up: what is above a budget never reads like it.
std::string mib(std::size_t bytes) {
    return std::to_string((bytes + kMib - 1) / kMib) + " MiB";
}

}  // namespace

CacheBudget::CacheBudget(net::Loop& loop,
                         obs::Metrics& metrics,
                         obs::Health& health,
                         obs::Log log,
                         std::size_t budget,
                         std::function<States()> states)
    : loop_(loop),
      health_(health),
      log_(std::move(log)),
      over_(metrics.gauge("capstan_cache_over_budget", "1 while limits.cacheBytes is exceeded.")
                .with({})),
      budget_(budget),
      states_(std::move(states)) {
    metrics.gauge("capstan_cache_budget_bytes", "limits.cacheBytes.")
        .with({})
        .set(static_cast<double>(budget));
    health_.add(kCheck, obs::Probe::readyz, "");
    look();
}

void CacheBudget::look() {
    std::map<std::string, std::size_t> kinds;
    std::size_t total = 0;
    for (const auto& [spec, state] : states_()) {
        kinds[spec.gvk.to_string()] += state.bytes;
        total += state.bytes;
    }
    const bool was = above_;
    above_ = total > (was ? budget_ - budget_ / 20 : budget_);
    over_.set(above_ ? 1 : 0);
    if (above_) {
        std::vector<std::pair<std::size_t, std::string>> sorted;
        for (const auto& [gvk, bytes] : kinds) {
            sorted.emplace_back(bytes, gvk);
        }
        std::sort(sorted.rbegin(), sorted.rend());
        std::string most;
        for (std::size_t i = 0; i < std::min(sorted.size(), kBudgetKindsShown); ++i) {
            most += (most.empty() ? "" : ", ") + sorted[i].second + " " + mib(sorted[i].first);
        }
        const std::string said = "the caches hold " + mib(total) + ", limits.cacheBytes is " +
                                 mib(budget_) + "; most: " + most;
        health_.not_ready(kCheck, said);
        if (!was) {
            log_.warn("the caches are above their budget", {{"detail", said}});
        }
    } else {
        health_.ready(kCheck);
        if (was) {
            log_.info("the caches are below their budget again");
        }
    }
    timer_ = loop_.at(loop_.now() + kBudgetPeriod, [this] { look(); });
}

}  // namespace capstan::cli
