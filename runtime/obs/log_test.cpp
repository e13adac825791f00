#include "runtime/obs/log.hpp"

#include "capstan/json.hpp"

#include <gtest/gtest.h>

#include <thread>

namespace capstan::obs {
namespace {

class ManualClock final : public Clock {
public:
    MonotonicTime now() const noexcept override { return time; }
    WallTime wall_now() const noexcept override { return WallTime(time); }
    MonotonicTime time{std::chrono::hours(1)};
};

class LogTest : public ::testing::Test {
protected:
    Log make(LogOptions options = {}) { return Log(clock, capture.sink(), options); }
    json::Value parsed(std::size_t index) {
        auto value = json::parse(capture.lines().at(index));
        EXPECT_TRUE(value) << capture.lines().at(index);
        return value ? std::move(value).value() : json::Value();
    }
    ManualClock clock;
    LogCapture capture;
};

TEST_F(LogTest, WritesOneJsonObjectPerLine) {
    const Log log = make().with({{"controller", "etcd/etcd"}});
    log.info("created object",
             {{"name", std::string("main")}, {"attempt", 3}, {"duration_ms", 1.5}, {"ok", true}});
    const json::Value expected = {
        {"ts", "1970-01-01T01:00:00.000000Z"},
        {"level", "info"},
        {"msg", "created object"},
        {"controller", "etcd/etcd"},
        {"name", "main"},
        {"attempt", 3},
        {"duration_ms", 1.5},
        {"ok", true},
    };
    ASSERT_EQ(capture.lines().size(), 1u);
    EXPECT_EQ(parsed(0), expected) << capture.lines()[0];
}

TEST_F(LogTest, DropsLinesBelowTheLevel) {
    const Log log = make({.level = Level::warn});
    const Log child = log.with({{"name", "a"}});
    child.info("quiet");
    child.warn("loud");
    EXPECT_EQ(capture.lines().size(), 1u);
    log.set_level(Level::debug);
    child.debug("now heard");
    EXPECT_TRUE(capture.contains({"now heard", "\"name\":\"a\""}));
}

TEST_F(LogTest, DefaultHandleDropsEverything) {
    const Log log;
    log.error("nobody hears");
    log.with({{"a", 1}}).flush();
    EXPECT_FALSE(log.enabled(Level::error));
}

TEST_F(LogTest, EscapesHostileText) {
    make().error("quote \" back \\ line\nend",
                 {{"bad", std::string("\xff\xc0\xaf\x01 ok \xe2\x82\xac")}});
    const json::Value line = parsed(0);
    EXPECT_EQ(*line.find("msg"), json::Value("quote \" back \\ line\nend"));
    EXPECT_EQ(*line.find("bad"),
              json::Value("\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\x01 ok \xe2\x82\xac"));
}

TEST_F(LogTest, KeepsLinesValidAndBelowTheLimit) {
    const std::string big(10'000, '\x01');
    make().error("m", {{"a", big}, {"b", big}, {"c", "small"}});
    ASSERT_LE(capture.lines().at(0).size(), kLineBytesMax);
    const json::Value line = parsed(0);
    EXPECT_EQ(*line.find("truncated"), json::Value(true));
    EXPECT_EQ(line.find("a"), nullptr) << "2 KiB of control characters take 12 KiB escaped";
    EXPECT_EQ(*line.find("c"), json::Value("small"));
}

TEST_F(LogTest, HoldsBackRepeatsAndCountsThem) {
    const Log log = make({.identical_max = 2});
    for (int i = 0; i < 10; ++i) {
        log.warn("cannot connect", {{"error", "refused"}});
    }
    log.warn("cannot connect", {{"error", "reset"}});
    EXPECT_EQ(capture.count("refused"), 2u);
    EXPECT_EQ(capture.count("reset"), 1u);
    clock.time += std::chrono::seconds(11);
    log.warn("cannot connect", {{"error", "refused"}});
    EXPECT_TRUE(capture.contains({"refused", "\"repeats\":8"}));
}

TEST_F(LogTest, LimitsOneMessageWithChangingFields) {
    const Log log = make({.same_message_max = 10});
    for (int i = 0; i < 100; ++i) {
        log.info("flood", {{"i", i}});
    }
    EXPECT_EQ(capture.count("flood"), 10u);
    log.flush();
    EXPECT_TRUE(capture.contains({"flood", "\"repeats\":90"}));
}

TEST_F(LogTest, WritesWholeLinesFromManyThreads) {
    const Log log = make({.same_message_max = 10'000});
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
        threads.emplace_back([&log, t] {
            for (int i = 0; i < 100; ++i) {
                log.info("line", {{"t", t}, {"i", i}});
            }
        });
    }
    for (auto& thread : threads) {
        thread.join();
    }
    ASSERT_EQ(capture.lines().size(), 400u);
    for (const auto& line : capture.lines()) {
        EXPECT_TRUE(json::parse(line)) << line;
    }
}

TEST(Level, ParsesItsOwnNames) {
    for (const Level level : {Level::debug, Level::info, Level::warn, Level::error}) {
        EXPECT_EQ(parse_level(to_string(level)), level);
    }
    EXPECT_FALSE(parse_level("warning"));
}

}  // namespace
}  // namespace capstan::obs
