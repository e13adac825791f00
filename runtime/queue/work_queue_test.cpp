#include "runtime/queue/work_queue.hpp"

#include <gtest/gtest.h>

namespace capstan::queue {
namespace {

using namespace std::chrono_literals;

class WorkQueueTest : public ::testing::Test {
protected:
    WorkQueueTest() : queue(Options{[] { return 0.5; }, nullptr, 100}) {}

    void add(const std::string& name,
             Reason reason = Reason::update,
             std::chrono::nanoseconds delay = 0s,
             int priority = kPriorityNormal) {
        ASSERT_TRUE(queue.add(now, {"ns", name}, {reason, priority, delay}).has_value());
    }
    std::string take() {
        const auto item = queue.try_take(now);
        return item ? item->key.name : "";
    }
    void done(const std::string& name, const Finish& finish = Finish::forget()) {
        queue.done(now, {"ns", name}, finish);
    }
    std::chrono::nanoseconds wait() const {
        return queue.next_due() == kNever ? kNever : queue.next_due() - now;
    }
    // Fails `name` n times in a row and stands at the last failure.
    void fail_times(const std::string& name, int n) {
        add(name);
        for (int i = 0; i < n; ++i) {
            now = std::max(now, queue.next_due());
            ASSERT_EQ(take(), name);
            done(name, Finish::failed());
        }
    }

    MonotonicTime now{1h};
    WorkQueue queue;
};

TEST_F(WorkQueueTest, CollapsesAddsBeforeTake) {
    add("a");
    add("b");
    add("a");
    EXPECT_EQ(take(), "a");
    EXPECT_EQ(take(), "b");
    EXPECT_EQ(take(), "");
}

TEST_F(WorkQueueTest, HoldsKeyWhileInFlightAndRunsItOnceMore) {
    add("a");
    EXPECT_EQ(take(), "a");
    add("a");
    add("a");
    EXPECT_EQ(take(), "");
    done("a");
    EXPECT_EQ(take(), "a");
    done("a");
    EXPECT_EQ(take(), "");
    EXPECT_EQ(queue.look({"ns", "a"}).state, "");
}

TEST_F(WorkQueueTest, KeepsEarlierTimeOfTwoDelayedAdds) {
    add("a", Reason::plugin, 10s);
    add("a", Reason::plugin, 20s);
    EXPECT_EQ(wait(), 10s);
    add("a", Reason::plugin, 3s);
    EXPECT_EQ(wait(), 3s);
    add("a");
    EXPECT_EQ(take(), "a");
}

TEST_F(WorkQueueTest, LastRequeueAfterWins) {
    add("a");
    ASSERT_EQ(take(), "a");
    done("a", Finish::after(1h));
    add("a");
    ASSERT_EQ(take(), "a");
    done("a", Finish::after(2h));
    EXPECT_EQ(wait(), 2h);
    add("a");
    ASSERT_EQ(take(), "a");
    done("a");
    EXPECT_EQ(queue.next_due(), kNever) << "a finished run leaves no old timer behind";
}

TEST_F(WorkQueueTest, BacksOffExponentiallyToTheCapAndResets) {
    add("a");
    std::chrono::nanoseconds expected = kBackoffFirst;
    for (int i = 0; i < 25; ++i) {
        now = std::max(now, queue.next_due());
        ASSERT_EQ(take(), "a");
        done("a", Finish::failed());
        EXPECT_EQ(wait(), std::min<std::chrono::nanoseconds>(expected, kBackoffMax)) << i;
        expected *= 2;
    }
    now = queue.next_due();
    ASSERT_EQ(take(), "a");
    done("a", Finish::after(1s));
    now += 1s;
    ASSERT_EQ(take(), "a");
    done("a", Finish::failed());
    EXPECT_EQ(wait(), kBackoffFirst) << "a planned run is no failure and resets the count";
}

TEST_F(WorkQueueTest, EventRunsAFewTimesFailedKeyAtOnce) {
    fail_times("a", static_cast<int>(kFreeFailures));
    EXPECT_GT(wait(), 0s);
    add("a");
    EXPECT_EQ(take(), "a");
}

TEST_F(WorkQueueTest, EventShortensButDoesNotCancelALongBackoff) {
    fail_times("a", 17);
    EXPECT_GT(wait(), 300s);
    add("a");
    EXPECT_GE(wait(), kEventFloorMin);
    EXPECT_LE(wait(), kEventFloorMax);
    const auto first = wait();
    add("a");
    EXPECT_EQ(wait(), first);
}

TEST_F(WorkQueueTest, StormOfEventsRunsAFailingKeyOnceASecond) {
    fail_times("a", 4);
    int runs = 0;
    for (const auto end = now + 10s; now < end; now += 1ms) {
        add("a");
        if (take() == "a") {
            ++runs;
            done("a", Finish::failed());
        }
    }
    EXPECT_LE(runs, 11);
    EXPECT_GE(runs, 3);
}

TEST_F(WorkQueueTest, ServerFloorIsKeptFromEvents) {
    add("a");
    ASSERT_EQ(take(), "a");
    done("a", Finish::failed(30s));
    EXPECT_EQ(wait(), 30s);
    add("a");
    EXPECT_EQ(wait(), 30s);
}

TEST_F(WorkQueueTest, EventDuringAFailingRunObeysTheFloor) {
    fail_times("a", 8);
    now = queue.next_due();
    ASSERT_EQ(take(), "a");
    add("a");
    done("a", Finish::failed());
    EXPECT_GE(wait(), kEventFloorMin);
    EXPECT_EQ(queue.look({"ns", "a"}).failures, 9u);
}

TEST_F(WorkQueueTest, ParkedKeyWakesOnEventsNotOnPeriodicOnes) {
    add("a");
    ASSERT_EQ(take(), "a");
    done("a", Finish::parked());
    EXPECT_EQ(queue.look({"ns", "a"}).state, "parked");
    add("a", Reason::external);
    EXPECT_EQ(take(), "");
    add("a", Reason::update);
    EXPECT_EQ(take(), "a");
    add("a", Reason::update);
    done("a", Finish::parked());
    EXPECT_EQ(take(), "a") << "the object changed while it ran";
}

TEST_F(WorkQueueTest, HigherPriorityFirstThenOrderOfArrival) {
    add("low", Reason::initial, 0s, kPriorityLow);
    add("first");
    add("second");
    EXPECT_EQ(take(), "first");
    EXPECT_EQ(take(), "second");
    EXPECT_EQ(take(), "low");
}

TEST_F(WorkQueueTest, RaisedPriorityMovesAReadyKey) {
    add("a", Reason::initial, 0s, kPriorityLow);
    add("b", Reason::initial, 0s, kPriorityLow);
    add("b");
    EXPECT_EQ(take(), "b");
    EXPECT_EQ(take(), "a");
}

TEST_F(WorkQueueTest, LowPriorityAgesPastNewNormalKeys) {
    add("low", Reason::initial, 0s, kPriorityLow);
    int passed = 0;
    for (; passed < 100; ++passed) {
        now += 1s;
        add("n" + std::to_string(passed));
        const auto got = take();
        if (got == "low") {
            break;
        }
        done(got);
    }
    EXPECT_GE(passed, 28);
    EXPECT_LE(passed, 31);
}

TEST_F(WorkQueueTest, RefusesBeyondTheLimitAndAsksForARescan) {
    for (int i = 0; i < 100; ++i) {
        add("k" + std::to_string(i));
    }
    const auto refused = queue.add(now, {"ns", "one-more"});
    ASSERT_FALSE(refused.has_value());
    EXPECT_EQ(refused.error().code, Code::overloaded);
    ASSERT_TRUE(queue.add(now, {"ns", "k5"}).has_value()) << "a known key needs no room";
    EXPECT_FALSE(queue.take_overflow());
    for (int i = 0; i < 50; ++i) {
        done(take());
    }
    EXPECT_TRUE(queue.take_overflow());
    EXPECT_FALSE(queue.take_overflow());
}

TEST_F(WorkQueueTest, AsksForARescanThoughMostKeysAreParked) {
    for (int i = 0; i < 100; ++i) {
        add("k" + std::to_string(i));
    }
    ASSERT_FALSE(queue.add(now, {"ns", "one-more"}).has_value());
    for (int i = 0; i < 80; ++i) {
        done(take(), Finish::parked());
    }
    for (int i = 0; i < 9; ++i) {
        done(take());
        EXPECT_FALSE(queue.take_overflow()) << i;
    }
    done(take());
    EXPECT_TRUE(queue.take_overflow());
}

TEST_F(WorkQueueTest, PutBackKeepsReasonsFailuresAndItsTime) {
    fail_times("a", 2);
    now = queue.next_due();
    const auto item = queue.try_take(now);
    ASSERT_TRUE(item);
    done("a", Finish::put_back(20ms));
    add("a");
    EXPECT_EQ(take(), "");
    now += 20ms;
    const auto again = queue.try_take(now);
    ASSERT_TRUE(again);
    EXPECT_EQ(again->failures, 2u);
    EXPECT_EQ(again->reasons, item->reasons | static_cast<std::uint16_t>(Reason::update));
}

TEST_F(WorkQueueTest, ShutDownGivesNothingOutButTakesResults) {
    add("a");
    add("b");
    ASSERT_EQ(take(), "a");
    queue.shut_down();
    EXPECT_EQ(take(), "");
    EXPECT_EQ(queue.next_due(), kNever);
    const auto refused = queue.add(now, {"ns", "c"});
    ASSERT_FALSE(refused.has_value());
    EXPECT_EQ(refused.error().code, Code::cancelled);
    done("a", Finish::failed());
}

TEST_F(WorkQueueTest, NamesReasons) {
    add("a", Reason::create);
    add("a", Reason::update);
    EXPECT_EQ(describe_reasons(queue.try_take(now)->reasons), "create,update");
}

TEST_F(WorkQueueTest, TellsWhatRunsAndHowLong) {
    add("a");
    ASSERT_EQ(take(), "a");
    now += 2s;
    add("b");
    ASSERT_EQ(take(), "b");
    now += 1s;
    EXPECT_EQ(queue.running(now).total, 4s);
    EXPECT_EQ(queue.running(now).longest, 3s);
}

}  // namespace
}  // namespace capstan::queue
