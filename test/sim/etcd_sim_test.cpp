// Seeded schedules and faults over the whole runtime with the real plugins etcd and custodian: no
// key is lost, none runs twice at once, no store goes backwards, every seed ends in the same state,
// and a world at rest writes nothing.
//
//     sim-etcd-test                a fixed number of choices of the scheduler, from seed 1 on
//     CAPSTAN_SEED=7 sim-etcd-test that seed only
//     CAPSTAN_SIM_LOG=1            prints what the runtime logged
//     CAPSTAN_SIM_STEPS=1000000    how many choices; docs/testing.md has the figures
#include "test/sim/etcd_world.hpp"

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

const std::string kOperation = "druid.gardener.cloud/operation";
const std::string kSuspend = "druid.gardener.cloud/suspend-etcd-spec-reconcile";
constexpr std::uint64_t kSteps = CAPSTAN_SIM_SLOW != 0 ? 60'000 : 1'000'000;
constexpr std::uint64_t kNames = 5;
constexpr int kChanges = 50;

// A person, a hostile network and a hostile host: chosen by a seed.
class Trouble {
public:
    Trouble(EtcdWorld& etcds, std::uint64_t seed)
        : etcds_(etcds), world_(etcds.world), dice_(seed) {
        world_.faults = [this](const net::HttpRequest& request) { return fault_of(request); };
        world_.api.watch_faults = [this](std::string_view) { return watch_fault(); };
        etcds_.cluster->unrest(true);
    }
    void end() {
        over_ = true;
        etcds_.cluster->unrest(false);
    }
    void change();

private:
    bool one_in(std::uint64_t n) { return dice_() % n == 0; }
    Fault fault_of(const net::HttpRequest& request);
    WatchFault watch_fault();
    Shape some_shape(const std::string& name);
    void meddle(const std::string& name);
    void restart();

    EtcdWorld& etcds_;
    World& world_;
    std::mt19937_64 dice_;
    std::map<std::string, int> sizes_;  // the most members it had: a cluster shrinks to 0 only
    bool over_{false};
};

Fault Trouble::fault_of(const net::HttpRequest& request) {
    Fault fault;
    if (over_) {
        return fault;
    }
    const auto dice = dice_() % 300;
    const bool watch = request.target.find("watch=") != std::string::npos;
    if (dice < 3) {
        fault.refuse = true;
    } else if (dice < 6) {
        fault.status = dice == 3 ? 500 : dice == 4 ? 429 : 503;
        fault.retry_after = std::chrono::seconds(dice == 4 ? 1 : 0);
    } else if (dice < 10 && !watch) {
        fault.lose_response = true;
    } else if (dice < 14 && !watch) {
        fault.duplicate = request.method == "PATCH";
    } else if (dice < 20 && watch) {
        fault.cut_after_bytes = dice_() % 40'000;
    }
    fault.response_delay = std::chrono::milliseconds(dice_() % 50);
    fault.chunk_bytes = dice % 7 == 0 ? 200 + dice_() % 2000 : 0;
    return fault;
}

WatchFault Trouble::watch_fault() {
    WatchFault fault;
    if (over_) {
        return fault;
    }
    const auto dice = dice_() % 400;
    if (dice < 20) {
        fault.hold = std::chrono::milliseconds(dice_() % 9000);
    } else if (dice < 23) {
        fault.cut = true;
        fault.outage = std::chrono::milliseconds(dice_() % 4000);
        fault.expire = dice == 20;
    }
    return fault;
}

Shape Trouble::some_shape(const std::string& name) {
    Shape shape;
    int& size = sizes_[name];
    if (!etcds_.exists(name)) {
        size = 0;
    }
    size = std::max(size, one_in(2) ? 1 : 3);
    shape.replicas = one_in(6) ? 0 : size;
    shape.quota_gib = one_in(2) ? 8 : 4;
    shape.cpu_milli = one_in(3) ? 100 : 0;
    shape.tls = one_in(12);
    shape.prefix = name == "e1" ? "blue" : "";
    return shape;
}

// Somebody changes or deletes what is the plugin's.
void Trouble::meddle(const std::string& name) {
    const std::string kinds[] = {
        "/api/v1/namespaces/ns/services/" + name + "-peer",
        "/api/v1/namespaces/ns/configmaps/" + name + "-config",
        "/apis/coordination.k8s.io/v1/namespaces/ns/leases/" + name + "-0",
        "/apis/apps/v1/namespaces/ns/statefulsets/" + name,
        "/apis/druid.gardener.cloud/v1alpha1/namespaces/ns/etcdmembers/" + name + "-0"};
    const std::string& path = kinds[dice_() % std::size(kinds)];
    if (one_in(2)) {
        world_.api.ask("DELETE", path);
        return;
    }
    const char* body = path.find("/services/") != std::string::npos
                           ? R"({"spec":{"publishNotReadyAddresses":false}})"
                           : R"({"metadata":{"labels":{"app.kubernetes.io/component":"stolen"}}})";
    world_.api.ask("PATCH", path, body, "application/merge-patch+json");
}

void Trouble::restart() {
    if (one_in(2)) {
        world_.crash();
    } else {
        EXPECT_TRUE(world_.shut_down()) << testing::PrintToString(world_.report.left);
    }
    world_.boot();
}

void Trouble::change() {
    const std::string name = "e" + std::to_string(dice_() % kNames);
    switch (dice_() % 12) {
        case 0:
        case 1: etcds_.remove(name); break;
        case 2: etcds_.annotate(name, kSuspend, one_in(2) ? "true" : nullptr); break;
        case 3: etcds_.annotate(name, kOperation, "reconcile"); break;
        case 4:
        case 5: meddle(name); break;
        default: etcds_.put(name, some_shape(name)); break;
    }
    if (one_in(20)) {
        world_.transport.cut_all();
        world_.api.server().compact_history();
    }
    if (one_in(10)) {
        // The API server is away for a while, and what happened meanwhile is not told.
        const auto outage = std::chrono::milliseconds(dice_() % 40'000);
        world_.api.cut_watches({.outage = outage, .expire = true});
    }
    if (one_in(15)) {
        restart();
    }
    world_.run_for(std::chrono::milliseconds(dice_() % (one_in(8) ? 60'000 : 3000)));
}

// The same end for every seed, from whatever there is.
void finish(EtcdWorld& etcds) {
    for (std::uint64_t i = 0; i < kNames; ++i) {
        etcds.annotate("e" + std::to_string(i), kSuspend, nullptr);
    }
    etcds.remove("e0");
    etcds.remove("e4");
    EXPECT_TRUE(etcds.world.run_until([&] { return !etcds.exists("e4"); }, 2h));
    // One that is on its way out is made anew.
    for (const char* name : {"e1", "e2", "e3"}) {
        const auto present = etcds.world.read(
            std::string("/apis/druid.gardener.cloud/v1alpha1/namespaces/ns/etcds/") + name);
        if (present && json::View(*present)["metadata"]["deletionTimestamp"].present()) {
            EXPECT_TRUE(etcds.world.run_until([&] { return !etcds.exists(name); }, 2h));
        }
    }
    etcds.put("e1", {.replicas = 3, .prefix = "blue"});
    etcds.put("e2", {.replicas = 3, .quota_gib = 4, .cpu_milli = 200});
    etcds.put("e3", {.replicas = 3});
    etcds.put("e4", {.replicas = 3, .tls = true});
    EXPECT_TRUE(etcds.rest()) << etcds.world.baton.describe();
    EXPECT_EQ(etcds.problems(), "");
    etcds.put("e3", {.replicas = 0});
    EXPECT_TRUE(etcds.rest()) << etcds.world.baton.describe();
}

struct Ending {
    std::map<std::string, std::string> state;
    std::uint64_t steps{0}, trace{0}, reconciles{0}, writes{0};
};

Ending play(std::uint64_t seed, bool trouble, bool look_at_rest) {
    WorldOptions options;
    options.seed = seed;
    const bool log = number("CAPSTAN_SIM_LOG", 0) != 0;
    options.log_level = log ? obs::Level::debug : obs::Level::error;
    EtcdWorld etcds(options);
    Trouble mess(etcds, seed * 7919);
    for (int i = 0; trouble && i < kChanges; ++i) {
        mess.change();
    }
    mess.end();
    finish(etcds);
    EXPECT_EQ(etcds.problems(), "");
    Ending ending;
    ending.state = etcds.state();
    if (look_at_rest) {
        const auto [effective, sent] = etcds.writes_at_rest();
        EXPECT_EQ(effective, 0u) << "a new process changes a world at rest";
        EXPECT_EQ(sent, 0u) << "a resync sends something";
        EXPECT_EQ(difference(ending.state, etcds.state()), "");
    }
    if (log) {
        for (const std::string& line : etcds.world.log.lines()) {
            std::printf("%s\n", line.c_str());
        }
    }
    EXPECT_TRUE(etcds.world.shut_down());
    ending.steps = etcds.world.baton.steps();
    ending.trace = etcds.world.baton.trace();
    ending.reconciles = etcds.world.reconciles;
    ending.writes = etcds.audit.sent;
    return ending;
}

TEST(EtcdSim, EverySeedEndsTheSame) {
    const std::uint64_t only = number("CAPSTAN_SEED", 0);
    const std::uint64_t wanted = number("CAPSTAN_SIM_STEPS", kSteps);
    const Ending calm = play(1, false, true);
    Ending sum = calm;
    std::uint64_t seed = only != 0 ? only : 1;
    for (; sum.steps < wanted; ++seed) {
        std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
        const Ending ending = play(seed, true, seed % 4 == 1);
        sum.steps += ending.steps;
        sum.reconciles += ending.reconciles;
        sum.writes += ending.writes;
        ASSERT_EQ(difference(calm.state, ending.state), "") << "CAPSTAN_SEED=" << seed;
        ASSERT_FALSE(HasFailure()) << "CAPSTAN_SEED=" << seed << " repeats it";
        if (only != 0) {
            break;
        }
    }
    std::printf("%llu steps, %llu reconciles, %llu writes\n",
                static_cast<unsigned long long>(sum.steps),
                static_cast<unsigned long long>(sum.reconciles),
                static_cast<unsigned long long>(sum.writes));
}

TEST(EtcdSim, SameSeedSameTrace) {
    const std::uint64_t seed = number("CAPSTAN_SEED", 3);
    EXPECT_EQ(play(seed, true, false).trace, play(seed, true, false).trace);
}

}  // namespace
}  // namespace capstan::test
