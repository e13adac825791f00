// Metrics that plugins register (capstan.metrics/1): checked, so that a plugin can neither break
// the exposition nor take a name of the host. Internal to runtime/control. Thread: any.
#pragma once

#include "capstan/error.hpp"
#include "runtime/obs/metrics.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace capstan::control {

inline constexpr std::size_t kPluginMetricsMax = 512;  // of all plugins
inline constexpr std::size_t kPluginLabelsMax = 8;
inline constexpr std::size_t kPluginBucketsMax = 64;
inline constexpr std::size_t kPluginMetricNameBytesMax = 128;

class PluginMetrics {
public:
    explicit PluginMetrics(obs::Metrics& metrics) : metrics_(metrics) {}

    // `type`: CAPSTAN_METRIC_…. The same name with the same shape gives the same handle, to
    // another plugin too.
    // Errors: invalid (name, label, bounds, another shape, a name with a prefix of
    // the host's), too_large.
    Result<std::uint32_t> add(std::string_view plugin_id,
                              std::int32_t type,
                              std::string_view name,
                              std::string_view help,
                              const std::vector<std::string_view>& labels,
                              std::span<const double> bounds);
    // Ignored when the handle is unknown, the number of values is wrong, or a counter would fall.
    // NaN only makes the series.
    void update(std::uint32_t handle, std::span<const std::string_view> values, double amount);
    // What this plugin has registered, as Prometheus text 0.0.4.
    std::string render(std::string_view plugin_id) const;

private:
    struct Metric {
        std::set<std::string, std::less<>> plugins;
        std::int32_t type{0};
        std::vector<std::string> labels;
        std::vector<double> bounds;
        obs::Family<obs::Counter>* counter{nullptr};
        obs::Family<obs::Gauge>* gauge{nullptr};
        obs::Family<obs::Histogram>* histogram{nullptr};
    };
    obs::Metrics& metrics_;
    mutable std::mutex mutex_;  // guards both
    std::map<std::string, std::uint32_t, std::less<>> by_name_;
    std::vector<Metric> list_;
};

}  // namespace capstan::control
