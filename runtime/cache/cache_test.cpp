#include "runtime/cache/cache_fixture.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace capstan::cache {
namespace {

TEST_F(CacheTest, DeliversTheFirstStateThenChanges) {
    server.put("a", "u1");
    const auto handle = watch();
    EXPECT_FALSE(handle->delivered());
    loop.run_for(1s);
    EXPECT_EQ(take_log(), "+ai");
    EXPECT_TRUE(handle->delivered());
    EXPECT_TRUE(handle->state().synced);
    EXPECT_EQ(handle->state().reason, "");
    server.put("b", "u2");
    server.put("a", "u1");
    server.remove("b");
    loop.run_for(1s);
    EXPECT_EQ(take_log(), "+b ~a -b");
    EXPECT_FALSE(handle->store()->get({"x", "a"})->field("/metadata/managedFields"));
    EXPECT_EQ(handle->state().objects, 1u);
}

TEST_F(CacheTest, ListsWhereTheServerCannotStream) {
    server.streaming = false;
    server.put("a", "u1");
    const auto handle = watch();
    loop.run_for(1s);
    EXPECT_EQ(take_log(), "+ai");
    EXPECT_EQ(server.seen.size(), 3u);
    EXPECT_EQ(server.seen[1], "limit=500");
    server.put("b", "u2");
    loop.run_for(1s);
    EXPECT_EQ(take_log(), "+b");
}

TEST_F(CacheTest, LosesNoDeleteOverCompaction) {
    for (const bool streaming : {true, false}) {
        server.streaming = streaming;
        server.put("keep", "k");
        server.put("gone", "g");
        server.put("again", "old");
        const auto handle = watch();
        loop.run_for(1s);
        take_log();
        http.set_partitioned(true);
        http.cut_all();
        loop.run_for(1s);
        server.remove("gone");
        server.remove("again");
        server.put("again", "new");
        server.put("born", "b");
        server.compact();
        http.set_partitioned(false);
        loop.run_for(10s);
        EXPECT_EQ(take_log(), "-again? -gone? +again +born");
        for (const char* name : {"keep", "again", "born"}) {
            server.remove(name);
        }
    }
}

TEST_F(CacheTest, ResumesACutStreamWithoutListing) {
    server.put("a", "u1");
    const auto handle = watch();
    loop.run_for(1s);
    http.cut_all();
    loop.run_for(1ms);
    server.remove("a");
    server.put("b", "u2");
    loop.run_for(5s);
    EXPECT_EQ(take_log(), "+ai -a +b");
    EXPECT_EQ(std::count(observer.lines.begin(), observer.lines.end(), "list: first"), 1);
    ASSERT_EQ(server.seen.size(), 3u) << "and asked once whether it is the server it was";
    EXPECT_EQ(server.seen[2], "limit=1&resourceVersion=101&resourceVersionMatch=NotOlderThan");
}

// A server that was away for long: the first answer to anybody brings all watches back at once.
TEST_F(CacheTest, ComesBackWithTheServer) {
    server.put("a", "u1");
    const auto one = watch();
    const auto other = watch({.gvk = kLease, .ns = "y"});
    loop.run_for(1s);
    http.set_faults([](const net::HttpRequest&) { return test::Fault{.refuse = true}; });
    http.cut_all();
    loop.run_for(100s);
    server.put("b", "u2");
    take_log();
    http.set_faults({});
    const auto call = client.raw("GET", "/version", "", loop.now() + 5s, [](auto) {});
    loop.run_for(2s);
    EXPECT_EQ(take_log(), "+b +b");  // of each
    EXPECT_EQ(one->state().state, SyncState::live);
    EXPECT_EQ(other->state().state, SyncState::live);
}

TEST_F(CacheTest, SharesOneStreamAndClosesItWithTheLastHandle) {
    server.put("a", "u1");
    auto first = watch();
    loop.run_for(1s);
    auto second = watch();
    loop.run_for(1s);
    EXPECT_EQ(take_log(), "+ai +ai");  // the second's own replay
    EXPECT_TRUE(second->delivered());
    EXPECT_EQ(server.watches(), 1u);
    first.reset();
    server.put("b", "u2");
    loop.run_for(1s);
    EXPECT_EQ(take_log(), "+b");
    const auto store = second->store();
    second.reset();
    loop.run_for(1s);
    EXPECT_EQ(server.watches(), 0u);
    EXPECT_EQ(http.open_streams(), 0u);
    EXPECT_EQ(store->size(), 2u);  // a reader's view stays
    EXPECT_EQ(cache.get(kLease, {"x", "a"}).error().code, Code::invalid);
    EXPECT_EQ(loop.next_timer(), kNever);
}

TEST_F(CacheTest, MayLoseAHandleInsideAnEvent) {
    server.put("a", "u1");
    server.put("b", "u2");
    std::unique_ptr<WatchHandle> handle;
    auto made = cache.watch({.spec = {.gvk = kLease, .ns = "x"}, .on_event = [&](const Event& e) {
                                 log += e.new_object->name();
                                 handle.reset();
                             }});
    handle = std::move(made).value();
    loop.run_for(1s);
    EXPECT_EQ(log, "a");
    EXPECT_TRUE(cache.states().empty());
}

TEST_F(CacheTest, SaysWhichPermissionIsMissingAndHeals) {
    server.refuse = 403;
    server.streaming = false;
    const auto handle = watch();
    loop.run_for(5s);
    EXPECT_EQ(handle->state().state, SyncState::degraded);
    EXPECT_EQ(handle->state().reason,
              "Lease: forbidden: watch leases.coordination.k8s.io in namespace x");
    EXPECT_EQ(cache.get(kLease, {"x", "a"}).error().code, Code::unavailable);
    EXPECT_TRUE(cache.reached(kLease, {"x", "a"}, "101")) << "there is nothing to read";
    server.refuse = 0;
    loop.run_for(30s);
    EXPECT_EQ(handle->state().state, SyncState::live);
    EXPECT_TRUE(states.ends_with("live;")) << states;
}

TEST_F(CacheTest, WaitsForAKindThatIsMissingAndForgetsNothingElse) {
    server.served = false;
    const auto handle = watch();
    loop.run_for(2min);
    EXPECT_EQ(handle->state().state, SyncState::degraded);
    EXPECT_EQ(handle->state().reason,
              "Lease: not_found: watch Lease: kind Lease is not served in coordination.k8s.io/v1");
    EXPECT_LE(http.requests(), 12u);  // no busy loop
    server.served = true;
    server.put("a", "u1");
    loop.run_for(60s);
    EXPECT_EQ(take_log(), "+ai");
    EXPECT_EQ(handle->state().state, SyncState::live);
}

TEST_F(CacheTest, ReadsItsOwnWrites) {
    server.put("a", "u1");
    const auto handle = watch();
    loop.run_for(1s);
    take_log();
    http.set_partitioned(true);  // the watch is late
    server.put("a", "u1", "mine");
    server.put("n", "u2");
    const ObjectPtr written = server.object("a");
    cache.note_write(kLease, written);
    cache.note_write(kLease, server.object("n"));
    EXPECT_EQ(cache.get(kLease, {"x", "a"}).value()->resource_version(),
              written->resource_version());
    EXPECT_FALSE(cache.get(kLease, {"x", "a"}).value()->field("/metadata/managedFields"));
    EXPECT_EQ(cache.list(kLease, {"x", nullptr}).value().size(), 2u);
    EXPECT_FALSE(cache.reached(kLease, {"x", "a"}, written->resource_version()));
    cache.note_delete(kLease, {"x", "n"}, "u2");
    EXPECT_EQ(cache.get(kLease, {"x", "n"}).error().code, Code::not_found);
    http.set_partitioned(false);
    loop.run_for(1s);
    EXPECT_EQ(take_log(), "~a* +n");
    EXPECT_TRUE(cache.reached(kLease, {"x", "a"}, written->resource_version()));
    EXPECT_EQ(cache.get(kLease, {"x", "n"}).error().code,
              Code::not_found);  // its deletion is on the way
}

TEST_F(CacheTest, LaysNoWriteOverAWatchThatDoesNotSelectIt) {
    const auto handle = watch({.gvk = kLease, .ns = "x", .label_selector = "app=b"});
    const auto named = watch({.gvk = kLease, .ns = "x", .field_selector = "metadata.name=other"});
    loop.run_for(1s);
    server.put("a", "u1", "a");
    cache.note_write(kLease, server.object("a"));
    EXPECT_EQ(handle->store()->get({"x", "a"}), nullptr);
    EXPECT_EQ(named->store()->get({"x", "a"}), nullptr);
    EXPECT_TRUE(cache.reached(kLease, {"x", "a"}, "101")) << "nobody waits for what is never shown";
    server.put("b", "u2", "b");
    cache.note_write(kLease, server.object("b"));
    EXPECT_FALSE(cache.reached(kLease, {"x", "b"}, "102"));
}

TEST_F(CacheTest, NeverStartsAWatchForARead) {
    EXPECT_EQ(cache.get(kLease, {"x", "a"}).error().message,
              "coordination.k8s.io/v1/Lease x/a is not watched");
    EXPECT_EQ(cache.list(kLease).error().code, Code::invalid);
    const auto handle = watch();
    loop.run_for(1s);
    EXPECT_EQ(cache.get(kLease, {"y", "a"}).error().code, Code::invalid);  // another namespace
    EXPECT_EQ(cache.list(kLease).error().message,
              "coordination.k8s.io/v1/Lease is not watched as a whole");
    EXPECT_TRUE(cache.list(kLease, {"x", nullptr}));
}

TEST_F(CacheTest, RefusesAMalformedSelector) {
    const auto made = cache.watch({.spec = {.gvk = kLease, .label_selector = "a b"}});
    ASSERT_FALSE(made);
    EXPECT_EQ(made.error().code, Code::invalid);
}

TEST_F(CacheTest, IsNotMovedByTheWallClock) {
    server.put("a", "u1");
    const auto handle = watch();
    loop.run_for(1s);
    loop.jump_wall(1h);
    loop.run_for(1s);
    loop.jump_wall(-2h);
    loop.run_for(1min);
    EXPECT_EQ(server.seen.size(), 1u);
    server.put("b", "u2");
    loop.run_for(1s);
    EXPECT_EQ(take_log(), "+ai +b");
}

// Whatever is done to the wire, the store ends up equal to the server, and no event contradicts
// another.
TEST_F(CacheTest, ConvergesUnderFaults) {
    for (std::uint64_t seed = 1; seed <= 15; ++seed) {
        SCOPED_TRACE("seed " + std::to_string(seed));
        std::uint64_t state = seed * 0x9E3779B97F4A7C15u;
        const auto random = [&state](std::uint64_t below) {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            return state % below;
        };
        server.streaming = seed % 2 == 0;
        http.set_faults([&random](const net::HttpRequest&) {
            test::Fault fault;
            switch (random(8)) {
                case 0: fault.refuse = true; break;
                case 1: fault.status = 503; break;
                case 2: fault.cut_after_bytes = random(2000); break;
                case 3: fault.chunk_bytes = 1 + random(7); break;
                case 4: fault.status = 410; break;
                case 5: fault.lose_response = true; break;
                default: break;
            }
            return fault;
        });
        std::map<std::string, std::string> folded;  // name -> uid, by the events
        auto made = cache.watch(
            {.spec = {.gvk = kLease, .ns = "x", .label_selector = seed % 3 == 0 ? "app" : ""},
             .on_event = [&folded](const Event& e) {
                 const std::string name((e.new_object ? e.new_object : e.old_object)->name());
                 if (e.type == EventType::create) {
                     EXPECT_FALSE(folded.contains(name));
                     folded[name] = e.new_object->uid();
                 } else if (e.type == EventType::update) {
                     EXPECT_EQ(folded[name], e.new_object->uid());
                 } else {
                     EXPECT_EQ(folded[name], e.old_object->uid());
                     folded.erase(name);
                 }
             }});
        std::map<std::string, std::string> truth;
        for (int i = 0; i < 300; ++i) {
            const std::string name(1, static_cast<char>('a' + random(8)));
            if (truth.contains(name) && random(3) == 0) {
                server.remove(name);
                truth.erase(name);
            } else {
                if (!truth.contains(name)) {
                    truth[name] = "u" + std::to_string(server.rv);
                }
                server.put(name, truth[name]);
            }
            if (random(40) == 0) {
                server.compact();
            }
            if (random(30) == 0) {
                http.cut_all();
            }
            loop.run_for(std::chrono::milliseconds(random(400)));
        }
        http.set_faults({});
        http.cut_all();
        loop.run_for(3min);
        EXPECT_EQ(folded, truth);
        EXPECT_EQ(made.value()->store()->size(), truth.size());
        made.value().reset();
        for (const auto& [name, uid] : truth) {
            server.remove(name);
        }
        loop.run_for(1s);
    }
}

}  // namespace
}  // namespace capstan::cache
