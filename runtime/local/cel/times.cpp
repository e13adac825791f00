#include "runtime/local/cel/times.hpp"

#include <array>
#include <charconv>
#include <cstdio>
#include <limits>

namespace capstan::local::cel {
namespace {

constexpr std::int64_t kDay = 86'400;
constexpr std::int64_t kNano = 1'000'000'000;
constexpr std::int64_t kFirstSecond = -62'135'596'800;  // 0001-01-01T00:00:00Z
constexpr std::int64_t kLastSecond = 253'402'300'799;   // 9999-12-31T23:59:59Z
constexpr std::uint64_t kMagnitudeMax = std::uint64_t{1} << 63;

bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

struct Unit {
    std::string_view name;
    std::uint64_t nanos;
};
constexpr std::array<Unit, 8> kUnits{{{"ns", 1},
                                      {"us", 1'000},
                                      {"\xC2\xB5s", 1'000},
                                      {"\xCE\xBCs", 1'000},
                                      {"ms", 1'000'000},
                                      {"s", 1'000'000'000},
                                      {"m", 60'000'000'000},
                                      {"h", 3'600'000'000'000}}};

// One "1.5h" off the front.
std::optional<std::uint64_t> take_part(std::string_view& text) {
    std::uint64_t whole = 0;
    std::uint64_t fraction = 0;
    double scale = 1;
    std::size_t digits = 0;
    bool cut = false;  // further digits of the fraction say nothing
    while (!text.empty() && is_digit(text.front())) {
        if (whole > kMagnitudeMax / 10) {
            return std::nullopt;
        }
        whole = whole * 10 + static_cast<std::uint64_t>(text.front() - '0');
        text.remove_prefix(1);
        ++digits;
    }
    if (text.starts_with('.')) {
        text.remove_prefix(1);
        for (; !text.empty() && is_digit(text.front()); text.remove_prefix(1), ++digits) {
            cut = cut || fraction > (kMagnitudeMax - 1) / 10;
            if (!cut) {
                fraction = fraction * 10 + static_cast<std::uint64_t>(text.front() - '0');
                scale *= 10;
            }
        }
    }
    std::size_t end = 0;
    while (end < text.size() && text[end] != '.' && !is_digit(text[end])) {
        ++end;
    }
    for (const Unit& unit : kUnits) {
        if (digits > 0 && text.substr(0, end) == unit.name) {
            text.remove_prefix(end);
            if (whole > kMagnitudeMax / unit.nanos) {
                return std::nullopt;
            }
            const double part =
                static_cast<double>(fraction) * (static_cast<double>(unit.nanos) / scale);
            const std::uint64_t nanos = whole * unit.nanos + static_cast<std::uint64_t>(part);
            return nanos > kMagnitudeMax ? std::nullopt : std::optional(nanos);
        }
    }
    return std::nullopt;
}

// Exactly `count` digits off the front.
std::optional<int> take_number(std::string_view& text, std::size_t count) {
    int value = 0;
    if (text.size() < count) {
        return std::nullopt;
    }
    for (const char c : text.substr(0, count)) {
        if (!is_digit(c)) {
            return std::nullopt;
        }
        value = value * 10 + (c - '0');
    }
    text.remove_prefix(count);
    return value;
}

bool take(std::string_view& text, char c) {
    if (!text.starts_with(c)) {
        return false;
    }
    text.remove_prefix(1);
    return true;
}

// Numbers of fixed length, each followed by its separator (0: none).
template <std::size_t N>
bool take_numbers(std::string_view& text,
                  const std::array<std::pair<std::size_t, char>, N>& format,
                  std::array<int, N>& out) {
    for (std::size_t i = 0; i < N; ++i) {
        const auto number = take_number(text, format[i].first);
        if (!number || (format[i].second != '\0' && !take(text, format[i].second))) {
            return false;
        }
        out[i] = *number;
    }
    return true;
}

std::int64_t floor_days(std::int64_t seconds) {
    return seconds / kDay - (seconds % kDay < 0 ? 1 : 0);
}

}  // namespace

std::optional<Duration> parse_duration(std::string_view text) {
    const bool negative = text.starts_with('-');
    if (negative || text.starts_with('+')) {
        text.remove_prefix(1);
    }
    if (text == "0") {
        return Duration{0};
    }
    std::uint64_t sum = 0;
    do {
        const auto part = take_part(text);
        if (!part || sum + *part > kMagnitudeMax) {
            return std::nullopt;
        }
        sum += *part;
    } while (!text.empty());
    if (negative) {
        return Duration{sum == kMagnitudeMax ? std::numeric_limits<std::int64_t>::min()
                                             : -static_cast<std::int64_t>(sum)};
    }
    return sum == kMagnitudeMax ? std::nullopt
                                : std::optional(Duration{static_cast<std::int64_t>(sum)});
}

std::optional<std::int64_t> zone_offset(std::string_view zone) {
    if (zone == "UTC" || zone == "Z" || zone.empty()) {
        return 0;
    }
    const bool negative = zone.front() == '-';
    if (negative || zone.front() == '+') {
        zone.remove_prefix(1);
    }
    std::array<int, 2> parts{};
    if (!take_numbers<2>(zone, {{{2, ':'}, {2, '\0'}}}, parts) || !zone.empty() || parts[0] > 23 ||
        parts[1] > 59) {
        return std::nullopt;
    }
    return (parts[0] * 3600 + parts[1] * 60) * (negative ? -1 : 1);
}

bool in_range(const Timestamp& time) noexcept {
    return time.seconds >= kFirstSecond && time.seconds <= kLastSecond;
}

std::optional<Timestamp> parse_timestamp(std::string_view text) {
    std::array<int, 6> parts{};
    if (!take_numbers<6>(
            text, {{{4, '-'}, {2, '-'}, {2, 'T'}, {2, ':'}, {2, ':'}, {2, '\0'}}}, parts)) {
        return std::nullopt;
    }
    std::int32_t nanos = 0;
    if (text.size() > 1 && text.front() == '.' && is_digit(text[1])) {
        text.remove_prefix(1);
        std::int32_t scale = 100'000'000;
        for (; !text.empty() && is_digit(text.front()); text.remove_prefix(1), scale /= 10) {
            nanos += (text.front() - '0') * scale;
        }
    }
    const bool zone = text == "Z" || text.starts_with('+') || text.starts_with('-');
    const auto offset = zone ? zone_offset(text) : std::nullopt;
    const std::chrono::year_month_day date{std::chrono::year{parts[0]},
                                           std::chrono::month{static_cast<unsigned>(parts[1])},
                                           std::chrono::day{static_cast<unsigned>(parts[2])}};
    if (!offset || !date.ok() || parts[3] > 23 || parts[4] > 59 || parts[5] > 59) {
        return std::nullopt;
    }
    const std::int64_t days = std::chrono::sys_days(date).time_since_epoch().count();
    const Timestamp time{days * kDay + parts[3] * 3600 + parts[4] * 60 + parts[5] - *offset, nanos};
    return in_range(time) ? std::optional(time) : std::nullopt;
}

Calendar calendar(const Timestamp& time) {
    const std::int64_t days = floor_days(time.seconds);
    return {std::chrono::sys_days(std::chrono::days(days)), days, time.seconds - days * kDay};
}

namespace {

// ".5" for half a second, "" for none.
std::string fraction_text(std::uint64_t nanos) {
    char buffer[16];
    std::snprintf(buffer, sizeof buffer, ".%09u", static_cast<unsigned>(nanos));
    std::string text(buffer);
    text.erase(text.find_last_not_of("0.") == std::string::npos ? 0
                                                                : text.find_last_not_of('0') + 1);
    return text;
}

}  // namespace

std::string duration_text(const Duration& duration) {
    const bool negative = duration.nanos < 0;
    const std::uint64_t nanos = negative ? 0 - static_cast<std::uint64_t>(duration.nanos)
                                         : static_cast<std::uint64_t>(duration.nanos);
    return (negative ? "-" : "") + std::to_string(nanos / kNano) + fraction_text(nanos % kNano) +
           "s";
}

std::string timestamp_text(const Timestamp& time) {
    const Calendar parts = calendar(time);
    char buffer[64];
    std::snprintf(buffer,
                  sizeof buffer,
                  "%04d-%02u-%02uT%02d:%02d:%02d",
                  static_cast<int>(parts.date.year()),
                  static_cast<unsigned>(parts.date.month()),
                  static_cast<unsigned>(parts.date.day()),
                  static_cast<int>(parts.second_of_the_day / 3600),
                  static_cast<int>(parts.second_of_the_day / 60 % 60),
                  static_cast<int>(parts.second_of_the_day % 60));
    return buffer + fraction_text(static_cast<std::uint64_t>(time.nanos)) + "Z";
}

}  // namespace capstan::local::cel
