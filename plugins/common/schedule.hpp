// When something is due: five cron fields (minute hour day-of-month month day-of-week) or a
// descriptor, in UTC.
//
// Fields take *, ?, numbers, ranges, lists, steps and English names of months and days; Sunday: 0.
// When both days are restricted, one of them matching is enough. Descriptors: @yearly, @annually,
// @monthly, @weekly, @daily, @midnight, @hourly and "@every 90m". "TZ=UTC " may stand in front;
// other zones are refused. Thread: any (value).
#pragma once

#include "capstan/clock.hpp"
#include "capstan/error.hpp"

#include <chrono>
#include <cstdint>
#include <optional>
#include <string_view>

namespace capstan {

// By more than that a wall clock is set back, not adjusted: what was planned is planned anew.
inline constexpr std::chrono::minutes kClockStep{1};

class Schedule {
public:
    // Errors: invalid, names the field and what it may hold; unsupported (another time zone).
    static Result<Schedule> parse(std::string_view text);

    // The first time after `time`, in whole seconds; nullopt: none in the next nine years.
    std::optional<WallTime> next_after(WallTime time) const;

    // The last time at or before `time`; nullopt: none in the past nine years, or "@every", whose
    // times are counted from when one asks.
    std::optional<WallTime> last_until(WallTime time) const;

private:
    bool day_matches(std::chrono::sys_days day) const;

    std::chrono::seconds every_{0};  // 0: the fields below count
    std::uint64_t minutes_{0};       // bit i: minute i
    std::uint32_t hours_{0};
    std::uint32_t days_{0};
    std::uint32_t months_{0};
    std::uint32_t weekdays_{0};
    bool any_day_{false};      // * or ? in day-of-month
    bool any_weekday_{false};  // * or ? in day-of-week
};

}  // namespace capstan
