// Streams that break, stop, lie or crawl: the objects end up equal, a resume is enough where the
// server still knows the version, and a fault that lasts costs at most a request a second.
#include "test/disturb/disturb_world.hpp"

#include <gtest/gtest.h>

namespace capstan::test {
namespace {

using namespace std::chrono_literals;

struct StreamTest : testing::Test {
    DisturbWorld world;

    bool start() {
        world.serve();
        for (int i = 0; i < 20; ++i) {
            world.put("first-" + std::to_string(i), "1");
        }
        world.connect_plainly();
        world.watch();
        return settles();
    }
    // Also: it is told so, not only right by chance.
    bool settles() {
        return world.until([&] { return world.is_live() && world.equal(); });
    }
    static bool is_watch(const std::string& line) {
        return line.find("watch=true") != std::string::npos;
    }
    // Trouble for the next watches, `count` of them.
    void trouble_watches(int count, const Trouble& trouble) {
        left = count;
        world.trouble = [this, trouble](const std::string& line) {
            return is_watch(line) && left > 0 && left-- > 0 ? trouble : Trouble{};
        };
    }
    // One to two seconds, and as much grace: silence is noticed soon.
    void reflector_for_short_watches() {
        world.reflector.watch_timeout_min = 1s;
        world.reflector.watch_timeout_max = 2s;
        world.reflector.watch_grace = 1s;
    }
    std::size_t watches() const { return world.requests("watch=true"); }
    int relists() const {
        return world.lists("expired") + world.lists("error") + world.lists("older") +
               world.lists("fallback");
    }
    int left{0};
};

TEST_F(StreamTest, ExpiredInTheHeadListsOnceAndIsRight) {
    ASSERT_TRUE(start());
    trouble_watches(1, {.status = 410});
    world.stop_serving();  // ends the running watch
    world.put("second", "1");
    world.remove("first-3");
    world.serve();
    ASSERT_TRUE(settles());
    EXPECT_EQ(world.lists("expired"), 1);
    EXPECT_EQ(relists(), 1);
}

TEST_F(StreamTest, ExpiredInTheStreamListsOnceAndIsRight) {
    ASSERT_TRUE(start());
    trouble_watches(1, {.expired_in_stream = true});
    world.stop_serving();
    world.put("second", "1");
    world.remove("first-3");
    world.serve();
    ASSERT_TRUE(settles());
    EXPECT_EQ(world.lists("expired"), 1);
    EXPECT_EQ(relists(), 1);
}

TEST_F(StreamTest, CutInsideAnObjectIsResumed) {
    ASSERT_TRUE(start());
    trouble_watches(2, {.cut_after = 150});
    world.stop_serving();
    world.serve();
    for (int i = 0; i < 2; ++i) {
        world.put("second-" + std::to_string(i), "1");
        ASSERT_TRUE(world.until([&] { return left <= 1 - i; }));
    }
    ASSERT_TRUE(settles());
    EXPECT_EQ(relists(), 0) << "the version it had was good";
}

TEST_F(StreamTest, OneByteAtATimeIsTheSame) {
    trouble_watches(1000, {.byte_by_byte = true});
    ASSERT_TRUE(start());
    world.put("second", "grüße");
    world.remove("first-1");
    ASSERT_TRUE(settles());
    EXPECT_EQ(world.lists("first"), 1);
    EXPECT_EQ(relists(), 0);
}

TEST_F(StreamTest, AnEventOfTenMebibytesIsTaken) {
    ASSERT_TRUE(start());
    trouble_watches(1, {.padded_to = 10u * 1024 * 1024});
    world.stop_serving();
    world.put("large", "1");
    world.serve();
    ASSERT_TRUE(settles());
    EXPECT_EQ(relists(), 0);
}

// Streamed, in pages, as one list.
TEST_F(StreamTest, AnObjectThatCannotBeReadIsPassedOver) {
    for (const int way : {0, 1, 2}) {
        SCOPED_TRACE(way);
        DisturbWorld one;
        one.reflector.watch_list = way == 0;
        one.reflector.whole_list = way == 2;
        one.trouble = [](const std::string&) { return Trouble{.deepened = true}; };
        one.serve();
        one.put("first", "1");
        one.put("deep", kDeepValue);
        one.connect_plainly();
        one.watch();
        const auto has = [&](const std::string& name, const std::string& value) {
            const auto object = one.handle->store()->get({"default", name});
            return object && object->string_field("/data/v") == value;
        };
        ASSERT_TRUE(one.until([&] { return one.handle->state().synced; }));
        EXPECT_EQ(one.handle->state().state, cache::SyncState::degraded);
        EXPECT_EQ(one.handle->state().reason,
                  "ConfigMap: an object cannot be read: default/deep: JSON is nested deeper than "
                  "128");
        const std::size_t before = one.seen.size();
        one.put("first", kDeepValue);
        one.put("second", "1");
        ASSERT_TRUE(one.until([&] { return has("second", "1"); }));
        EXPECT_TRUE(has("first", "1")) << "as it was read last";
        EXPECT_LE(one.seen.size(), before + 1) << "the watch goes on";
        one.put("first", "2");
        one.put("deep", "1");
        ASSERT_TRUE(one.until([&] { return one.is_live() && one.equal(); }));
        EXPECT_EQ(one.events, 4u) << "none of a deletion";
    }
}

TEST_F(StreamTest, AMissingEndBookmarkFallsBackToAList) {
    world.reflector.initial_end_min = 1s;
    world.reflector.initial_end_quiet = 1s;
    trouble_watches(1, {.without_end = true});
    ASSERT_TRUE(start());
    EXPECT_EQ(world.lists("fallback"), 1);
    world.put("second", "1");
    ASSERT_TRUE(settles());
    EXPECT_EQ(relists(), 1);
}

TEST_F(StreamTest, APeerThatIsGoneWithoutAWordIsNoticedAndResumed) {
    reflector_for_short_watches();
    ASSERT_TRUE(start());
    trouble_watches(2, {.silent_soon = true});
    world.stop_serving();
    world.serve();
    world.put("second", "1");
    ASSERT_TRUE(world.until([&] { return left < 2; }));
    world.put("third", "1");
    const MonotonicTime since = world.loop->now();
    ASSERT_TRUE(settles());
    EXPECT_EQ(relists(), 0);
    const auto lasted = std::chrono::ceil<std::chrono::seconds>(world.loop->now() - since);
    EXPECT_LE(world.requests("", since), static_cast<std::size_t>(lasted.count()) + 1);
}

TEST_F(StreamTest, ASlowReaderIsCutOffAndCatchesUp) {
    world.watch_backlog_bytes = 64 * 1024;
    ASSERT_TRUE(start());
    // One turn of the loop, so that the reader cannot keep pace: some 6 MiB.
    for (int i = 0; i < 3000; ++i) {
        world.put("first-" + std::to_string(i % 20), std::string(1024, 'x') + std::to_string(i));
    }
    ASSERT_TRUE(settles());
    EXPECT_GE(watches(), 2u) << "the server gave up on it";
    EXPECT_EQ(relists(), 0);
}

}  // namespace
}  // namespace capstan::test
