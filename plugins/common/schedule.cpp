#include "plugins/common/schedule.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <string>
#include <vector>

namespace capstan {
namespace {

using std::chrono::days;
using std::chrono::floor;
using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;
using std::chrono::sys_days;
using std::chrono::year_month_day;

// Nine years have any 29 February, also around 2100.
constexpr days kSearchMax{9 * 366};
constexpr std::size_t kTextBytesMax = 256;

struct FieldKind {
    std::string_view name;
    unsigned min, max;
    std::string_view words;  // names of three letters, the first one is `min`
};
constexpr std::array<FieldKind, 5> kFields{{
    {"minute", 0, 59, ""},
    {"hour", 0, 23, ""},
    {"day of the month", 1, 31, ""},
    {"month", 1, 12, "janfebmaraprmayjunjulaugsepoctnovdec"},
    {"day of the week", 0, 6, "sunmontuewedthufrisat"},
}};

struct Descriptor {
    std::string_view name, fields;
};
constexpr std::array<Descriptor, 7> kDescriptors{{
    {"@yearly", "0 0 1 1 *"},
    {"@annually", "0 0 1 1 *"},
    {"@monthly", "0 0 1 * *"},
    {"@weekly", "0 0 * * 0"},
    {"@daily", "0 0 * * *"},
    {"@midnight", "0 0 * * *"},
    {"@hourly", "0 * * * *"},
}};

struct Field {
    std::uint64_t bits{0};
    bool any{false};  // a star, or one with a step of 1
};

std::vector<std::string_view> split(std::string_view text, std::string_view separators) {
    std::vector<std::string_view> parts;
    while (true) {
        text.remove_prefix(std::min(text.find_first_not_of(separators), text.size()));
        if (text.empty()) {
            return parts;
        }
        const std::size_t size = std::min(text.find_first_of(separators), text.size());
        parts.push_back(text.substr(0, size));
        text.remove_prefix(size);
    }
}

std::string lower(std::string_view text) {
    std::string out(text);
    std::transform(out.begin(), out.end(), out.begin(), [](char c) {
        return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    });
    return out;
}

std::optional<unsigned> number(std::string_view text) {
    unsigned value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    return error == std::errc{} && end == text.data() + text.size() ? std::optional(value)
                                                                    : std::nullopt;
}

std::optional<unsigned> number_or_word(std::string_view text, const FieldKind& kind) {
    if (text.size() == 3 && !kind.words.empty()) {
        const std::size_t at = kind.words.find(lower(text));
        if (at != std::string_view::npos && at % 3 == 0) {
            return kind.min + static_cast<unsigned>(at / 3);
        }
    }
    return number(text);
}

// "*", "5", "1-5", each also with "/step"; false: it is none of these.
bool add_range(std::string_view text, const FieldKind& kind, Field& field) {
    const std::size_t slash = std::min(text.find('/'), text.size());
    const bool stepped = slash != text.size();
    const auto step = stepped ? number(text.substr(slash + 1)) : std::optional(1u);
    const std::string_view range = text.substr(0, slash);
    const bool star = range == "*" || range == "?";
    const std::size_t dash = std::min(range.find('-'), range.size());
    const auto first = star ? std::optional(kind.min) : number_or_word(range.substr(0, dash), kind);
    auto last = star || (stepped && dash == range.size()) ? std::optional(kind.max)
                : dash == range.size()                    ? first
                                       : number_or_word(range.substr(dash + 1), kind);
    if (!first || !last || !step || *step == 0 || *first < kind.min || *last > kind.max ||
        *first > *last) {
        return false;
    }
    for (unsigned value = *first; value <= *last; value += *step) {
        field.bits |= std::uint64_t{1} << value;
        if (*step > kind.max) {
            break;
        }
    }
    field.any = field.any || (star && *step == 1);
    return true;
}

Result<Field> parse_field(std::string_view text, const FieldKind& kind) {
    Field field;
    for (const std::string_view range : split(text, ",")) {
        if (!add_range(range, kind, field)) {
            field.bits = 0;
            break;
        }
    }
    if (field.bits == 0) {
        return fail(Code::invalid,
                    "schedule: \"" + std::string(text) + "\" is no " + std::string(kind.name) +
                        "; it takes *, numbers from " + std::to_string(kind.min) + " to " +
                        std::to_string(kind.max) + ", ranges (1-5), lists (1,3) and steps (*/2)");
    }
    return field;
}

Result<seconds> parse_every(std::string_view text) {
    const auto duration = parse_duration(text);
    if (!duration || *duration <= std::chrono::nanoseconds(0)) {
        return fail(
            Code::invalid,
            "schedule: \"@every " + std::string(text) + "\" needs a duration such as 90m or 1h30m");
    }
    return std::max(floor<seconds>(*duration), seconds(1));
}

}  // namespace

Result<Schedule> Schedule::parse(std::string_view text) {
    if (text.size() > kTextBytesMax) {
        return fail(Code::invalid,
                    "schedule: longer than " + std::to_string(kTextBytesMax) + " bytes");
    }
    std::vector<std::string_view> words = split(text, " \t");
    if (!words.empty() && (words[0].starts_with("TZ=") || words[0].starts_with("CRON_TZ="))) {
        const std::string_view zone = words[0].substr(words[0].find('=') + 1);
        if (zone != "UTC" && zone != "Etc/UTC") {
            return fail(Code::unsupported,
                        "schedule: the time zone \"" + std::string(zone) +
                            "\" is not supported; write it in UTC");
        }
        words.erase(words.begin());
    }
    Schedule schedule;
    if (words.size() == 2 && words[0] == "@every") {
        CAPSTAN_TRY(schedule.every_, parse_every(words[1]));
        return schedule;
    }
    for (const Descriptor& descriptor : kDescriptors) {
        if (words.size() == 1 && words[0] == descriptor.name) {
            words = split(descriptor.fields, " ");
        }
    }
    if (words.size() != kFields.size()) {
        return fail(Code::invalid,
                    "schedule: \"" + std::string(text) +
                        "\" is neither five fields (minute hour day month weekday), nor @every "
                        "with a duration, nor one of @hourly, @daily, @midnight, @weekly, "
                        "@monthly, @yearly, @annually");
    }
    std::array<Field, kFields.size()> fields;
    for (std::size_t i = 0; i < fields.size(); ++i) {
        CAPSTAN_TRY(fields[i], parse_field(words[i], kFields[i]));
    }
    schedule.minutes_ = fields[0].bits;
    schedule.hours_ = static_cast<std::uint32_t>(fields[1].bits);
    schedule.days_ = static_cast<std::uint32_t>(fields[2].bits);
    schedule.months_ = static_cast<std::uint32_t>(fields[3].bits);
    schedule.weekdays_ = static_cast<std::uint32_t>(fields[4].bits);
    schedule.any_day_ = fields[2].any;
    schedule.any_weekday_ = fields[4].any;
    return schedule;
}

bool Schedule::day_matches(sys_days day) const {
    const year_month_day date{day};
    const bool by_day = (days_ >> static_cast<unsigned>(date.day()) & 1) != 0;
    const bool by_weekday = (weekdays_ >> std::chrono::weekday(day).c_encoding() & 1) != 0;
    const bool fits = any_day_ || any_weekday_ ? by_day && by_weekday : by_day || by_weekday;
    return fits && (months_ >> static_cast<unsigned>(date.month()) & 1) != 0;
}

std::optional<WallTime> Schedule::next_after(WallTime time) const {
    const auto second = floor<seconds>(time);
    if (every_ > seconds(0)) {
        return every_ > kSearchMax ? std::nullopt : std::optional<WallTime>(second + every_);
    }
    // The first minute that may be it, then the first day with an hour and a minute at or after it.
    const auto from = floor<minutes>(second) + minutes(1);
    for (sys_days day = floor<days>(from); day <= floor<days>(from) + kSearchMax; day += days(1)) {
        if (!day_matches(day)) {
            continue;
        }
        const auto start = std::max(from - day, minutes(0));
        for (int hour = static_cast<int>(start / hours(1)); hour < 24; ++hour) {
            const auto minute = std::max(start - hours(hour), minutes(0)).count();
            const std::uint64_t left = minutes_ >> minute << minute;
            if ((hours_ >> hour & 1) != 0 && left != 0) {
                return day + hours(hour) + minutes(std::countr_zero(left));
            }
        }
    }
    return std::nullopt;
}

std::optional<WallTime> Schedule::last_until(WallTime time) const {
    if (every_ > seconds(0)) {
        return std::nullopt;
    }
    const auto until = floor<minutes>(time);
    const sys_days today = floor<days>(until);
    for (sys_days day = today; day >= today - kSearchMax; day -= days(1)) {
        if (!day_matches(day)) {
            continue;
        }
        const auto end = std::min(until - day, minutes(24 * 60 - 1));
        for (int hour = static_cast<int>(end / hours(1)); hour >= 0; --hour) {
            const auto minute = std::min(end - hours(hour), minutes(59)).count();
            const std::uint64_t left = minutes_ << (63 - minute) >> (63 - minute);
            if ((hours_ >> hour & 1) != 0 && left != 0) {
                return day + hours(hour) + minutes(63 - std::countl_zero(left));
            }
        }
    }
    return std::nullopt;
}

}  // namespace capstan
