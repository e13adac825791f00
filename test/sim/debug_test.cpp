// What the debug page says of keys, plugins and caches (docs/operations.md).
#include "test/sim/demo.hpp"

#include <gtest/gtest.h>

namespace capstan::test {
namespace {

using namespace std::chrono_literals;

// The controller's own part of the page.
json::Value controller_of(const json::Value& page) {
    const json::Value* found = page.pointer("/plugins/0/controllers/0");
    return found == nullptr ? json::object() : *found;
}

json::Value key_of(const json::Value& page, std::string_view key) {
    const json::Value controller = controller_of(page);
    const json::View keys = json::View(controller)["keys"];
    for (std::size_t i = 0; i < keys.array().size(); ++i) {
        if (keys[i]["key"].string_or("") == key) {
            return keys.array()[i];
        }
    }
    return json::object();
}

struct Debug : ::testing::Test {
    Debug() {
        TestPlugin plugin;
        plugin.controllers["main"] = [this](Call& call, const Request& request) {
            const std::string& name = request.key.name;
            if (name == "bad") {
                return Outcome::failed({Code::unavailable, "the store\nis down", {}});
            }
            if (name == "wrong") {
                return Outcome::parked({Code::invalid, "no such size", {}});
            }
            if (name == "later") {
                return Outcome::after(1h);
            }
            if (name == "slow") {
                static_cast<void>(call.sleep_until(call.now() + 10s));
            }
            return Outcome::done();
        };
        world.add(plugin);
        world.boot();
    }
    json::Value page() { return world.runtime->debug(); }

    World world;
    const ShutDownFirst end{world};
};

TEST_F(Debug, ShowsWhyAKeyDoesNotRun) {
    for (const char* name : {"bad", "wrong", "later", "slow", "good"}) {
        world.put_config_map(name, "1");
    }
    world.run_for(5s);
    const json::Value now = page();
    const json::Value bad = key_of(now, "ns/bad");
    EXPECT_EQ(json::View(bad)["state"].string_or(""), "backoff");
    EXPECT_EQ(json::View(bad)["lastResult"].string_or(""), "error");
    EXPECT_NE(json::View(bad)["lastError"].string_or("").find("is down"), std::string::npos);
    EXPECT_GT(json::View(bad)["failures"].int_or(0), 3);
    EXPECT_EQ(json::View(bad)["blockedBy"].string_or("").substr(0, 9), "backs off");
    const json::Value wrong = key_of(now, "ns/wrong");
    EXPECT_EQ(json::View(wrong)["state"].string_or(""), "parked");
    EXPECT_EQ(json::View(wrong)["lastResult"].string_or(""), "parked");
    const json::Value later = key_of(now, "ns/later");
    EXPECT_EQ(json::View(later)["state"].string_or(""), "delayed");
    EXPECT_EQ(json::View(later)["lastResult"].string_or(""), "requeue_after");
    EXPECT_EQ(json::View(later)["blockedBy"].string_or(""), "waits for its time");
    const json::Value slow = key_of(now, "ns/slow");
    EXPECT_EQ(json::View(slow)["state"].string_or(""), "in_flight");
    EXPECT_EQ(json::dump(key_of(now, "ns/good")), "{}") << "nothing is to be done for it";
    const json::Value controller = controller_of(now);
    EXPECT_EQ(json::View(controller)["busyWorkers"].int_or(0), 1);
    EXPECT_EQ(json::View(controller)["parked"].int_or(0), 1);
}

TEST_F(Debug, KeepsTheLastErrorsOfAPlugin) {
    world.put_config_map("wrong", "1");
    world.run_for(1s);
    world.put_config_map("bad", "1");
    world.run_for(5s);
    const json::Value now = page();
    const json::Value* errors = now.pointer("/plugins/0/errors");
    ASSERT_NE(errors, nullptr);
    const json::View list(*errors);
    EXPECT_EQ(list.array().size(), 2u) << "equal ones in a row are counted";
    EXPECT_NE(list[0]["error"].string_or("").find("demo/main ns/bad"), std::string::npos);
    EXPECT_GT(list[0]["count"].int_or(0), 3);
}

TEST_F(Debug, ShowsCachesAndWhatIsMissing) {
    world.put_config_map("good", "1");
    ASSERT_TRUE(world.settle());
    const json::Value now = page();
    const json::Value* caches = now.find("caches");
    ASSERT_NE(caches, nullptr);
    const json::View list(*caches);
    ASSERT_EQ(list.array().size(), 2u);
    EXPECT_EQ(list[0]["gvk"].string_or(""), "v1/ConfigMap");
    EXPECT_EQ(list[0]["state"].string_or(""), "live");
    EXPECT_EQ(list[0]["objects"].int_or(0), 1);
    EXPECT_GT(list[0]["bytes"].int_or(0), 0);
    EXPECT_TRUE(list[0]["lastEventAgeSeconds"].present());
    EXPECT_NE(list[0]["resourceVersion"].string_or(""), "");
}

TEST_F(Debug, ShowsAtMostSoManyKeysAndSaysSo) {
    for (std::size_t i = 0; i < control::kDebugKeysMax + 50; ++i) {
        world.put_config_map("n" + std::to_string(i), "1");
    }
    world.run_for(10ms);
    const json::Value controller = controller_of(page());
    const json::View view(controller);
    EXPECT_LE(view["keys"].array().size(), control::kDebugKeysMax);
    const auto all = view["ready"].int_or(0) + view["delayed"].int_or(0) +
                     view["inFlight"].int_or(0) + view["parked"].int_or(0);
    EXPECT_EQ(view["keysNotShown"].int_or(-1),
              all - static_cast<std::int64_t>(view["keys"].array().size()));
}

}  // namespace
}  // namespace capstan::test
