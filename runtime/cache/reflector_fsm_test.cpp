#include "runtime/cache/reflector_fixture.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace capstan::cache {
namespace {

using namespace std::chrono_literals;

constexpr ReflectorOptions kListing{.watch_list = false};

TEST(ReflectorFsm, StreamsTheFirstStateAndGoesOnWatching) {
    Reflector r;
    EXPECT_EQ(r.start(), "watch rv= initial t=300 new:first");
    EXPECT_EQ(r.opened(), "keep");
    EXPECT_EQ(r.event(EventKind::added, "9"), "collect keep");
    EXPECT_EQ(r.event(EventKind::bookmark, "9"), "ignore keep");
    EXPECT_EQ(r.fsm.phase(), Phase::syncing);
    EXPECT_EQ(r.event(EventKind::initial_end, "10"), "commit keep");
    EXPECT_TRUE(r.fsm.synced());
    EXPECT_EQ(r.fsm.resource_version(), "10");
    EXPECT_EQ(r.event(EventKind::modified, "12"), "apply keep");
    EXPECT_EQ(r.event(EventKind::bookmark, "15"), "apply keep");
    EXPECT_EQ(r.ended(), "watch rv=15 t=300");
}

constexpr ReflectorOptions kWhole{.whole_list = true};

TEST(ReflectorFsm, TakesTheFirstStateFromAWholeListThenWatches) {
    Reflector r(kWhole);
    EXPECT_EQ(r.start(), "watch rv= list initial t=300 new:first");
    EXPECT_EQ(r.opened(), "keep");
    EXPECT_EQ(r.event(EventKind::added, "9"), "collect keep");
    EXPECT_EQ(r.event(EventKind::initial_end, "10"), "commit keep");
    EXPECT_EQ(r.ended(), "watch rv=10 t=300");
    EXPECT_EQ(r.opened(), "keep");
    EXPECT_EQ(r.failed(Code::expired).substr(0, 19), "watch rv=10 list in");
}

TEST(ReflectorFsm, StreamsWhenAWholeListIsRefusedCutOrSilent) {
    {
        Reflector r(kWhole);
        r.start();
        EXPECT_EQ(
            r.failed(Code::invalid),
            "watch rv= initial t=300 new:fallback | info the whole list did not come, streaming "
            "instead (invalid: x)");
    }
    {
        Reflector r(kWhole);
        r.start();
        r.event(EventKind::added, "9");
        EXPECT_EQ(r.failed(Code::unavailable).substr(0, 25), "watch rv= initial t=300 n");
    }
    {
        Reflector r(kWhole);
        r.start();
        EXPECT_EQ(r.due().substr(0, 25), "watch rv= initial t=300 n");
        EXPECT_EQ(r.due().substr(0, 10), "list rv= n");  // and pages when that is silent too
    }
    {  // a server that is away is no reason
        Reflector r(kWhole);
        r.start();
        EXPECT_EQ(r.failed(Code::unavailable).substr(0, 10), "wait 800ms");
        EXPECT_EQ(r.due().substr(0, 17), "watch rv= list in");
    }
}

TEST(ReflectorFsm, ListsPageByPageThenWatchesFromTheListsVersion) {
    Reflector r(kListing);
    r.random = 0.999;
    EXPECT_EQ(r.start(), "list rv= new:first");
    EXPECT_EQ(r.page("10", "t1"), "collect list rv= c=t1");
    EXPECT_EQ(r.page("10", "t2"), "collect list rv= c=t2");
    EXPECT_EQ(r.page("10"), "commit watch rv=10 t=600");
}

struct FallbackRow {
    const char* name;
    std::string (*step)(Reflector&);
    const char* wanted;
};

class Fallback : public testing::TestWithParam<FallbackRow> {};

TEST_P(Fallback, ToAListForGood) {
    Reflector r;
    r.start();
    r.opened();
    EXPECT_EQ(GetParam().step(r), GetParam().wanted);
    r.page("10");
    r.opened();
    EXPECT_EQ(r.failed(Code::expired).substr(0, 12), "list rv=10 n");  // no second try of streaming
}

INSTANTIATE_TEST_SUITE_P(
    Rows,
    Fallback,
    testing::Values(
        FallbackRow{"refused",
                    [](Reflector& r) { return r.failed(Code::invalid); },
                    "list rv= new:fallback | debug server has no streaming lists, listing instead"},
        FallbackRow{"ended_early",
                    [](Reflector& r) { return r.ended(); },
                    "list rv= new:fallback | warn streaming list ended before its end bookmark, "
                    "listing instead"},
        FallbackRow{"no_end_bookmark",
                    [](Reflector& r) { return r.due(); },
                    "list rv= new:fallback | warn end bookmark of the streaming list did not come, "
                    "listing instead"},
        FallbackRow{"deletion_inside",
                    [](Reflector& r) { return r.event(EventKind::deleted, "3"); },
                    "ignore list rv= new:fallback | warn streaming list sent a deletion before its "
                    "end, listing instead"}),
    [](const auto& row) { return row.param.name; });

TEST(ReflectorFsm, WaitsForTheEndBookmarkWhileEventsKeepComing) {
    Reflector r;
    r.start();
    r.opened();
    for (int i = 0; i < 20; ++i) {
        EXPECT_EQ(r.pass(4s), "keep");
        EXPECT_EQ(r.event(EventKind::added, "1"), "collect keep");
    }
    EXPECT_EQ(r.pass(4s), "keep");
    EXPECT_EQ(r.pass(1s).substr(0, 8), "list rv=");
}

TEST(ReflectorFsm, StartsAStreamOverWhenItBreaksBeforeItsEnd) {
    Reflector r;
    r.start();
    r.event(EventKind::added, "5");
    EXPECT_EQ(r.failed(Code::unavailable),
              "wait 800ms | warn streaming list failed (unavailable: x)");
    EXPECT_EQ(r.pass(700ms), "keep");
    EXPECT_EQ(r.pass(100ms), "watch rv= initial t=300 new:first");
}

TEST(ReflectorFsm, ListsAgainAtTheLastVersionWhenAWatchExpires) {
    for (const bool in_head : {true, false}) {
        Reflector r(kListing);
        r.start();
        r.page("10");
        if (!in_head) {
            r.opened();
            r.event(EventKind::added, "12");
        }
        const std::string rv = in_head ? "10" : "12";
        EXPECT_EQ(
            r.failed(Code::expired),
            "list rv=" + rv + " new:expired | info watch expired, listing again (expired: x)");
        EXPECT_EQ(r.page("20"), "commit watch rv=20 t=300");
    }
}

TEST(ReflectorFsm, DoesNotSpinWhenEveryWatchExpires) {
    Reflector r(kListing);
    r.start();
    r.page("10");
    r.failed(Code::expired);
    r.page("10");
    EXPECT_EQ(r.failed(Code::expired).substr(0, 11), "wait 1600ms");
    r.due();
    r.page("10");
    EXPECT_EQ(r.failed(Code::expired).substr(0, 11), "wait 3200ms");
}

TEST(ReflectorFsm, AsksForAConsistentListWhenItsVersionIsGone) {
    Reflector r(kListing);
    r.start();
    r.page("10");
    r.failed(Code::expired);
    EXPECT_EQ(
        r.list_error(Code::expired),
        "list rv= new:expired | info version is gone, asking for a consistent list (expired: x)");
    EXPECT_EQ(r.page("30"), "commit watch rv=30 t=300");
    Reflector lagging(kListing);
    lagging.start();
    lagging.page("10");
    lagging.failed(Code::expired);
    EXPECT_EQ(lagging.list_error(Code::timeout, "too large resource version: 504").substr(0, 12),
              "list rv= new");
}

TEST(ReflectorFsm, StartsTheListOverWhenAContinueTokenExpires) {
    Reflector r(kListing);
    r.start();
    r.page("10", "t1");
    EXPECT_EQ(r.list_error(Code::expired), "wait 800ms | warn list failed (expired: x)");
    EXPECT_EQ(r.due(), "list rv= new:error");
}

struct WatchErrorRow {
    const char* name;
    Code code;
    std::chrono::milliseconds retry_after;
    const char* wait;
    const char* then;
};

class WatchErrors : public testing::TestWithParam<WatchErrorRow> {};

TEST_P(WatchErrors, AreAnsweredByWaitingThenResumingOrListing) {
    Reflector r;
    r.go_live();
    EXPECT_EQ(r.failed(GetParam().code, "x", GetParam().retry_after)
                  .substr(0, std::string(GetParam().wait).size()),
              GetParam().wait);
    EXPECT_EQ(r.due(), GetParam().then);
}

INSTANTIATE_TEST_SUITE_P(
    Rows,
    WatchErrors,
    testing::Values(
        WatchErrorRow{"refused",
                      Code::unavailable,
                      0ms,
                      "wait 800ms | warn watch failed (unavailable: x)",
                      "watch rv=10 t=300"},
        WatchErrorRow{"throttled",
                      Code::overloaded,
                      7s,
                      "wait 7000ms | warn watch failed",
                      "watch rv=10 t=300"},
        WatchErrorRow{
            "throttled_shortly", Code::overloaded, 1ms, "wait 800ms", "watch rv=10 t=300"},
        WatchErrorRow{"head_timeout", Code::timeout, 0ms, "wait 800ms", "watch rv=10 t=300"},
        WatchErrorRow{"forbidden", Code::forbidden, 0ms, "wait 800ms", "watch rv=10 t=300"},
        WatchErrorRow{"kind_gone",
                      Code::not_found,
                      0ms,
                      "wait 600ms | warn kind is not served",
                      "watch rv= initial t=300 new:error"},
        WatchErrorRow{"event_too_large",
                      Code::too_large,
                      0ms,
                      "wait 800ms",
                      "watch rv=10 initial t=300 new:error"},
        WatchErrorRow{"bad_request",
                      Code::invalid,
                      0ms,
                      "wait 800ms",
                      "watch rv=10 initial t=300 new:error"}),
    [](const auto& row) { return row.param.name; });

TEST(ReflectorFsm, BacksOffWithJitterUpToItsLimit) {
    const struct {
        Code code;
        double limit;  // ms
    } rows[] = {{Code::unavailable, 10'000},
                {Code::timeout, 10'000},
                {Code::forbidden, 10'000},
                {Code::overloaded, 30'000}};
    for (const auto& row : rows) {
        for (const double random : {0.0, 0.5, 1.0}) {
            Reflector r;
            r.random = random;
            r.start();
            double wanted = 800;
            for (int i = 0; i < 12; ++i) {
                const std::string text = r.failed(row.code);
                EXPECT_EQ(text.substr(0, text.find("ms")),
                          "wait " + std::to_string(static_cast<int>(std::min(wanted, row.limit) *
                                                                    (1 + random))));
                wanted *= 2;
                r.due();
            }
        }
    }
}

// A server that was away and now refuses, or has lost its history, is not waited for as if it were
// still away.
TEST(ReflectorFsm, CountsAnswersApartFromSilence) {
    Reflector r;
    r.go_live();
    for (int i = 0; i < 2; ++i) {
        r.failed(Code::unavailable);
        r.due();
    }
    EXPECT_EQ(r.failed(Code::forbidden).substr(0, 10), "wait 800ms");
    r.due();
    EXPECT_EQ(r.failed(Code::unavailable).substr(0, 10), "wait 800ms");
    r.due();
    r.opened();
    EXPECT_EQ(r.failed(Code::expired, "old").substr(0, 31), "watch rv=10 initial t=300 new:e");
    r.event(EventKind::initial_end, "20");
    EXPECT_EQ(r.failed(Code::expired, "old").substr(0, 11), "wait 1600ms");
}

TEST(ReflectorFsm, TriesSoonWhenOthersAreAnswered) {
    Reflector r;
    r.go_live();
    EXPECT_FALSE(r.fsm.on_server_back(r.now));
    for (int i = 0; i < 5; ++i) {
        r.due();
        r.failed(Code::unavailable);
    }
    r.random = 0.25;
    EXPECT_TRUE(r.fsm.on_server_back(r.now));
    EXPECT_EQ(r.fsm.deadline() - r.now, 250ms);
    EXPECT_FALSE(r.fsm.on_server_back(r.now));
    EXPECT_EQ(r.due().substr(0, 11), "watch rv=10");
    r.failed(Code::forbidden);
    EXPECT_FALSE(r.fsm.on_server_back(r.now));  // it was answered
}

TEST(ReflectorFsm, ForgetsOldTroubleAfterTwoQuietMinutes) {
    Reflector r;
    r.go_live();
    for (int i = 0; i < 3; ++i) {
        r.failed(Code::unavailable);
        r.due();
    }
    EXPECT_EQ(r.opened(), "keep check=10 | info watch works again");
    r.now += 119s;
    EXPECT_EQ(r.failed(Code::unavailable).substr(0, 12), "wait 6400ms ");
    r.due();
    r.opened();
    r.now += 120s;
    EXPECT_EQ(r.failed(Code::unavailable).substr(0, 10), "wait 800ms");
}

TEST(ReflectorFsm, WarnsOncePerTrouble) {
    Reflector r;
    r.start();
    EXPECT_NE(r.failed(Code::unavailable).find("warn"), std::string::npos);
    r.due();
    EXPECT_NE(r.failed(Code::unavailable).find("debug"), std::string::npos);
    r.due();
    EXPECT_NE(r.failed(Code::forbidden).find("warn"), std::string::npos);
}

TEST(ReflectorFsm, ListsWhenAWatchKeepsFailingWithoutProgress) {
    Reflector r;
    r.go_live();
    for (int i = 1; i < kWatchFailuresMax; ++i) {
        r.failed(Code::unavailable);
        EXPECT_EQ(r.due(), "watch rv=10 t=300");
    }
    r.failed(Code::unavailable);
    EXPECT_EQ(r.due(), "watch rv=10 initial t=300 new:error");
}

TEST(ReflectorFsm, BacksOffAfterAWatchThatEndsAtOnce) {
    Reflector r;
    r.go_live();
    EXPECT_EQ(r.ended(), "watch rv=10 t=300");  // the stream had its events
    r.opened();
    r.now += 999ms;
    EXPECT_EQ(
        r.ended(),
        "wait 800ms | warn watch was very short (unavailable: the server ended the watch at once)");
    r.due();
    r.opened();
    r.now += 1s;
    EXPECT_EQ(r.ended(), "watch rv=10 t=300");
}

TEST(ReflectorFsm, DropsAWatchThatOutlivesItsTimeout) {
    Reflector r;
    r.go_live();
    EXPECT_EQ(r.pass(309s), "keep");
    EXPECT_EQ(r.pass(1s),
              "watch rv=10 t=300 | info watch went silent or outlived its time, opening it again");
}

TEST(ReflectorFsm, TakesSilenceForDeathOnlyAfterLearningTheCadence) {
    Reflector r({.watch_timeout_min = 3600s, .watch_timeout_max = 3600s});
    r.go_live();
    EXPECT_EQ(r.pass(30min), "keep");  // a quiet kind may be silent for its whole life
    for (int i = 0; i < 4; ++i) {
        r.event(EventKind::bookmark, "11");
        EXPECT_EQ(r.pass(60s), "keep");
    }
    EXPECT_EQ(r.pass(119s), "keep");  // 3 times the longest gap
    EXPECT_EQ(r.pass(1s).substr(0, 11), "watch rv=11");
}

TEST(ReflectorFsm, NeverStepsBackToAnOlderList) {
    Reflector r(kListing);
    r.start();
    r.page("100");
    r.failed(Code::expired);
    EXPECT_EQ(r.page("99"),
              "ignore wait 1600ms | warn list is older than the cache, waiting for a newer one "
              "(unavailable: the server's list is older than what it showed before)");
    EXPECT_EQ(r.due(), "list rv= new:older");
    EXPECT_EQ(r.page("100"), "commit watch rv=100 t=300 | info watch works again");
}

TEST(ReflectorFsm, AcceptsAWorldThatStaysSetBack) {
    Reflector r(kListing);
    r.start();
    r.page("100");
    r.failed(Code::expired);
    std::string last;
    const MonotonicTime began = r.now;
    do {
        last = r.page("50");
        if (last.starts_with("ignore")) {
            r.due();
        }
    } while (last.starts_with("ignore"));
    EXPECT_GE(r.now - began, 120s);
    EXPECT_EQ(last,
              "commit! watch rv=50 t=300 | error the API server's data was set back, taking it as "
              "it is now | info watch works again");
}

TEST(ReflectorFsm, IsDegradedWhileForbiddenAndHeals) {
    Reflector r(kListing);
    r.start();
    r.list_error(Code::forbidden);
    EXPECT_EQ(r.fsm.phase(), Phase::degraded);
    EXPECT_EQ(r.fsm.trouble()->code, Code::forbidden);
    r.due();
    r.page("10");
    EXPECT_EQ(r.fsm.phase(), Phase::live);
    EXPECT_FALSE(r.fsm.trouble());
}

TEST(ReflectorFsm, FindsAMissingKindWithinAMinute) {
    Reflector r;
    r.random = 1.0;
    r.start();
    for (int i = 0; i < 20; ++i) {
        r.failed(Code::not_found);
        EXPECT_EQ(r.fsm.phase(), Phase::degraded);
        EXPECT_LE(r.fsm.deadline() - r.now, 30s);
        r.due();
    }
}

TEST(ReflectorFsm, GoesOnBehindTheLastVersionThatIsKnownWhole) {
    Reflector r;
    r.start();
    r.event(EventKind::initial_end, "10");
    r.event(EventKind::added, "12");
    r.event(EventKind::modified, "12");
    EXPECT_EQ(r.ended(), "watch rv=10 t=300") << "12 may have more";
    r.opened();
    r.event(EventKind::modified, "12");
    r.event(EventKind::deleted, "15");
    EXPECT_EQ(r.ended(), "watch rv=12 t=300");
    r.opened();
    r.event(EventKind::bookmark, "15");
    EXPECT_EQ(r.ended(), "watch rv=12 t=300") << "such a bookmark may stand inside a version";
    r.opened();
    r.event(EventKind::bookmark, "20");
    EXPECT_EQ(r.ended(), "watch rv=20 t=300");
}

TEST(ReflectorFsm, KeepsAnEventItCannotDecodeFromEndingTheStream) {
    Reflector r;
    r.start();
    EXPECT_EQ(r.event(EventKind::undecodable, "7"), "collect keep");
    EXPECT_EQ(r.event(EventKind::initial_end, "10"), "commit keep");
    EXPECT_EQ(r.event(EventKind::undecodable, ""), "apply keep");
    EXPECT_EQ(r.event(EventKind::added, "11"), "apply keep");
    EXPECT_EQ(r.event(EventKind::undecodable, "12"), "apply keep");
    EXPECT_EQ(r.ended(), "watch rv=11 t=300") << "12 may have more";
    r.opened();
    EXPECT_EQ(r.event(EventKind::bookmark, "13"), "apply keep");
    EXPECT_EQ(r.ended(), "watch rv=13 t=300") << "it is not met again";
}

TEST(ReflectorFsm, IgnoresWhatComesAfterItMovedOn) {
    Reflector r;
    r.start();
    r.failed(Code::unavailable);
    EXPECT_EQ(r.event(EventKind::added, "11"), "ignore keep");
    EXPECT_EQ(r.page("5"), "ignore keep");
    EXPECT_EQ(r.opened(), "keep");
    EXPECT_EQ(r.ended(), "keep");
    EXPECT_EQ(r.fsm.resource_version(), "");
}

}  // namespace
}  // namespace capstan::cache
