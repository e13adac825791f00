#include "runtime/kube/flow.hpp"

#include "test/fakes/virtual_loop.hpp"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

namespace capstan::kube {
namespace {

using namespace std::chrono_literals;

struct FlowTest : testing::Test {
    test::VirtualLoop loop;
    double dice{0.5};  // no jitter
    Flow flow{loop, [this] { return dice; }};
    std::map<int, std::unique_ptr<FlowTicket>> places;
    std::vector<int> sent;  // in order

    void ask(int id, FlowClass which = FlowClass::read) {
        flow.enter(which, places[id], [this, id] { sent.push_back(id); });
    }
    void end(int id, FlowOutcome outcome, std::chrono::milliseconds retry_after = 0ms) {
        places.at(id)->ended(outcome, retry_after);
        loop.run_ready();
    }
    void ask_many(int first, int count) {
        for (int id = first; id < first + count; ++id) {
            ask(id);
        }
    }
    double limit(FlowClass which = FlowClass::read) const { return flow.limit(which).limit(); }
};

TEST_F(FlowTest, SendsUpToTheLimitThenInOrder) {
    ask_many(0, 18);
    EXPECT_EQ(sent.size(), 16u);
    ask(100, FlowClass::mutate);
    EXPECT_EQ(sent.back(), 100) << "classes do not wait for each other";
    end(3, FlowOutcome::good);
    EXPECT_EQ(sent.back(), 16);
    places.erase(4);  // dropped without an answer
    loop.run_ready();
    EXPECT_EQ(sent.back(), 17);
    EXPECT_EQ(flow.limit(FlowClass::read).in_flight(), 16u);
}

TEST_F(FlowTest, AWaiterThatGivesUpIsPassedOver) {
    ask_many(0, 18);
    places.erase(16);
    end(0, FlowOutcome::good);
    EXPECT_EQ(sent.back(), 17);
}

TEST_F(FlowTest, GrowsWhileFullAndIsHalvedOncePerRound) {
    ask_many(0, 16);
    loop.run_for(10ms);
    for (int id = 0; id < 8; ++id) {
        end(id, FlowOutcome::good);
    }
    EXPECT_GT(limit(), 16.4);
    const double before = limit();
    end(8, FlowOutcome::timeout);
    end(9, FlowOutcome::timeout);
    EXPECT_DOUBLE_EQ(limit(), before / 2) << "both were under way together";
    for (int id = 10; id < 16; ++id) {
        places.erase(id);
    }
    for (int round = 0; round < 6; ++round) {
        loop.run_for(1s);
        ask(200 + round);
        end(200 + round, FlowOutcome::timeout);
    }
    EXPECT_DOUBLE_EQ(limit(), 1.0);
}

TEST_F(FlowTest, SlowAnswersShrinkIt) {
    ask(0);
    loop.run_for(20ms);
    end(0, FlowOutcome::good);
    ask(1);
    loop.run_for(3s);
    end(1, FlowOutcome::good);
    EXPECT_NEAR(limit(), 14.4, 0.1);
}

TEST_F(FlowTest, APauseHoldsTheWholeClassAndThenOneTriesAlone) {
    ask_many(0, 4);
    end(0, FlowOutcome::overloaded, 2s);
    ask_many(10, 5);
    loop.run_for(1999ms);
    EXPECT_EQ(sent.size(), 4u);
    ask(100, FlowClass::mutate);
    EXPECT_EQ(sent.size(), 5u);
    for (const int id : {1, 2, 3}) {
        end(id, FlowOutcome::good);  // old news
    }
    loop.run_for(1ms);
    EXPECT_EQ(sent, (std::vector<int>{0, 1, 2, 3, 100, 10}));
    end(10, FlowOutcome::good);
    EXPECT_EQ(sent.size(), 10u);
}

TEST_F(FlowTest, StaysBelowOneRequestASecondWhileTheServerRefuses) {
    ask_many(0, 16);
    for (int id = 0; id < 16; ++id) {
        end(id, FlowOutcome::overloaded, 1s);
    }
    ask_many(100, 500);
    std::size_t seen = sent.size();
    for (int second = 0; second < 300; ++second) {
        loop.run_for(1s);
        while (seen < sent.size()) {
            end(sent[seen++], FlowOutcome::overloaded, 1s);
        }
    }
    EXPECT_LE(sent.size() - 16, 20u) << "1, 2, 4, 8, 16 and then 30 s";
    EXPECT_GE(sent.size() - 16, 10u);
    dice = 0.999;
    places.clear();
    loop.run_for(60s);
    sent.clear();
    ask(1000);
    EXPECT_EQ(sent.size(), 1u) << "it ends by itself";
}

TEST_F(FlowTest, ALongRetryAfterStopsTheClassForSecondsOnly) {
    ask(0, FlowClass::mutate);
    end(0, FlowOutcome::overloaded, 5min);
    ask(1, FlowClass::mutate);
    loop.run_for(4999ms);
    EXPECT_EQ(sent.size(), 1u);
    loop.run_for(1ms);
    EXPECT_EQ(sent.size(), 2u);
}

TEST_F(FlowTest, AsksAServerThatFailsOnceASecond) {
    std::size_t seen = 0;
    const auto run = [&](std::chrono::milliseconds time, FlowOutcome outcome) {
        for (auto left = time; left > 0ms; left -= 10ms) {
            while (seen < sent.size()) {
                const int id = sent[seen++];
                end(id, outcome);
            }
            loop.run_for(10ms);
        }
    };
    ask_many(0, 600);
    run(1s, FlowOutcome::failed);
    EXPECT_LE(sent.size(), 16u + kFailuresInRow);
    const std::size_t first = sent.size();
    run(60s, FlowOutcome::failed);
    EXPECT_LE(sent.size() - first, 60u);
    EXPECT_GE(sent.size() - first, 45u);
    // The first good answer opens the class; nothing of its limit was lost.
    run(1200ms, FlowOutcome::good);
    EXPECT_EQ(sent.size(), 600u);
    EXPECT_GE(limit(), 16.0);
}

TEST_F(FlowTest, FailuresBetweenSuccessesStopNobody) {
    for (int id = 0; id < 1000; ++id) {
        ask(id);
        ASSERT_EQ(sent.size(), static_cast<std::size_t>(id) + 1);
        end(id, id % kFailuresInRow == 0 ? FlowOutcome::good : FlowOutcome::failed);
        loop.run_for(1ms);
    }
    EXPECT_GE(limit(), 16.0);
}

TEST_F(FlowTest, JitterIsAFifthEachWay) {
    for (const double value : {0.0, 0.999999}) {
        dice = value;
        FlowLimit limit({}, [this] { return dice; });
        limit.sent();
        limit.ended(100s, 99s, FlowOutcome::overloaded, 5s);
        EXPECT_NEAR(std::chrono::duration<double>(limit.paused_until()).count(),
                    100 + (value < 0.5 ? 4 : 6),
                    0.001);
    }
}

TEST(FlowLife, TicketsOutliveTheFlow) {
    test::VirtualLoop loop;
    auto flow = std::make_unique<Flow>(loop, [] { return 0.5; });
    std::vector<std::unique_ptr<FlowTicket>> places(20);
    int sent = 0;
    for (auto& place : places) {
        flow->enter(FlowClass::read, place, [&] { ++sent; });
    }
    flow.reset();
    places[0]->ended(FlowOutcome::good, 0ms);
    places.clear();
    loop.run_for(1s);
    EXPECT_EQ(sent, 16);
}

}  // namespace
}  // namespace capstan::kube
