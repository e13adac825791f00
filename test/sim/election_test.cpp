// Leader election over the whole runtime: two operators never both write, whatever happens to
// their connections and to themselves; a standby is warm; a stop hands over.
//
//     election-test               60 seeds
//     CAPSTAN_SEED=7 election-test    that seed only
//     CAPSTAN_ELECTION_SEEDS=2000     how many
#include "test/sim/election_world.hpp"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>

namespace capstan::test {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr std::uint64_t kSeeds = 6;  // a sanitizer makes each many times as long
#else
constexpr std::uint64_t kSeeds = 60;
#endif

using namespace std::chrono_literals;

std::uint64_t number(const char* name, std::uint64_t fallback) {
    const char* text = std::getenv(name);
    return text == nullptr ? fallback : std::strtoull(text, nullptr, 10);
}

std::string lines_of(const ElectionWorld& world) {
    std::string text;
    for (const std::string& line : world.findings) {
        text += line + "\n";
    }
    for (const auto& candidate : world.candidates) {
        for (const std::string& line : candidate->log.lines()) {
            text += candidate->identity + " " + line + "\n";
        }
    }
    return text;
}

// Two processes, the first of which leads.
struct Pair {
    explicit Pair(std::uint64_t seed = 1) : world(seed), one(world.start("one")) {
        EXPECT_TRUE(world.run_until([&] { return one.leads(); }, 10s)) << lines_of(world);
        two = &world.start("two");
        world.put("a", "1");
        EXPECT_TRUE(world.run_until([&] { return world.secret("a") == "1"; }, 20s));
        world.baton.run_for(20s);
    }
    bool converges(const std::string& value, std::chrono::nanoseconds limit) {
        world.put("a", value);
        return world.run_until([&] { return world.secret("a") == value; }, limit);
    }
    ElectionWorld world;
    Candidate& one;
    Candidate* two{nullptr};
};

TEST(Election, AStandbyIsWarmAndSilent) {
    Pair pair;
    Candidate& two = *pair.two;
    EXPECT_EQ(pair.world.holder(), "one");
    EXPECT_TRUE(two.health.is_ready()) << testing::PrintToString(two.health.reasons());
    EXPECT_NE(two.health.render(obs::Probe::readyz, "", "verbose")
                  .body.find("leader-election ok (standby; the leader is one)"),
              std::string::npos);
    EXPECT_EQ(two.sent, 0u);
    EXPECT_EQ(two.record.runs.size(), 0u) << "no worker and no service";
    EXPECT_GT(pair.one.record.runs["service"], 0);
    // A hundred changes of one object are one key.
    for (int i = 0; i < 100; ++i) {
        pair.world.put("a", std::to_string(i));
        pair.world.baton.run_for(20ms);
    }
    EXPECT_EQ(two.runtime->look("demo.example.io", "main", {"ns", "a"}).state, "ready");
    EXPECT_EQ(two.sent, 0u);
    EXPECT_TRUE(pair.world.findings.empty()) << lines_of(pair.world);
}

TEST(Election, AKilledLeaderIsReplacedWithinLeaseTimeAndOneSecond) {
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
        Pair pair(seed);
        pair.world.baton.run_for(std::chrono::milliseconds(pair.world.random() % 3000));
        pair.one.loop.stop();  // as kill -9: it never comes back
        pair.one.cut(true);
        const MonotonicTime killed = pair.world.loop.now();
        ASSERT_TRUE(pair.converges("2", 30s)) << lines_of(pair.world);
        EXPECT_LE(pair.world.loop.now() - killed, pair.world.options.lease_duration + 1s)
            << "seed " << seed;
        EXPECT_TRUE(pair.world.findings.empty()) << lines_of(pair.world);
    }
}

TEST(Election, APartitionedLeaderLosesAndTheOtherTakesOver) {
    Pair pair;
    pair.one.cut(true);
    const MonotonicTime cut = pair.world.loop.now();
    ASSERT_TRUE(pair.world.run_until([&] { return !pair.one.lost.empty(); }, 1min));
    EXPECT_LE(pair.world.loop.now() - cut, 12s);
    EXPECT_FALSE(pair.two->leads());
    EXPECT_FALSE(pair.one.fence.holds());
    EXPECT_EQ(pair.one.fence.admit().error().code, Code::cancelled);
    ASSERT_TRUE(pair.converges("2", 10s));
    EXPECT_LE(pair.world.loop.now() - cut, 16s);
    // Back again and not ended yet, it has work and must not do it.
    const std::uint64_t sent = pair.one.sent;
    pair.one.cut(false);
    ASSERT_TRUE(pair.converges("3", 5s));
    pair.world.baton.run_for(1min);
    EXPECT_EQ(pair.one.sent, sent);
    EXPECT_NE(pair.one.metrics.render().find("capstan_fenced_writes_total "), std::string::npos);
    EXPECT_TRUE(pair.world.findings.empty()) << lines_of(pair.world);
}

TEST(Election, OnlyTheLeaseConnectionCutIsEnoughToStop) {
    // The whole time it has work, and a connection to do it by.
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
        Pair pair(seed);
        pair.world.baton.run_for(std::chrono::milliseconds(pair.world.random() % 3000));
        pair.one.lease_wire.set_partitioned(true);
        for (int i = 0; i < 300 && !pair.two->leads(); ++i) {
            pair.world.put("a", std::to_string(i));
            pair.world.baton.run_for(100ms);
        }
        EXPECT_TRUE(pair.two->leads());
        EXPECT_FALSE(pair.one.lost.empty());
        ASSERT_TRUE(pair.converges("2", 5s));
        EXPECT_TRUE(pair.world.findings.empty()) << "seed " << seed << lines_of(pair.world);
    }
}

TEST(Election, AStoppedProcessWakesUpHarmless) {
    for (const auto length : {5s, 13s, 14s, 16s, 40s}) {
        Pair pair(static_cast<std::uint64_t>(length.count()));
        pair.one.loop.stop();
        pair.world.put("a", "while it sleeps");
        pair.world.baton.run_for(length);
        pair.one.loop.go_on();
        pair.world.baton.run_for(20s);
        EXPECT_EQ(pair.world.secret("a"), "while it sleeps");
        EXPECT_EQ(pair.one.lost.empty(), length < 12s) << length.count();
        EXPECT_TRUE(pair.world.findings.empty()) << lines_of(pair.world);
    }
}

TEST(Election, ACleanStopHandsOverWithinThreeSeconds) {
    Pair pair;
    const MonotonicTime asked = pair.world.loop.now();
    EXPECT_TRUE(pair.one.shut_down());
    EXPECT_EQ(pair.one.elector.role(), lease::Role::released);
    ASSERT_TRUE(pair.converges("2", 10s));
    EXPECT_LE(pair.world.loop.now() - asked, 3s);
    EXPECT_EQ(pair.world.holder(), "two");
    EXPECT_TRUE(pair.one.lost.empty());
    EXPECT_TRUE(pair.world.findings.empty()) << lines_of(pair.world);
}

// Somebody deletes or edits the Lease of a leader that is well. Its next renewal mends it; until it
// has seen what happened, it writes.
TEST(Election, AForeignHandOnTheLeaseMakesNoSecondLeader) {
    const std::vector<std::string> edits = {"",
                                            R"({"holderIdentity":""})",
                                            R"({"holderIdentity":null})",
                                            R"({"leaseDurationSeconds":1})"};
    for (std::uint64_t seed = 1; seed <= 10; ++seed) {
        for (const std::string& spec : edits) {
            Pair pair(seed);
            pair.world.baton.run_for(std::chrono::milliseconds(pair.world.random() % 3000));
            EXPECT_EQ(pair.world.edit_lease(spec), 200) << spec;
            for (int i = 0; i < 400; ++i) {  // work all the time
                pair.world.put("a", std::to_string(i));
                pair.world.baton.run_for(50ms);
            }
            EXPECT_TRUE(pair.one.leads()) << spec << "\n" << lines_of(pair.world);
            EXPECT_EQ(pair.two->sent, 0u) << spec;
            EXPECT_EQ(pair.world.holder(), "one") << spec;
        }
    }
}

TEST(Election, ALeaderThatDiedWithoutALeaseIsReplacedInItsTime) {
    Pair pair;
    pair.one.loop.stop();
    pair.one.cut(true);
    const MonotonicTime killed = pair.world.loop.now();
    EXPECT_EQ(pair.world.edit_lease(""), 200);
    ASSERT_TRUE(pair.converges("2", 30s)) << lines_of(pair.world);
    EXPECT_LE(pair.world.loop.now() - killed, pair.world.options.lease_duration + 1s);
    EXPECT_TRUE(pair.world.findings.empty()) << lines_of(pair.world);
}

TEST(Election, AStandbyThatStopsTakesNothingWithIt) {
    Pair pair;
    EXPECT_TRUE(pair.two->shut_down());
    EXPECT_EQ(pair.two->sent, 0u);
    EXPECT_EQ(pair.world.holder(), "one");
    ASSERT_TRUE(pair.converges("2", 5s));
}

TEST(Election, WallClocksThatJumpChangeNothing) {
    Pair pair;
    for (const auto jump : {1h, -2h, 1h}) {
        pair.world.loop.jump_wall(jump);
        pair.world.baton.run_for(20s);
        EXPECT_TRUE(pair.one.leads());
    }
    EXPECT_FALSE(pair.two->elected);
}

// One seed of trouble for both, then peace: one of them leads and the world is as asked for.
void play(std::uint64_t seed) {
    ElectionWorld world(seed);
    std::mt19937_64 chance(seed * 7919);
    const auto up_to = [&chance](std::uint64_t ms) {
        return std::chrono::milliseconds(chance() % ms);
    };
    bool faulty = true;
    world.faults = [&](const net::HttpRequest& request, bool) {
        Fault fault;
        const auto dice = faulty ? chance() % 100 : 99;
        fault.refuse = dice < 3;
        fault.lose_response = dice >= 3 && dice < 10;
        fault.duplicate = dice >= 10 && dice < 14 && request.method != "GET";
        if (dice >= 14 && dice < 17) {
            fault.status = dice == 14 ? 500 : dice == 15 ? 429 : 503;
        }
        fault.request_delay = dice >= 17 && dice < 30 ? up_to(16'000) : up_to(20);
        fault.response_delay = dice >= 30 && dice < 40 ? up_to(16'000) : up_to(20);
        return fault;
    };
    std::vector<Candidate*> running{&world.start("one-0"), &world.start("two-0")};
    std::vector<int> starts{0, 0};
    for (int change = 0; change < 120; ++change) {
        Candidate& who = *running[chance() % 2];
        switch (chance() % 8) {
            case 0: who.cut(true); break;
            case 1: who.cut(false); break;
            case 2: who.lease_wire.set_partitioned(true); break;
            case 3: who.wire.cut_all(); break;
            case 4: who.loop.stop(); break;
            case 5: world.loop.jump_wall(up_to(7'200'000) - 1h); break;
            default: who.loop.go_on(), who.cut(false); break;
        }
        const MonotonicTime until = world.loop.now() + up_to(change % 10 == 0 ? 20'000 : 2'000);
        for (int i = 0; world.loop.now() < until; ++i) {
            world.put("k" + std::to_string(chance() % 8),
                      std::to_string(change) + "." + std::to_string(i));
            world.baton.run_for(up_to(400));
        }
        for (std::size_t i = 0; i < 2; ++i) {
            // A process that has lost ends, at some time, and another one is started.
            if (!running[i]->lost.empty() && chance() % 3 == 0) {
                world.end(*running[i]);
                running[i] = &world.start((i == 0 ? "one-" : "two-") + std::to_string(++starts[i]));
            }
        }
    }
    faulty = false;
    for (std::size_t i = 0; i < 2; ++i) {
        running[i]->loop.go_on();
        running[i]->cut(false);
    }
    world.baton.run_for(30s);
    for (std::size_t i = 0; i < 2; ++i) {
        if (!running[i]->lost.empty()) {
            world.end(*running[i]);
            running[i] = &world.start((i == 0 ? "one-" : "two-") + std::to_string(++starts[i]));
        }
    }
    for (int i = 0; i < 8; ++i) {
        world.put("k" + std::to_string(i), "final");
    }
    const auto good = [&] {
        for (int i = 0; i < 8; ++i) {
            if (world.secret("k" + std::to_string(i)) != "final") {
                return false;
            }
        }
        return world.leader() != nullptr;
    };
    EXPECT_TRUE(world.run_until(good, 5min)) << "seed " << seed << "\n" << lines_of(world);
    EXPECT_TRUE(world.findings.empty()) << "seed " << seed << "\n" << lines_of(world);
    EXPECT_GT(world.arrived, 0u);
    int leading = 0;
    for (Candidate* candidate : running) {
        leading += candidate->leads() ? 1 : 0;
    }
    EXPECT_EQ(leading, 1);
    std::printf("seed %llu: %zu processes, %llu writes\n",
                static_cast<unsigned long long>(seed),
                world.candidates.size(),
                static_cast<unsigned long long>(world.arrived));
}

TEST(Election, TwoOperatorsNeverBothWrite) {
    if (const std::uint64_t seed = number("CAPSTAN_SEED", 0); seed != 0) {
        return play(seed);
    }
    const std::uint64_t seeds = number("CAPSTAN_ELECTION_SEEDS", kSeeds);
    for (std::uint64_t seed = 1; seed <= seeds && !HasFailure(); ++seed) {
        play(seed);
    }
}

}  // namespace
}  // namespace capstan::test
