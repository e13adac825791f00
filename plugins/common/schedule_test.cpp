#include "plugins/common/schedule.hpp"

#include <gtest/gtest.h>

namespace capstan {
namespace {

WallTime at(std::string_view text) {
    return parse_rfc3339(text).value();
}
std::string shown(const std::optional<WallTime>& time) {
    return time ? to_rfc3339(*time) : "never";
}

struct NextRow {
    const char* name;
    const char* schedule;
    const char* after;
    const char* next;
};
class Next : public testing::TestWithParam<NextRow> {};

TEST_P(Next, IsTheFirstTimeAfter) {
    const auto schedule = Schedule::parse(GetParam().schedule);
    ASSERT_TRUE(schedule) << schedule.error().message;
    const auto next = schedule.value().next_after(at(GetParam().after));
    EXPECT_EQ(shown(next), GetParam().next);
    if (next && !std::string_view(GetParam().schedule).starts_with("@every")) {
        // The same seen from behind.
        const auto last = schedule.value().last_until(*next + std::chrono::nanoseconds(1));
        EXPECT_EQ(shown(last), GetParam().next);
        const auto before = schedule.value().last_until(*next - std::chrono::nanoseconds(1));
        EXPECT_TRUE(!before || *before <= at(GetParam().after)) << shown(before);
    }
}

// 2026-11-30 is a Monday.
// clang-format off
INSTANTIATE_TEST_SUITE_P(Schedule, Next, testing::Values(
    NextRow{"every_hour", "0 */1 * * *", "2026-11-30T01:00:00Z", "2026-11-30T02:00:00Z"},
    NextRow{"just_before", "0 */1 * * *", "2026-11-30T00:59:59.999999999Z", "2026-11-30T01:00:00Z"},
    NextRow{"just_after", "0 * * * *", "2026-11-30T01:00:00.000000001Z", "2026-11-30T02:00:00Z"},
    NextRow{"every_minute", "* * * * *", "2026-12-31T23:59:30Z", "2027-01-01T00:00:00Z"},
    NextRow{"quarters", "*/15 * * * *", "2026-11-30T01:14:59Z", "2026-11-30T01:15:00Z"},
    NextRow{"quarters_from_five", "5/15 * * * *", "2026-11-30T01:50:01Z", "2026-11-30T02:05:00Z"},
    NextRow{"range_with_step", "0 8-18/5 * * *", "2026-11-30T13:00:00Z", "2026-11-30T18:00:00Z"},
    NextRow{"list", "30,10 1,3 * * *", "2026-11-30T01:10:00Z", "2026-11-30T01:30:00Z"},
    NextRow{"list_over_midnight", "30,10 1,3 * * *", "2026-11-30T03:30:00Z",
        "2026-12-01T01:10:00Z"},
    NextRow{"day_of_month", "0 0 31 * *", "2026-11-30T00:00:00Z", "2026-12-31T00:00:00Z"},
    NextRow{"day_of_month_over_february", "0 0 30 * *", "2027-01-30T00:00:00Z",
        "2027-03-30T00:00:00Z"},
    NextRow{"weekday", "0 6 * * 0", "2026-11-30T00:00:00Z", "2026-12-06T06:00:00Z"},
    NextRow{"weekday_name", "0 6 * * Wed", "2026-11-30T00:00:00Z", "2026-12-02T06:00:00Z"},
    NextRow{"weekday_range", "0 6 * * sat-SAT", "2026-11-30T00:00:00Z", "2026-12-05T06:00:00Z"},
    NextRow{"month_name", "0 0 1 feb *", "2026-11-30T00:00:00Z", "2027-02-01T00:00:00Z"},
    NextRow{"either_day", "0 0 13 * 5", "2026-11-30T00:00:00Z", "2026-12-04T00:00:00Z"},
    NextRow{"either_day_the_other", "0 0 13 * 5", "2026-12-11T00:00:00Z", "2026-12-13T00:00:00Z"},
    NextRow{"both_days_with_a_star", "0 0 */2 * 5", "2026-11-30T00:00:00Z", "2026-12-01T00:00:00Z"},
    NextRow{"star_with_step_one", "0 0 */1 * 5", "2026-11-30T00:00:00Z", "2026-12-04T00:00:00Z"},
    NextRow{"question_mark", "0 0 ? * 5", "2026-11-30T00:00:00Z", "2026-12-04T00:00:00Z"},
    NextRow{"leap_day", "0 0 29 2 *", "2026-11-30T00:00:00Z", "2028-02-29T00:00:00Z"},
    NextRow{"leap_day_around_2100", "0 0 29 2 *", "2096-02-29T00:00:00Z", "2104-02-29T00:00:00Z"},
    NextRow{"never", "0 0 30 2 *", "2026-11-30T00:00:00Z", "never"},
    NextRow{"before_1970", "0 0 1 1 *", "1969-06-01T12:00:00Z", "1970-01-01T00:00:00Z"},
    NextRow{"large_step", "59/4000000000 * * * *", "2026-11-30T00:00:00Z", "2026-11-30T00:59:00Z"},
    NextRow{"yearly", "@yearly", "2026-11-30T00:00:00Z", "2027-01-01T00:00:00Z"},
    NextRow{"annually", "@annually", "2026-11-30T00:00:00Z", "2027-01-01T00:00:00Z"},
    NextRow{"monthly", "@monthly", "2026-11-30T00:00:00Z", "2026-12-01T00:00:00Z"},
    NextRow{"weekly", "@weekly", "2026-11-30T00:00:00Z", "2026-12-06T00:00:00Z"},
    NextRow{"daily", "@daily", "2026-11-30T00:00:00Z", "2026-12-01T00:00:00Z"},
    NextRow{"midnight", "@midnight", "2026-11-30T00:00:00Z", "2026-12-01T00:00:00Z"},
    NextRow{"hourly", "@hourly", "2026-11-30T00:00:00Z", "2026-11-30T01:00:00Z"},
    NextRow{"every", "@every 1h30m", "2026-11-30T00:00:07.5Z", "2026-11-30T01:30:07Z"},
    NextRow{"every_second_at_least", "@every 10ms", "2026-11-30T00:00:07Z", "2026-11-30T00:00:08Z"},
    NextRow{"every_whole_seconds", "@every 2.9s", "2026-11-30T00:00:07Z", "2026-11-30T00:00:09Z"},
    NextRow{"spaces", "  0\t0   1 1  * ", "2026-11-30T00:00:00Z", "2027-01-01T00:00:00Z"},
    NextRow{"zone", "TZ=UTC 0 0 1 1 *", "2026-11-30T00:00:00Z", "2027-01-01T00:00:00Z"},
    NextRow{"cron_zone", "CRON_TZ=Etc/UTC @daily", "2026-11-30T00:00:00Z", "2026-12-01T00:00:00Z"}),
    [](const auto& row) { return row.param.name; });

struct RefusedRow {
    const char* name;
    const char* schedule;
    const char* error;
};
class RefusedSchedules : public testing::TestWithParam<RefusedRow> {};

TEST_P(RefusedSchedules, SayWhy) {
    const auto schedule = Schedule::parse(GetParam().schedule);
    ASSERT_FALSE(schedule);
    EXPECT_NE(schedule.error().message.find(GetParam().error), std::string::npos)
        << schedule.error().message;
}

INSTANTIATE_TEST_SUITE_P(Schedule, RefusedSchedules, testing::Values(
    RefusedRow{"empty", "", "neither five fields"},
    RefusedRow{"four_fields", "* * * *", "neither five fields"},
    RefusedRow{"six_fields", "0 * * * * *", "neither five fields"},
    RefusedRow{"unknown_descriptor", "@reboot", "neither five fields"},
    RefusedRow{"minute", "60 * * * *", "\"60\" is no minute; it takes *, numbers from 0 to 59"},
    RefusedRow{"hour", "* 24 * * *", "is no hour"},
    RefusedRow{"day_zero", "* * 0 * *", "is no day of the month"},
    RefusedRow{"month", "* * * 13 *", "is no month"},
    RefusedRow{"weekday_seven", "* * * * 7",
        "is no day of the week; it takes *, numbers from 0 to 6"},
    RefusedRow{"falling_range", "5-1 * * * *", "is no minute"},
    RefusedRow{"step_zero", "*/0 * * * *", "is no minute"},
    RefusedRow{"two_steps", "*/2/2 * * * *", "is no minute"},
    RefusedRow{"negative", "-1 * * * *", "is no minute"},
    RefusedRow{"plus", "+1 * * * *", "is no minute"},
    RefusedRow{"word_of_another_field", "mon * * * *", "is no minute"},
    RefusedRow{"unknown_word", "* * * * xyz", "is no day of the week"},
    RefusedRow{"between_words", "* * * * unm", "is no day of the week"},
    RefusedRow{"comma_alone", ", * * * *", "is no minute"},
    RefusedRow{"star_range", "*-5 * * * *", "is no minute"},
    RefusedRow{"every_without_duration", "@every", "neither five fields"},
    RefusedRow{"every_wrong", "@every 5", "needs a duration"},
    RefusedRow{"every_zero", "@every 0s", "needs a duration"},
    RefusedRow{"other_zone", "TZ=Asia/Tokyo 0 6 * * *", "write it in UTC"}),
    [](const auto& row) { return row.param.name; });
// clang-format on

TEST(Schedule, LooksBackToTheTimeItself) {
    const auto daily = Schedule::parse("30 5 * * *").value();
    EXPECT_EQ(shown(daily.last_until(at("2026-11-30T05:30:00Z"))), "2026-11-30T05:30:00Z");
    EXPECT_EQ(shown(daily.last_until(at("2026-11-30T05:29:59Z"))), "2026-11-29T05:30:00Z");
    EXPECT_EQ(shown(daily.last_until(at("2026-11-30T23:59:59Z"))), "2026-11-30T05:30:00Z");
    EXPECT_EQ(shown(Schedule::parse("0 0 30 2 *").value().last_until(at("2026-11-30T00:00:00Z"))),
              "never");
    EXPECT_EQ(shown(Schedule::parse("@every 1h").value().last_until(at("2026-11-30T00:00:00Z"))),
              "never");
    EXPECT_FALSE(Schedule::parse(std::string(300, '*')));
    // beyond what a time can hold
    EXPECT_EQ(
        shown(Schedule::parse("@every 2400000h").value().next_after(at("2026-11-30T00:00:00Z"))),
        "never");
}

}  // namespace
}  // namespace capstan
