#include "test/sim/baton.hpp"

#include <gtest/gtest.h>

#include <set>

namespace capstan::test {
namespace {

using namespace std::chrono_literals;

struct Ring {
    std::unique_ptr<control::Signal> signal;
    int value{0};
};

// Producers and consumers over one signal, with timers of the loop between; a small program
// with every kind of switch.
std::string play(std::uint64_t seed, std::uint64_t* trace = nullptr) {
    VirtualLoop loop;
    Baton baton(loop, seed);
    std::string story;
    Ring ring{baton.make_signal(), 0};
    std::vector<std::unique_ptr<control::Thread>> threads;
    std::unique_ptr<net::Timer> timer;
    int consumed = 0;
    for (int i = 0; i < 3; ++i) {
        threads.push_back(std::move(baton
                                        .start("p" + std::to_string(i),
                                               [&, i] {
                                                   for (int n = 0; n < 4; ++n) {
                                                       ++ring.value;
                                                       story += static_cast<char>('a' + i);
                                                       ring.signal->notify();
                                                       baton.yield_point();
                                                   }
                                               })
                                        .value()));
    }
    threads.push_back(std::move(baton
                                    .start("c",
                                           [&] {
                                               while (consumed < 12) {
                                                   if (!ring.signal->wait_until(loop.now() + 1s)) {
                                                       story += '!';
                                                   }
                                                   consumed += std::exchange(ring.value, 0);
                                                   loop.post([&] { story += '.'; });
                                               }
                                           })
                                    .value()));
    EXPECT_TRUE(baton.run_until([&] { return baton.living() == 0; }, loop.now() + 1h))
        << baton.describe();
    baton.run_for(1s);
    if (trace != nullptr) {
        *trace = baton.trace();
    }
    EXPECT_EQ(consumed, 12);
    return story;
}

TEST(Baton, SameSeedGivesTheSameOrder) {
    std::uint64_t first = 0, second = 0;
    EXPECT_EQ(play(42, &first), play(42, &second));
    EXPECT_EQ(first, second);
}

TEST(Baton, SeedsGiveDifferentOrders) {
    std::set<std::string> stories;
    for (std::uint64_t seed = 0; seed < 50; ++seed) {
        stories.insert(play(seed));
    }
    EXPECT_GT(stories.size(), 40u);
}

TEST(Baton, TimeMovesOnlyWhenAllWait) {
    VirtualLoop loop;
    Baton baton(loop, 1);
    const auto start = loop.now();
    auto signal = baton.make_signal();
    bool notified = true;
    int busy = 0;
    auto sleeper =
        baton.start("sleeper", [&] { notified = signal->wait_until(start + 10s); }).value();
    auto worker = baton
                      .start("worker",
                             [&] {
                                 for (; busy < 100; ++busy) {
                                     EXPECT_EQ(loop.now(), start);
                                     baton.yield_point();
                                 }
                             })
                      .value();
    EXPECT_TRUE(baton.run_until([&] { return baton.living() == 0; }, start + 1h));
    EXPECT_FALSE(notified);
    EXPECT_EQ(busy, 100);
    EXPECT_EQ(loop.now(), start + 10s);
}

TEST(Baton, NoticeBeforeTheWaitIsKeptOnce) {
    VirtualLoop loop;
    Baton baton(loop, 1);
    auto signal = baton.make_signal();
    signal->notify();
    signal->notify();
    bool first = false, second = true;
    auto thread = baton
                      .start("t",
                             [&] {
                                 first = signal->wait_until(loop.now() + 1s);
                                 second = signal->wait_until(loop.now() + 1s);
                             })
                      .value();
    EXPECT_TRUE(baton.run_until([&] { return thread->ended(); }, loop.now() + 1h));
    EXPECT_TRUE(first);
    EXPECT_FALSE(second);
}

TEST(Baton, LoopTimerWakesAThread) {
    VirtualLoop loop;
    Baton baton(loop, 3);
    auto signal = baton.make_signal();
    const auto timer = loop.at(loop.now() + 5s, [&] { signal->notify(); });
    bool notified = false;
    auto thread = baton.start("t", [&] { notified = signal->wait_until(kNever); }).value();
    EXPECT_TRUE(baton.run_until([&] { return thread->ended(); }, loop.now() + 1h));
    EXPECT_TRUE(notified);
}

TEST(Baton, ManyThreadsManySwitches) {
    VirtualLoop loop;
    Baton baton(loop, 9);
    std::vector<std::unique_ptr<control::Thread>> threads;
    int inside = 0;
    for (int i = 0; i < 16; ++i) {
        threads.push_back(std::move(
            baton
                .start("t",
                       [&] {
                           for (int n = 0; n < 1000; ++n) {
                               EXPECT_EQ(++inside, 1);  // atomic between two switching points
                               --inside;
                               baton.yield_point();
                           }
                       })
                .value()));
    }
    EXPECT_TRUE(baton.run_until([&] { return baton.living() == 0; }, loop.now() + 1h));
    EXPECT_GE(baton.steps(), 16'000u);
}

}  // namespace
}  // namespace capstan::test
