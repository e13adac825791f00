#include "capstan/clock.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdio>

namespace capstan {
namespace {

using std::chrono::days;
using std::chrono::floor;
using std::chrono::nanoseconds;

std::string format(WallTime time, bool micro) {
    const auto day = floor<days>(time);
    const std::chrono::year_month_day date{day};
    const std::chrono::hh_mm_ss clock{floor<std::chrono::microseconds>(time - day)};
    std::array<char, 64> text{};
    int length = std::snprintf(text.data(),
                               text.size(),
                               "%04d-%02u-%02uT%02d:%02d:%02d",
                               static_cast<int>(date.year()),
                               static_cast<unsigned>(date.month()),
                               static_cast<unsigned>(date.day()),
                               static_cast<int>(clock.hours().count()),
                               static_cast<int>(clock.minutes().count()),
                               static_cast<int>(clock.seconds().count()));
    std::string out(text.data(), static_cast<std::size_t>(length));
    if (micro) {
        length = std::snprintf(
            text.data(), text.size(), ".%06d", static_cast<int>(clock.subseconds().count()));
        out.append(text.data(), static_cast<std::size_t>(length));
    }
    return out + "Z";
}

// Reads exactly `width` digits at `at`; -1 when they are not there.
int digits(std::string_view text, std::size_t at, std::size_t width) {
    int value = 0;
    if (at + width > text.size()) {
        return -1;
    }
    for (std::size_t i = at; i < at + width; ++i) {
        if (text[i] < '0' || text[i] > '9') {
            return -1;
        }
        value = value * 10 + (text[i] - '0');
    }
    return value;
}

struct Unit {
    std::string_view name;
    double nanoseconds;
};
constexpr std::array<Unit, 8> kUnits{
    {{"ns", 1},
     {"us", 1e3},
     {"\xc2\xb5s", 1e3},
     {"\xce\xbcs", 1e3},
     {"ms", 1e6},
     {"s", 1e9},
     {"m", 60e9},
     {"h", 3600e9}},
};

}  // namespace

std::string to_rfc3339(WallTime time) {
    return format(time, false);
}
std::string to_rfc3339_micro(WallTime time) {
    return format(time, true);
}

// Nanoseconds of 64 bits reach from 1677 to 2262. Years further away than these count as these, so
// that a difference to the present fits as well.
constexpr int kYearMin = 1800, kYearMax = 2200;

std::optional<WallTime> parse_rfc3339(std::string_view text) {
    const int year = digits(text, 0, 4), month = digits(text, 5, 2), day = digits(text, 8, 2);
    const int hour = digits(text, 11, 2), minute = digits(text, 14, 2),
              second = digits(text, 17, 2);
    if (year < 0 || month < 0 || day < 0 || hour < 0 || hour > 23 || minute < 0 || minute > 59 ||
        second < 0 || second > 60 || text[4] != '-' || text[7] != '-' ||
        (text[10] != 'T' && text[10] != 't') || text[13] != ':' || text[16] != ':') {
        return std::nullopt;
    }
    const std::chrono::year_month_day date{std::chrono::year(year),
                                           std::chrono::month(static_cast<unsigned>(month)),
                                           std::chrono::day(static_cast<unsigned>(day))};
    if (!date.ok()) {
        return std::nullopt;
    }
    std::size_t at = 19;
    std::int64_t fraction = 0;
    if (at < text.size() && text[at] == '.') {
        std::int64_t scale = 100'000'000;
        const std::size_t first = ++at;
        for (; at < text.size() && text[at] >= '0' && text[at] <= '9'; ++at) {
            fraction += (text[at] - '0') * scale;
            scale /= 10;
        }
        if (at == first) {
            return std::nullopt;
        }
    }
    std::chrono::minutes offset{0};
    if (at < text.size() && (text[at] == '+' || text[at] == '-')) {
        const int hours = digits(text, at + 1, 2), minutes = digits(text, at + 4, 2);
        if (hours < 0 || minutes < 0 || text[at + 3] != ':' || at + 6 != text.size()) {
            return std::nullopt;
        }
        offset = std::chrono::minutes(hours * 60 + minutes) * (text[at] == '-' ? -1 : 1);
    } else if (at + 1 != text.size() || (text[at] != 'Z' && text[at] != 'z')) {
        return std::nullopt;
    }
    if (year < kYearMin || year > kYearMax) {
        const std::chrono::year nearest{std::clamp(year, kYearMin, kYearMax)};
        return WallTime(std::chrono::sys_days{nearest / std::chrono::January / 1});
    }
    const std::chrono::sys_days midnight{date};
    return WallTime(midnight) + std::chrono::hours(hour) + std::chrono::minutes(minute) +
           std::chrono::seconds(second) + nanoseconds(fraction) - offset;
}

std::optional<nanoseconds> parse_duration(std::string_view text) {
    bool negative = false;
    if (!text.empty() && (text[0] == '-' || text[0] == '+')) {
        negative = text[0] == '-';
        text.remove_prefix(1);
    }
    if (text == "0") {
        return nanoseconds{0};
    }
    if (text.empty()) {
        return std::nullopt;
    }
    double total = 0;
    while (!text.empty()) {
        double value = 0;
        if (text[0] != '.' && (text[0] < '0' || text[0] > '9')) {
            return std::nullopt;
        }
        const auto [end, error] = std::from_chars(
            text.data(), text.data() + text.size(), value, std::chars_format::fixed);
        if (error != std::errc{}) {
            return std::nullopt;
        }
        text.remove_prefix(static_cast<std::size_t>(end - text.data()));
        std::size_t width = 0;
        while (width < text.size() && text[width] != '.' &&
               (text[width] < '0' || text[width] > '9')) {
            ++width;
        }
        bool known = false;
        for (const Unit& unit : kUnits) {
            if (unit.name == text.substr(0, width)) {
                total += value * unit.nanoseconds;
                known = true;
            }
        }
        if (!known) {
            return std::nullopt;
        }
        text.remove_prefix(width);
    }
    if (total > 9.2e18) {
        return std::nullopt;
    }
    return nanoseconds(static_cast<std::int64_t>(negative ? -total : total));
}

}  // namespace capstan
