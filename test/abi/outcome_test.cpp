// Kind: API misuse, lost retry signal (etcd-druid#874, kratix#513). What a reconcile can say has
// disjoint forms, and none with an error can decay to success.
#include "capstan/plugin.hpp"

#include <gtest/gtest.h>

#include <type_traits>

namespace capstan {
namespace {

using namespace std::chrono_literals;

// Only the four named forms make one: no default, no code, no mixture, no changing afterwards.
static_assert(!std::is_default_constructible_v<Outcome>);
static_assert(!std::is_constructible_v<Outcome, capstan_rc>);
static_assert(
    !std::is_constructible_v<Outcome, capstan_rc, std::int32_t, std::chrono::nanoseconds>);
static_assert(!std::is_constructible_v<Outcome,
                                       capstan_rc,
                                       std::int32_t,
                                       std::chrono::nanoseconds,
                                       std::string>);
static_assert(!std::is_constructible_v<Outcome, Error>);
static_assert(!std::is_convertible_v<Result<void>, Outcome>);

TEST(Outcome, DoneSaysNothingElse) {
    const Outcome outcome = Outcome::done();
    EXPECT_EQ(outcome.rc(), CAPSTAN_OK);
    EXPECT_EQ(outcome.retry(), CAPSTAN_RETRY_NONE);
    EXPECT_EQ(outcome.delay(), 0ns);
    EXPECT_EQ(outcome.message(), "");
}

TEST(Outcome, AfterIsNoFailureAndKeepsItsDelay) {
    const Outcome outcome = Outcome::after(10s);
    EXPECT_EQ(outcome.rc(), CAPSTAN_OK);
    EXPECT_EQ(outcome.retry(), CAPSTAN_RETRY_AFTER);
    EXPECT_EQ(outcome.delay(), 10s);
}

// Whatever the error holds, also nothing.
TEST(Outcome, FailedAndParkedAreNeverSuccess) {
    const auto last = static_cast<int>(Code::internal);
    for (int code = 0; code <= last; ++code) {
        const Error error{static_cast<Code>(code), "", {}};
        EXPECT_NE(Outcome::failed(error).rc(), CAPSTAN_OK) << code;
        EXPECT_EQ(Outcome::failed(error).retry(), CAPSTAN_RETRY_BACKOFF) << code;
        EXPECT_NE(Outcome::parked(error).rc(), CAPSTAN_OK) << code;
        EXPECT_EQ(Outcome::parked(error).retry(), CAPSTAN_RETRY_PARKED) << code;
    }
    EXPECT_NE(Outcome::failed(Error{}).rc(), CAPSTAN_OK);
}

// The one delay of a failure is the server's: a floor of the back-off.
TEST(Outcome, FailedCarriesTheServersDelay) {
    EXPECT_EQ(Outcome::failed(Error{Code::overloaded, "busy", 7s}).delay(), 7s);
    EXPECT_EQ(Outcome::parked(Error{Code::invalid, "bad", 7s}).delay(), 0s);
}

}  // namespace
}  // namespace capstan
