// The queue against a slow model that states the rules as plainly as possible, over
// a million random steps.
#include "runtime/queue/work_queue.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <random>

namespace capstan::queue {
namespace {

using namespace std::chrono_literals;
using std::chrono::nanoseconds;

struct ModelKey {
    enum Place { ready, waiting, flying, parked } place{ready};
    bool error{false}, held{false};
    int priority{0};
    MonotonicTime due{0}, floor{0};
    std::uint64_t order{0};
    std::uint32_t failures{0};
    // Added while flying:
    bool again{false}, again_event{false};
    int again_priority{0};
    MonotonicTime again_due{0};
};

// Jitter is off in both (random() = 0.5), so delays are exact.
class Model {
public:
    void add(MonotonicTime now, int key, Reason reason, int priority, nanoseconds delay) {
        const bool event = reason != Reason::external;
        const auto due = now + delay;
        const auto found = keys.find(key);
        if (found == keys.end()) {
            ModelKey k;
            k.priority = priority;
            place(k, now, due);
            keys.emplace(key, k);
            return;
        }
        ModelKey& k = found->second;
        if (k.place == ModelKey::flying) {
            k.again_priority = k.again ? std::max(k.again_priority, priority) : priority;
            k.again_due = k.again ? std::min(k.again_due, due) : due;
            k.again = true;
            k.again_event |= event;
        } else if (k.place == ModelKey::parked) {
            if (event) {
                k.priority = priority;
                place(k, now, due);
            }
        } else {
            k.priority = std::max(k.priority, priority);
            if (k.place == ModelKey::waiting && !k.held) {
                const auto wanted = !k.error ? due : event ? std::max(due, k.floor) : k.due;
                if (wanted < k.due) {
                    place(k, now, wanted);
                }
            }
        }
    }
    void pass(MonotonicTime now) {
        // In the order of their times.
        for (;;) {
            ModelKey* next = nullptr;
            for (auto& [id, k] : keys) {
                if (k.place == ModelKey::waiting && k.due <= now &&
                    (next == nullptr ||
                     std::tie(k.due, k.order) < std::tie(next->due, next->order))) {
                    next = &k;
                }
            }
            if (next == nullptr) {
                return;
            }
            next->place = ModelKey::ready;
            next->order = ++order;
            next->error = next->held = false;
        }
    }
    int take(MonotonicTime now) {
        pass(now);
        int best = -1;
        auto rank = [](const ModelKey& k) {
            return std::pair(k.due - k.priority * nanoseconds(kAgingPeriod), k.order);
        };
        for (auto& [id, k] : keys) {
            if (k.place == ModelKey::ready && (best < 0 || rank(k) < rank(keys[best]))) {
                best = id;
            }
        }
        if (best >= 0) {
            keys[best].place = ModelKey::flying;
        }
        return best;
    }
    void done(MonotonicTime now, int id, const Finish& finish) {
        ModelKey& k = keys[id];
        const ModelKey was = k;
        k.again = k.again_event = false;
        if (finish.kind == Finish::Kind::put_back) {
            k.priority = was.again ? std::max(k.priority, was.again_priority) : k.priority;
            k.held = true;
            place(k, now, now + std::max(finish.delay, 1ns));
            return;
        }
        if (was.again) {
            k.priority = was.again_priority;
        }
        if (finish.kind == Finish::Kind::failed) {
            ++k.failures;
            nanoseconds delay = kBackoffFirst;
            for (std::uint32_t i = 1; i < k.failures && delay < kBackoffMax; ++i) {
                delay *= 2;
            }
            delay = std::max(std::min<nanoseconds>(delay, kBackoffMax), finish.delay);
            k.floor = now + finish.delay;
            if (k.failures > kFreeFailures) {
                k.floor = std::max(k.floor, now + std::clamp<nanoseconds>(delay / 16, 1s, 60s));
            }
            k.error = true;
            auto due = now + delay;
            if (was.again_event) {
                due = std::min(due, std::max(was.again_due, k.floor));
            }
            place(k, now, due);
            return;
        }
        k.failures = 0;
        if (finish.kind == Finish::Kind::parked && !was.again_event) {
            k.place = ModelKey::parked;
        } else if (finish.kind == Finish::Kind::after) {
            place(k,
                  now,
                  was.again ? std::min(was.again_due, now + finish.delay) : now + finish.delay);
        } else if (was.again) {
            place(k, now, was.again_due);
        } else {
            keys.erase(id);
        }
    }
    void place(ModelKey& k, MonotonicTime now, MonotonicTime due) {
        k.due = due;
        k.order = ++order;
        k.place = due <= now ? ModelKey::ready : ModelKey::waiting;
        if (k.place == ModelKey::ready) {
            k.error = k.held = false;
        }
    }

    std::map<int, ModelKey> keys;
    std::uint64_t order{0};
};

std::uint64_t seed_of_run() {
    const char* given = std::getenv("CAPSTAN_SEED");
    return given != nullptr ? std::strtoull(given, nullptr, 10) : std::random_device{}();
}

TEST(WorkQueueModel, MillionRandomStepsAgree) {
    const auto seed = seed_of_run();
    std::printf("seed %llu (CAPSTAN_SEED repeats it)\n", static_cast<unsigned long long>(seed));
    std::mt19937_64 random(seed);
    const auto pick = [&](std::uint64_t n) { return random() % n; };
    constexpr int kKeys = 24;
    std::vector<ObjectKey> keys;
    for (int i = 0; i < kKeys; ++i) {
        keys.push_back({"ns", "key-" + std::to_string(i)});
    }
    WorkQueue queue(Options{[] { return 0.5; }, nullptr, kKeysMax});
    Model model;
    std::vector<int> flying;
    MonotonicTime now{1h};
    constexpr Reason kReasons[] = {
        Reason::create, Reason::update, Reason::external, Reason::plugin};
    constexpr nanoseconds kDelays[] = {0s, 0s, 0s, 1ms, 500ms, 10s, 10min};

    for (int step = 0; step < 1'000'000; ++step) {
        const auto what = pick(100);
        if (what < 35) {
            const auto id = static_cast<int>(pick(kKeys));
            const auto reason = kReasons[pick(4)];
            const auto priority = static_cast<int>(pick(3)) - 1;
            const auto delay = kDelays[pick(7)];
            ASSERT_TRUE(
                queue.add(now, keys[static_cast<std::size_t>(id)], {reason, priority, delay})
                    .has_value());
            model.add(now, id, reason, priority, delay);
        } else if (what < 65) {
            const auto got = queue.try_take(now);
            const int expected = model.take(now);
            ASSERT_EQ(got ? got->key.name : "",
                      expected < 0 ? "" : keys[static_cast<std::size_t>(expected)].name)
                << "step " << step;
            if (got) {
                ASSERT_EQ(got->failures, model.keys[expected].failures);
                ASSERT_LE(got->due, now);
                flying.push_back(expected);
            }
        } else if (what < 90) {
            if (flying.empty()) {
                continue;
            }
            const auto at = pick(flying.size());
            const int id = flying[at];
            flying.erase(flying.begin() + static_cast<std::ptrdiff_t>(at));
            const Finish finishes[] = {Finish::forget(),
                                       Finish::after(kDelays[pick(7)]),
                                       Finish::failed(),
                                       Finish::failed(kDelays[pick(7)]),
                                       Finish::parked(),
                                       Finish::put_back(20ms)};
            const auto& finish = finishes[pick(6)];
            queue.done(now, keys[static_cast<std::size_t>(id)], finish);
            model.done(now, id, finish);
        } else {
            constexpr nanoseconds kSteps[] = {1us, 1ms, 5ms, 100ms, 1s, 30s, 400s};
            now += kSteps[pick(7)];
        }
        const auto counts = queue.counts();
        ASSERT_EQ(counts.ready + counts.delayed + counts.in_flight + counts.parked,
                  model.keys.size())
            << "step " << step;
        ASSERT_EQ(counts.in_flight, flying.size());
    }
    // Nothing is lost: with results that ask for nothing more, all but the parked keys come out.
    for (int rounds = 0; rounds < 1000; ++rounds) {
        for (const int id : flying) {
            queue.done(now, keys[static_cast<std::size_t>(id)], Finish::forget());
        }
        flying.clear();
        if (queue.next_due() == kNever) {
            break;
        }
        now = std::max(now, queue.next_due());
        if (const auto got = queue.try_take(now)) {
            flying.push_back(std::atoi(got->key.name.c_str() + 4));
        }
    }
    const auto counts = queue.counts();
    EXPECT_EQ(counts.ready + counts.delayed + counts.in_flight, 0u);
}

TEST(WorkQueueModel, JitterStaysWithinItsBounds) {
    std::mt19937_64 random(7);
    WorkQueue queue(
        Options{[&] { return static_cast<double>(random() >> 11) * 0x1p-53; }, nullptr, kKeysMax});
    nanoseconds least = 1h, most{0};
    for (int i = 0; i < 1000; ++i) {
        const ObjectKey key{"ns", std::to_string(i)};
        ASSERT_TRUE(queue.add(MonotonicTime{1s}, key).has_value());
        ASSERT_TRUE(queue.try_take(MonotonicTime{1s}));
        queue.done(MonotonicTime{1s}, key, Finish::failed());
        const auto delay = queue.look(key).due - MonotonicTime{1s};
        least = std::min(least, delay);
        most = std::max(most, delay);
    }
    EXPECT_GE(least, 4ms);
    EXPECT_LE(most, 6ms);
    EXPECT_GT(most - least, 1500us);
}

}  // namespace
}  // namespace capstan::queue
