// The two text forms of metrics, line by line. Internal to runtime/obs.
//
// Prometheus text 0.0.4 as client_golang writes it; OpenMetrics 1.0: the family of a counter is
// named without its "_total", whole floats carry ".0", the last line is "# EOF". A counter whose
// name has no "_total" is of type unknown there. Numbers as Go prints them, so that `le` values
// equal those of controller-runtime.
#pragma once

#include "runtime/obs/metrics.hpp"

#include <string>
#include <string_view>

namespace capstan::obs {

enum class Type : std::uint8_t { counter, gauge, histogram };

std::string escaped(std::string_view text, bool quotes);
std::string number(double value);  // "0.5", "1e-08", "1.048576e+06", "+Inf"

class Writer {
public:
    explicit Writer(Exposition exposition) : open_(exposition == Exposition::open_metrics) {}
    void head(std::string_view name, std::string_view help, Type type);
    void series(std::string_view name, std::string_view labels, const Counter& value);
    void series(std::string_view name, std::string_view labels, const FloatCounter& value);
    void series(std::string_view name, std::string_view labels, const Gauge& value);
    void series(std::string_view name, std::string_view labels, const Histogram& value);
    std::string finish();

private:
    void sample(std::string_view name,
                std::string_view suffix,
                std::string_view labels,
                std::string_view value);
    std::string bound(double value) const;

    const bool open_;
    std::string out_;
};

}  // namespace capstan::obs
