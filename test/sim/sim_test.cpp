// Seeded schedules and faults over the whole runtime: no key is lost, none runs twice at once, and
// every seed ends in the same state.
//
//     sim-test                     a fixed number of choices of the scheduler, from seed 1 on
//     CAPSTAN_SEED=7 sim-test      that seed only
//     CAPSTAN_SIM_LOG=1            prints what the runtime logged
//     CAPSTAN_SIM_STEPS=1000000    how many choices; 10^6 is the figure of docs/benchmarks.md
#include "test/sim/demo.hpp"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>

namespace capstan::test {
namespace {

using namespace std::chrono_literals;

std::uint64_t number(const char* name, std::uint64_t fallback) {
    const char* text = std::getenv(name);
    return text == nullptr ? fallback : std::strtoull(text, nullptr, 10);
}

struct Ending {
    std::map<std::string, std::string> secrets;  // name -> value
    std::uint64_t steps{0}, trace{0};
    bool operator==(const Ending& other) const { return secrets == other.secrets; }
};

constexpr int kNames = 12;

// One seed: a person changes objects while requests fail, answers get lost and the process is
// restarted; then the faults end and the world must come to rest where the ConfigMaps say.
Ending play(std::uint64_t seed) {
    std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
    DemoRecord record;
    WorldOptions options;
    options.seed = seed;
    options.log_level = number("CAPSTAN_SIM_LOG", 0) != 0 ? obs::Level::debug : obs::Level::error;
    World world(options);
    std::mt19937_64 chance(seed * 7919);
    bool faulty = true;
    world.faults = [&](const net::HttpRequest& request) {
        Fault fault;
        if (!faulty) {
            return fault;
        }
        const auto dice = chance() % 100;
        const bool watch = request.target.find("watch=") != std::string::npos;
        if (dice < 3) {
            fault.refuse = true;
        } else if (dice < 6) {
            fault.status = dice == 3 ? 500 : dice == 4 ? 429 : 503;
            fault.retry_after = std::chrono::seconds(dice == 4 ? 1 : 0);
        } else if (dice < 9 && !watch) {
            fault.lose_response = true;
        } else if (dice < 11 && !watch) {
            fault.duplicate = request.method == "PATCH";
        } else if (dice < 14 && watch) {
            fault.cut_after_bytes = chance() % 4000;
        }
        fault.response_delay = std::chrono::milliseconds(chance() % 50);
        fault.chunk_bytes = dice % 7 == 0 ? 1 + chance() % 100 : 0;
        return fault;
    };
    world.add(demo_plugin(record));
    world.boot();
    std::map<std::string, std::string> wanted;
    for (int change = 0; change < 60; ++change) {
        const std::string name = "k" + std::to_string(chance() % kNames);
        if (chance() % 5 == 0) {
            world.remove("/api/v1/namespaces/ns/configmaps/" + name);
            wanted.erase(name);
        } else {
            const std::string value = std::to_string(chance() % 1000);
            world.put_config_map(name, value);
            wanted[name] = value;
        }
        if (chance() % 10 == 0) {
            world.api.ask("DELETE", "/api/v1/namespaces/ns/secrets/" + name);
        }
        if (chance() % 20 == 0) {
            world.transport.cut_all();
            world.api.server().compact_history();
        }
        if (chance() % 25 == 0) {
            EXPECT_TRUE(world.shut_down()) << testing::PrintToString(world.report.left);
            world.boot();
        }
        world.run_for(std::chrono::milliseconds(chance() % 400));
    }
    // The end is the same for every seed.
    faulty = false;
    for (int i = 0; i < kNames; ++i) {
        const std::string name = "k" + std::to_string(i);
        if (i % 3 == 0) {
            world.remove("/api/v1/namespaces/ns/configmaps/" + name);
        } else {
            world.put_config_map(name, "final-" + std::to_string(i));
        }
    }
    // Quiet for longer than a broken watch (30 s) or a failing key that saw an
    // event (60 s) stays away.
    const std::uint64_t before = world.baton.steps();
    EXPECT_TRUE(world.settle(3min, 2h)) << world.baton.describe();
    EXPECT_LT(world.baton.steps() - before, 100'000u) << "it does not come to rest";
    if (number("CAPSTAN_SIM_LOG", 0) != 0) {
        for (const std::string& line : world.log.lines()) {
            std::printf("%s\n", line.c_str());
        }
        for (const auto& [spec, state] : world.cache->states()) {
            std::printf("%s state %d %s objects %zu\n",
                        spec.gvk.to_string().c_str(),
                        static_cast<int>(state.state),
                        state.reason.c_str(),
                        state.objects);
        }
    }
    Ending ending;
    for (const json::Value& secret : world.list("/api/v1/namespaces/ns/secrets")) {
        const json::View view(secret);
        ending.secrets[std::string(view["metadata"]["name"].string_or(""))] =
            view["metadata"]["annotations"]["demo.example.io/value"].string_or("");
    }
    EXPECT_EQ(record.overlaps, 0) << "a key ran twice at once";
    EXPECT_TRUE(world.shut_down());
    ending.steps = world.baton.steps();
    ending.trace = world.baton.trace();
    return ending;
}

std::map<std::string, std::string> expected_end() {
    std::map<std::string, std::string> end;
    for (int i = 0; i < kNames; ++i) {
        if (i % 3 != 0) {
            end["k" + std::to_string(i)] = "final-" + std::to_string(i);
        }
    }
    return end;
}

TEST(Sim, EverySeedEndsTheSame) {
    const std::uint64_t only = number("CAPSTAN_SEED", 0);
    const std::uint64_t steps_wanted = number("CAPSTAN_SIM_STEPS", 100'000);
    std::uint64_t steps = 0;
    for (std::uint64_t seed = only != 0 ? only : 1; steps < steps_wanted; ++seed) {
        const Ending ending = play(seed);
        steps += ending.steps;
        ASSERT_EQ(ending.secrets, expected_end()) << "CAPSTAN_SEED=" << seed << " repeats it";
        ASSERT_FALSE(HasFailure()) << "CAPSTAN_SEED=" << seed << " repeats it";
        if (only != 0) {
            break;
        }
    }
    std::printf("%llu steps\n", static_cast<unsigned long long>(steps));
}

TEST(Sim, SameSeedSameTrace) {
    const std::uint64_t seed = number("CAPSTAN_SEED", 3);
    EXPECT_EQ(play(seed).trace, play(seed).trace);
}

}  // namespace
}  // namespace capstan::test
