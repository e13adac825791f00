#include "runtime/control/plugin_metrics.hpp"

#include "capstan/capstan.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace capstan::control {
namespace {

bool valid_name(std::string_view name, bool colon) {
    if (name.empty() || name.size() > kPluginMetricNameBytesMax ||
        (name[0] >= '0' && name[0] <= '9')) {
        return false;
    }
    return std::all_of(name.begin(), name.end(), [colon](char c) {
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
               c == '_' || (colon && c == ':');
    });
}

bool is_hosts(std::string_view name) {
    static constexpr std::array<std::string_view, 8> kPrefixes = {
        "capstan_",
        "controller_runtime_",
        "workqueue_",
        "rest_client_",
        "process_",
        "leader_election_",
        "certwatcher_",
        "informer_",
    };
    return std::any_of(kPrefixes.begin(), kPrefixes.end(), [name](std::string_view p) {
        return name.starts_with(p);
    });
}

}  // namespace

Result<std::uint32_t> PluginMetrics::add(std::string_view plugin_id,
                                         std::int32_t type,
                                         std::string_view name,
                                         std::string_view help,
                                         const std::vector<std::string_view>& labels,
                                         std::span<const double> bounds) {
    if (!valid_name(name, true) || is_hosts(name)) {
        return fail(Code::invalid,
                    "\"" + std::string(name.substr(0, kPluginMetricNameBytesMax)) +
                        "\" is no metric name, or begins like a metric of the host");
    }
    if (labels.size() > kPluginLabelsMax || bounds.size() > kPluginBucketsMax) {
        return fail(Code::too_large, std::string(name) + ": too many labels or buckets");
    }
    for (const std::string_view label : labels) {
        if (!valid_name(label, false) || label.starts_with("__") || label == "le") {
            return fail(Code::invalid,
                        std::string(name) + ": \"" + std::string(label.substr(0, 64)) +
                            "\" is no label name");
        }
    }
    const bool histogram = type == CAPSTAN_METRIC_HISTOGRAM;
    const auto not_rising = [](double a, double b) { return !(a < b); };
    const bool rising =
        std::adjacent_find(bounds.begin(), bounds.end(), not_rising) == bounds.end();
    if (type < CAPSTAN_METRIC_COUNTER || type > CAPSTAN_METRIC_HISTOGRAM ||
        histogram == bounds.empty() || !rising ||
        std::any_of(bounds.begin(), bounds.end(), [](double b) { return !std::isfinite(b); })) {
        return fail(Code::invalid, std::string(name) + ": wrong type or buckets");
    }
    Metric metric{{std::string(plugin_id)},
                  type,
                  {labels.begin(), labels.end()},
                  {bounds.begin(), bounds.end()},
                  nullptr,
                  nullptr,
                  nullptr};
    const std::lock_guard lock(mutex_);
    if (const auto found = by_name_.find(name); found != by_name_.end()) {
        Metric& known = list_[found->second];
        if (known.type != metric.type || known.labels != metric.labels ||
            known.bounds != metric.bounds) {
            return fail(Code::invalid, std::string(name) + " is registered with another shape");
        }
        known.plugins.emplace(plugin_id);
        return found->second;
    }
    if (list_.size() >= kPluginMetricsMax) {
        return fail(Code::too_large,
                    "more than " + std::to_string(kPluginMetricsMax) + " metrics of plugins");
    }
    const std::span<const std::string_view> names(labels);
    switch (type) {
        case CAPSTAN_METRIC_COUNTER: metric.counter = &metrics_.counter(name, help, names); break;
        case CAPSTAN_METRIC_GAUGE: metric.gauge = &metrics_.gauge(name, help, names); break;
        default: metric.histogram = &metrics_.histogram(name, help, metric.bounds, names); break;
    }
    const auto handle = static_cast<std::uint32_t>(list_.size());
    list_.push_back(std::move(metric));
    by_name_.emplace(name, handle);
    return handle;
}

void PluginMetrics::update(std::uint32_t handle,
                           std::span<const std::string_view> values,
                           double amount) {
    Metric metric;
    {
        const std::lock_guard lock(mutex_);
        if (handle >= list_.size() || list_[handle].labels.size() != values.size()) {
            return;
        }
        metric.counter = list_[handle].counter;
        metric.gauge = list_[handle].gauge;
        metric.histogram = list_[handle].histogram;
    }
    if (metric.counter != nullptr) {
        obs::Counter& counter = metric.counter->with(values);
        if (amount >= 0 && amount < 1e15) {  // false for NaN
            counter.add(static_cast<std::uint64_t>(amount));
        }
    } else if (metric.gauge != nullptr) {
        obs::Gauge& gauge = metric.gauge->with(values);
        if (!std::isnan(amount)) {
            gauge.set(amount);
        }
    } else {
        obs::Histogram& histogram = metric.histogram->with(values);
        if (!std::isnan(amount)) {
            histogram.observe(amount);
        }
    }
}

std::string PluginMetrics::render(std::string_view plugin_id) const {
    std::vector<std::string> names;
    {
        const std::lock_guard lock(mutex_);
        for (const auto& [name, handle] : by_name_) {
            if (list_[handle].plugins.contains(plugin_id)) {
                names.push_back(name);
            }
        }
    }
    return metrics_.render_families(names);
}

}  // namespace capstan::control
