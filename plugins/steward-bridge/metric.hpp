// One metric of this plugin, through capstan.metrics/1. Without that extension, or when the host
// refuses the metric (it logs why), updates go nowhere. Thread: any.
#pragma once

#include "capstan/plugin.hpp"

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <optional>
#include <string_view>
#include <vector>

namespace capstan::steward {

// etcd-backup-restore's buckets of durations, in seconds.
std::vector<double> duration_buckets();

class Metric {
public:
    // `type`: CAPSTAN_METRIC_…. `host`: borrowed; outlives *this.
    Metric(const HostTables& host,
           std::int32_t type,
           std::string_view name,
           std::string_view help,
           const std::vector<std::string_view>& labels = {},
           const std::vector<double>& bounds = {});

    // Counter: adds; gauge: sets; histogram: observes.
    void update(std::initializer_list<std::string_view> values, double amount) const;
    void update(double amount) const { update({}, amount); }
    // Shows the series, with 0, before anything has happened.
    void show(std::initializer_list<std::string_view> values) const {
        update(values, std::numeric_limits<double>::quiet_NaN());
    }

private:
    const HostTables& host_;
    std::optional<std::uint32_t> handle_;
};

}  // namespace capstan::steward
