// From the time a key is due to the start of its reconcile: one key asks to be looked at again in
// 1 ms, over and over, on the real loop and the real worker threads. Prints microseconds.
#include "test/live/live_world.hpp"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <vector>

int main() {
    using namespace capstan;
    constexpr std::size_t kRuns = 5000;
    constexpr std::uint64_t kDelayNs = 1'000'000;

    std::vector<std::uint64_t> late_ns;  // written by the key's one reconcile at a time
    std::uint64_t due_ns = 0;
    std::atomic<bool> done{false};
    test::LiveWorld world;
    world.reconcile = [&](capstan_call* call, const capstan_request*) {
        const std::uint64_t begin = world.clock->monotonic_ns(world.host);
        if (due_ns != 0 && !done) {
            late_ns.push_back(begin - std::min(due_ns, begin));
        }
        done = late_ns.size() >= kRuns;
        if (done) {
            world.wake();
        }
        const capstan_result again{{sizeof(capstan_result), CAPSTAN_ABI},
                                   CAPSTAN_OK,
                                   CAPSTAN_RETRY_AFTER,
                                   kDelayNs,
                                   {nullptr, 0}};
        due_ns = world.clock->monotonic_ns(world.host) + kDelayNs;
        world.call->reconcile_done(call, &again);
        return CAPSTAN_OK;
    };
    const test::StopFirst stop_first(world);
    world.boot();
    world.put_config_map("pulse");
    if (!world.until([&] { return done.load(); })) {
        std::fprintf(stderr, "dispatch-bench: only %zu of %zu runs\n", late_ns.size(), kRuns);
        return 1;
    }
    std::vector<std::uint64_t> sorted(late_ns.begin(), late_ns.begin() + kRuns);
    std::sort(sorted.begin(), sorted.end());
    const auto us = [&](double q) {
        return static_cast<double>(sorted[static_cast<std::size_t>(q * (kRuns - 1))]) / 1e3;
    };
    std::printf("due to start, us: p50 %.1f  p90 %.1f  p99 %.1f  max %.1f  (%zu runs)\n",
                us(0.5),
                us(0.9),
                us(0.99),
                us(1.0),
                kRuns);
    return 0;
}
