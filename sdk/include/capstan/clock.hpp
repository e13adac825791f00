// Time as two values that never mix: monotonic for waiting, wall for what a person
// or the API server reads.
//
// Nobody calls std::chrono clocks directly; time is handed in, so a simulator can move it.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

namespace capstan {

// since an arbitrary start (CLOCK_MONOTONIC on a real host)
using MonotonicTime = std::chrono::nanoseconds;
using WallTime = std::chrono::time_point<std::chrono::system_clock, std::chrono::nanoseconds>;

inline constexpr MonotonicTime kNever = MonotonicTime::max();  // "no deadline"

class Clock {
public:
    virtual ~Clock() = default;
    virtual MonotonicTime now() const noexcept = 0;  // [any]
    virtual WallTime wall_now() const noexcept = 0;  // [any]
};

std::string to_rfc3339(WallTime time);        // "2026-01-02T03:04:05Z", as metav1.Time
std::string to_rfc3339_micro(WallTime time);  // "2026-01-02T03:04:05.000006Z", as metav1.MicroTime
std::optional<WallTime> parse_rfc3339(std::string_view text);
// Go's time.ParseDuration ("1h30m", "2.5s", "-1ms"); nullopt when malformed or out of range.
std::optional<std::chrono::nanoseconds> parse_duration(std::string_view text);

}  // namespace capstan
