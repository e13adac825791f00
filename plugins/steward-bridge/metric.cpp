#include "plugins/steward-bridge/metric.hpp"

namespace capstan::steward {
namespace {

std::vector<capstan_str> to_strs(const auto& texts) {
    std::vector<capstan_str> out;
    for (const std::string_view text : texts) {
        out.push_back(to_str(text));
    }
    return out;
}

}  // namespace

std::vector<double> duration_buckets() {
    return {0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10};
}

Metric::Metric(const HostTables& host,
               std::int32_t type,
               std::string_view name,
               std::string_view help,
               const std::vector<std::string_view>& labels,
               const std::vector<double>& bounds)
    : host_(host) {
    if (host.metrics == nullptr) {
        return;
    }
    const std::vector<capstan_str> names = to_strs(labels);
    std::uint32_t handle = 0;
    const capstan_rc rc = host.metrics->add_metric(host.host,
                                                   type,
                                                   to_str(name),
                                                   to_str(help),
                                                   names.data(),
                                                   static_cast<std::uint32_t>(names.size()),
                                                   bounds.data(),
                                                   static_cast<std::uint32_t>(bounds.size()),
                                                   &handle);
    if (rc == CAPSTAN_OK) {
        handle_ = handle;
    }
}

void Metric::update(std::initializer_list<std::string_view> values, double amount) const {
    if (!handle_) {
        return;
    }
    const std::vector<capstan_str> texts = to_strs(values);
    host_.metrics->update(
        host_.host, *handle_, texts.data(), static_cast<std::uint32_t>(texts.size()), amount);
}

}  // namespace capstan::steward
