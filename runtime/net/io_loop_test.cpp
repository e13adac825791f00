#include "runtime/net/io_loop.hpp"

#include <gtest/gtest.h>

#include <csignal>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

namespace capstan::net {
namespace {

using namespace std::chrono_literals;

constexpr auto kLimit = 5s;  // of anything that could hang

TEST(IoLoop, RunsPostedTasksInOrderOnTheLoopThread) {
    const auto loop = make_loop();
    std::vector<int> order;
    EXPECT_FALSE(loop->is_loop_thread());
    loop->post([&] {
        EXPECT_TRUE(loop->is_loop_thread());
        order.push_back(1);
        loop->post([&] {
            order.push_back(3);
            loop->stop();
        });
    });
    loop->post([&] { order.push_back(2); });
    loop->run();
    EXPECT_EQ(order, (std::vector<int>{1, 2, 3}));
}

TEST(IoLoop, FiresTimersInTheOrderOfTheirTimes) {
    const auto loop = make_loop();
    std::vector<int> order;
    const auto later = loop->at(loop->now() + 2ms, [&] { order.push_back(2); });
    const auto past = loop->at(loop->now() - 1h, [&] { order.push_back(1); });
    const auto never = loop->at(kNever, [&] { order.push_back(9); });
    EXPECT_TRUE(order.empty()) << "not inside at()";
    EXPECT_TRUE(loop->run_until([&] { return order.size() == 2; }, kLimit));
    EXPECT_EQ(order, (std::vector<int>{1, 2}));
}

TEST(IoLoop, DestroyedTimersStaySilent) {
    const auto loop = make_loop();
    int fired = 0;
    std::unique_ptr<Timer> self;
    auto victim = loop->at(loop->now(), [&] { fired += 100; });
    self = loop->at(loop->now() - 1ms, [&] {
        ++fired;
        victim.reset();  // due as well
        self.reset();    // itself
        loop->post([&] { loop->stop(); });
    });
    loop->run();
    EXPECT_EQ(fired, 1);
}

TEST(IoLoop, StopsFromAnotherThreadAndRunsAgain) {
    const auto loop = make_loop();
    for (int i = 0; i < 2; ++i) {
        std::thread other([&] { loop->post([&] { loop->stop(); }); });
        loop->run();
        other.join();
    }
    loop->stop();  // before run: not lost
    loop->run();
}

TEST(IoLoop, TakesPostsFromManyThreads) {
    const auto loop = make_loop();
    int count = 0;
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
        threads.emplace_back([&] {
            for (int i = 0; i < 250; ++i) {
                loop->post([&] { ++count; });
            }
        });
    }
    EXPECT_TRUE(loop->run_until([&] { return count == 1000; }, kLimit));
    for (auto& thread : threads) {
        thread.join();
    }
}

TEST(IoLoop, RunUntilEndsAtItsLimit) {
    const auto loop = make_loop();
    EXPECT_FALSE(loop->run_until([] { return false; }, 1ms));
}

TEST(IoLoop, WatchesSignals) {
    const auto loop = make_loop();
    int seen = 0;
    auto watch = loop->on_signal(SIGHUP, [&] { ++seen; }).value();
    ::raise(SIGHUP);
    EXPECT_TRUE(loop->run_until([&] { return seen == 1; }, kLimit));
    ::raise(SIGHUP);
    EXPECT_TRUE(loop->run_until([&] { return seen == 2; }, kLimit));
    EXPECT_FALSE(loop->on_signal(SIGKILL, [] {}));
}

TEST(IoLoop, WatchesDescriptorsLevelTriggered) {
    const auto loop = make_loop();
    int ends[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
    std::string got;
    std::unique_ptr<Watch> watch;
    watch = loop->on_readable(ends[0],
                              [&] {
                                  char c = 0;
                                  if (::read(ends[0], &c, 1) == 1) {
                                      got += c;  // one of three: the rest must call again
                                  } else {
                                      watch.reset();
                                  }
                              })
                .value();
    ASSERT_EQ(::write(ends[1], "abc", 3), 3);
    EXPECT_TRUE(loop->run_until([&] { return got == "abc"; }, kLimit)) << got;
    ::close(ends[1]);
    EXPECT_TRUE(loop->run_until([&] { return watch == nullptr; }, kLimit)) << "the end is readable";
    EXPECT_EQ(::fcntl(ends[0], F_GETFD), 0) << "borrowed: still open";
    ::close(ends[0]);
    EXPECT_FALSE(loop->on_readable(-1, [] {}));
}

}  // namespace
}  // namespace capstan::net
