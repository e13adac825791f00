// Three sweeps over one story with the real plugins: the process is killed after each of its
// writes, each event of its watches is late or lost, and its caches lag behind what it reads and
// writes. Each time the world must end as if nothing had been.
//
//     CAPSTAN_SIM_STRIDE=1 sim-etcd-sweep-test   every point; by default every so-manieth
#include "test/sim/etcd_world.hpp"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>

namespace capstan::test {
namespace {

using namespace std::chrono_literals;

std::uint64_t stride(std::uint64_t usual) {
    const char* text = std::getenv("CAPSTAN_SIM_STRIDE");
    usual *= CAPSTAN_SIM_SLOW != 0 ? 5 : 1;
    return text == nullptr ? usual : std::max<std::uint64_t>(1, std::strtoull(text, nullptr, 10));
}

// Made, grown with a new configuration, removed, put to sleep and woken.
void tell(EtcdWorld& etcds, std::chrono::nanoseconds quiet) {
    const auto settled = [&] { ASSERT_TRUE(etcds.rest(quiet)) << etcds.world.baton.describe(); };
    etcds.put("main", {.replicas = 1});
    etcds.put("side", {.replicas = 3, .prefix = "blue"});
    settled();
    etcds.put("main", {.replicas = 3, .quota_gib = 4});
    etcds.remove("side");
    settled();
    etcds.put("main", {.replicas = 0, .quota_gib = 4});
    settled();
    etcds.put("main", {.replicas = 3, .quota_gib = 2});
    settled();
}

struct Outcome {
    std::map<std::string, std::string> state;
    WriteAudit audit;
    std::uint64_t writes{0}, events{0};
};

// `prepare` sets the faults; after the story they end.
Outcome run(const std::function<void(EtcdWorld&)>& prepare, std::chrono::nanoseconds quiet) {
    WorldOptions options;
    options.log_level = obs::Level::warn;
    EtcdWorld etcds(options);
    Outcome outcome;
    etcds.world.api.watch_faults = [&](std::string_view) {
        ++outcome.events;
        return WatchFault{};
    };
    if (prepare) {
        prepare(etcds);
    }
    tell(etcds, quiet);
    etcds.world.api.watch_faults = nullptr;
    EXPECT_TRUE(etcds.rest());
    EXPECT_EQ(etcds.problems(), "");
    outcome.state = etcds.state();
    outcome.audit = etcds.audit;
    outcome.writes = etcds.world.writes();
    if (testing::Test::HasFailure()) {
        for (const std::string& line : etcds.world.log.lines()) {
            std::printf("%s\n", line.c_str());
        }
    }
    return outcome;
}

const Outcome& calm() {
    static const Outcome outcome = run({}, 20s);
    return outcome;
}

std::string list_of(const std::map<std::string, int>& created) {
    std::string out;
    for (const auto& [path, count] : created) {
        out += path + " " + std::to_string(count) + "\n";
    }
    return out;
}

void expect_as_calm(const Outcome& outcome) {
    EXPECT_EQ(difference(calm().state, outcome.state), "");
    EXPECT_EQ(list_of(calm().audit.created), list_of(outcome.audit.created)) << "made twice";
    EXPECT_EQ(outcome.audit.errors, std::vector<std::string>{});
    EXPECT_EQ(outcome.audit.came_back, std::vector<std::string>{});
}

TEST(EtcdSweep, CrashAfterEachWrite) {
    std::printf("%llu writes\n", static_cast<unsigned long long>(calm().writes));
    for (std::uint64_t n = 1; n <= calm().writes; n += stride(5)) {
        SCOPED_TRACE("killed after write " + std::to_string(n));
        expect_as_calm(run([n](EtcdWorld& etcds) { etcds.crash_at_write = n; }, 20s));
        ASSERT_FALSE(HasFailure());
    }
}

// One fault at each event of the watches, counted over all of them.
void sweep_events(const WatchFault& fault, std::uint64_t first, std::uint64_t step) {
    for (std::uint64_t n = first; n <= calm().events; n += step) {
        SCOPED_TRACE("event " + std::to_string(n));
        std::uint64_t events = 0;
        const auto prepare = [&](EtcdWorld& etcds) {
            etcds.world.api.watch_faults = [&](std::string_view) {
                return ++events == n ? fault : WatchFault{};
            };
        };
        expect_as_calm(run(prepare, 60s));
        ASSERT_FALSE(testing::Test::HasFailure());
    }
}

TEST(EtcdSweep, EachEventIsLate) {
    std::printf("%llu events\n", static_cast<unsigned long long>(calm().events));
    sweep_events({.hold = 7s}, 1, stride(40));
}
TEST(EtcdSweep, EachEventIsLostToItsStream) {
    sweep_events({.cut = true}, 3, stride(40));
}
TEST(EtcdSweep, NoWatchForAWhileFromEachEventOn) {
    sweep_events({.cut = true, .outage = 4s}, 7, stride(40));
}
// With the back-off after it the outage stays below cache::kOverlayTtl, past which a cache without
// a watch shows again what was before our own writes.
TEST(EtcdSweep, HistoryIsGoneAtEachEvent) {
    sweep_events({.cut_all = true, .outage = 3s, .expire = true}, 11, stride(20));
}

TEST(EtcdSweep, EachChildIsChangedOrTakenAway) {
    EtcdWorld etcds(WorldOptions{});
    etcds.put("main", {.replicas = 3});
    ASSERT_TRUE(etcds.rest());
    const auto before = etcds.state();
    const std::vector<std::string> children = etcds.child_paths();
    ASSERT_EQ(children.size(), 3u + 3 + 2 + 6);  // members, leases, services, one of each other
    for (const std::string& path : children) {
        SCOPED_TRACE(path);
        etcds.world.api.ask("PATCH",
                            path,
                            R"({"metadata":{"labels":{"app.kubernetes.io/component":"stolen"}}})",
                            "application/merge-patch+json");
        ASSERT_TRUE(etcds.rest(15s));
        EXPECT_EQ(difference(before, etcds.state()), "") << "changed";
        etcds.world.api.ask("DELETE", path);
        ASSERT_TRUE(etcds.rest(30s));
        EXPECT_EQ(difference(before, etcds.state()), "") << "deleted";
        etcds.world.api.cut_watches({.outage = 3s, .expire = true});
        etcds.world.api.ask("DELETE", path);
        ASSERT_TRUE(etcds.rest());  // a watch that broke again and again stays away for a minute
        EXPECT_EQ(difference(before, etcds.state()), "") << "deleted while nobody could watch";
        EXPECT_EQ(etcds.problems(), "");
        ASSERT_FALSE(HasFailure());
    }
}

TEST(EtcdSweep, CachesLagBehind) {
    const char* kinds[] = {
        "", "Etcd", "EtcdMember", "StatefulSet", "ConfigMap", "Pod", "Lease", "Service"};
    std::uint64_t number = 0;
    for (const std::chrono::nanoseconds hold : {3s, 12s, 45s}) {
        for (const std::size_t lag : {1, 2, 4, 16}) {
            for (const std::string kind : kinds) {
                if (number++ % stride(5) != 0) {
                    continue;
                }
                SCOPED_TRACE("kind \"" + kind + "\" lags " + std::to_string(lag) + " events, " +
                             std::to_string(hold.count() / 1'000'000'000) + " s");
                const std::string wanted = "\"kind\":\"" + kind;
                const auto prepare = [&](EtcdWorld& etcds) {
                    etcds.world.api.watch_faults = [&](std::string_view lines) {
                        const std::size_t at = lines.find("\"kind\":\"");
                        const bool hit = at != std::string_view::npos &&
                                         lines.substr(at, wanted.size()) == wanted;
                        return hit ? WatchFault{.hold = hold, .lag = lag} : WatchFault{};
                    };
                };
                expect_as_calm(run(prepare, hold + 20s));
                ASSERT_FALSE(HasFailure());
            }
        }
    }
}

}  // namespace
}  // namespace capstan::test
