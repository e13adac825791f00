// Times and durations as text. Private to runtime/local/cel.
#pragma once

#include "runtime/local/cel/value.hpp"

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

namespace capstan::local::cel {

// Go's time.ParseDuration: "1h30m", "-1.5s", "0".
std::optional<Duration> parse_duration(std::string_view text);
// RFC 3339, with a zone; years 1 to 9999.
std::optional<Timestamp> parse_timestamp(std::string_view text);
bool in_range(const Timestamp& time) noexcept;  // years 1 to 9999

std::string duration_text(const Duration& duration);  // seconds: "5400s", "0.5s"
std::string timestamp_text(const Timestamp& time);    // "2026-01-02T03:04:05.6Z"

struct Calendar {
    std::chrono::year_month_day date;
    std::int64_t days;  // since 1970
    std::int64_t second_of_the_day;
};
Calendar calendar(const Timestamp& time);
// "UTC", "+02:00", "-08:00" in seconds; names of places are not known.
std::optional<std::int64_t> zone_offset(std::string_view zone);

}  // namespace capstan::local::cel
