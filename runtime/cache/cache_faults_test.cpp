// What a server does that it should not, and what people write into it.
#include "runtime/cache/cache_fixture.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace capstan::cache {
namespace {

TEST_F(CacheTest, OneObjectThatCannotBeReadStopsNothing) {
    for (const bool streaming : {true, false}) {
        server.streaming = streaming;
        server.put("a", "u1");
        server.put("new", "n1", "n", 200);
        auto handle = watch();
        loop.run_for(1s);
        EXPECT_EQ(take_log(), "+ai");
        EXPECT_TRUE(handle->state().synced);
        EXPECT_EQ(handle->state().state, SyncState::degraded);
        EXPECT_EQ(handle->state().reason,
                  "Lease: an object cannot be read: x/new: JSON is nested deeper than 128");
        EXPECT_EQ(cache.get(kLease, {"x", "new"}).error().code, Code::unavailable);
        EXPECT_EQ(cache.get(kLease, {"x", "new"}).error().message,
                  "coordination.k8s.io/v1/Lease cannot be read: x/new: JSON is nested deeper than "
                  "128");
        EXPECT_EQ(cache.list(kLease, {"x", nullptr}).error().message,
                  "list of coordination.k8s.io/v1/Lease is not whole: x/new: JSON is nested deeper "
                  "than 128");
        const auto others = kube::LabelSelector::parse("app=a").value();
        EXPECT_EQ(cache.list(kLease, {"x", &others}).value().size(), 1u);
        const std::size_t asked = server.seen.size();
        server.put("a", "u1", "a", 200);
        server.put("b", "u2");
        server.put("new", "n1");
        loop.run_for(20s);
        EXPECT_EQ(take_log(), "+b +new");
        EXPECT_EQ(server.seen.size(), asked) << "the stream goes on";
        EXPECT_TRUE(cache.get(kLease, {"x", "a"})) << "as it was";
        server.compact();
        http.cut_all();
        loop.run_for(20s);
        EXPECT_EQ(take_log(), "");
        EXPECT_EQ(handle->state().reason,
                  "Lease: an object cannot be read: x/a: JSON is nested deeper than 128");
        server.remove("a");
        loop.run_for(1s);
        EXPECT_EQ(take_log(), "-a");
        EXPECT_EQ(handle->state().reason, "");
        EXPECT_EQ(handle->state().state, SyncState::live);
        server.remove("b");
        server.remove("new");
    }
    EXPECT_EQ(std::count(observer.lines.begin(),
                         observer.lines.end(),
                         "an object cannot be read and stays as it was known"),
              6)
        << "three times each: in the first state, as a change, and in the list after the "
           "compaction";
}

// What one transaction writes shares a version.
TEST_F(CacheTest, LosesNothingOfATransactionThatAStreamBreaksIn) {
    server.put("a", "u1");
    server.put("b", "u2");
    const auto handle = watch();
    loop.run_for(1s);
    EXPECT_EQ(take_log(), "+ai +bi");
    server.put("a", "u1");
    loop.run_for(1s);
    EXPECT_EQ(take_log(), "~a");
    http.cut_all();
    --server.rv;
    server.remove("b");
    --server.rv;
    server.put("c", "u3");
    loop.run_for(60s);
    EXPECT_EQ(take_log(), "-b +c") << "and a, which comes again, is no news";
    EXPECT_EQ(std::count(observer.lines.begin(), observer.lines.end(), "list: first"), 1);
    server.put("d", "u4");
    loop.run_for(1s);
    EXPECT_EQ(take_log(), "+d");
}

TEST_F(CacheTest, NoticesAServerThatIsAnotherOne) {
    for (const std::uint64_t at : {10u, 5000u}) {  // behind what it knows, and ahead
        server.start_over(at == 10u ? 200 : 4000);
        server.put("a", "u1");
        server.put("gone", "g1");
        const auto handle = watch();
        loop.run_for(1s);
        EXPECT_EQ(take_log(), "+ai +gonei");
        http.cut_all();
        server.start_over(at == 10u ? 10 : 4000);
        server.put("a", "u9");
        server.rv = at == 10u ? 12 : 5000;
        loop.run_for(180s);
        server.put("born", "b1");
        loop.run_for(1s);
        EXPECT_EQ(take_log(), "-a? -gone? +a +born");
        EXPECT_EQ(handle->state().state, SyncState::live);
    }
    EXPECT_EQ(std::count(observer.lines.begin(),
                         observer.lines.end(),
                         "the API server's data was set back, taking it as it is now"),
              2);
}

TEST_F(CacheTest, LosesNoneOfTenThousandDeletions) {
    constexpr int kMany = 10'000;
    const auto handle = watch();
    loop.run_for(1s);
    for (int i = 0; i < kMany; ++i) {
        server.put("o" + std::to_string(i), "u" + std::to_string(i));
    }
    loop.run_for(1s);
    EXPECT_EQ(handle->state().objects, static_cast<std::size_t>(kMany));
    take_log();
    for (int i = 0; i < kMany; ++i) {
        server.remove("o" + std::to_string(i));
    }
    loop.run_for(1s);
    EXPECT_EQ(std::count(log.begin(), log.end(), '-'), kMany);
    EXPECT_EQ(handle->state().objects, 0u);
    EXPECT_EQ(std::count(observer.lines.begin(), observer.lines.end(), "list: first"), 1);
}

}  // namespace
}  // namespace capstan::cache
