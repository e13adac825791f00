// No lost key, no double worker, no store that goes back: the real queue, store and reflector
// between a random API server and random workers, over millions of random steps.
//
// The queue alone is compared with a model of its rules in runtime/queue, the store alone in
// runtime/cache; this is the path of an event through all three. CAPSTAN_MODEL_STEPS: how many
// steps; CAPSTAN_SEED: repeats a run.
#include "runtime/queue/work_queue.hpp"
#include "test/model/model_watcher.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

namespace capstan::model {
namespace {

using namespace std::chrono_literals;
using std::chrono::nanoseconds;

constexpr std::size_t kWorkers = 4;
constexpr std::uint64_t kStepsOfEpoch = 4096;  // then the trouble ends and all is compared
constexpr std::uint64_t kCalmRoundsMax = 100'000;
constexpr std::size_t kNoKey = kNames;

class World {
public:
    explicit World(std::uint64_t seed) : random_(seed), server_(random_) { start(); }

    void run(std::uint64_t steps) {
        for (std::uint64_t i = 1; i <= steps && !failed(); ++i) {
            ++step_;
            step();
            look_at(pick(kNames));
            if (i % kStepsOfEpoch == 0 || i == steps) {
                settle();
                if (pick(8) == 0) {
                    stop();
                }
            }
        }
    }

    struct Tally {
        std::uint64_t events{0}, runs{0}, own_writes{0}, resets{0}, starts{0}, refused{0};
    };
    const Tally& tally() const { return tally_; }

private:
    // What is known of one name.
    struct Name {
        ObjectPtr seen;               // by the events of the store
        bool dirty{false};            // an event came after the last worker took the key
        bool flying{false};           // in a worker
        bool refused{false};          // the queue had no room
        std::uint64_t observed{0};    // version the last worker saw; 0: absent
        ObjectPtr written;            // by the last own write; nullptr: removed
        std::uint64_t written_rv{0};  // 0: none that counts
        std::uint64_t last_written_rv{0};
        MonotonicTime shown_until{0};
    };

    std::uint64_t pick(std::uint64_t n) { return random_() % n; }
    static bool failed() { return testing::Test::HasFailure(); }
    cache::Store& store() const { return watcher_->store(); }
    MonotonicTime now() const { return loop_.now(); }

    // A process begins with nothing; the server stays.
    void start() {
        ++tally_.starts;
        names_ = std::vector<Name>(kNames);
        workers_.clear();
        resetting_ = false;
        queue::Options options;
        options.random = [this] { return static_cast<double>(random_() >> 11) * 0x1p-53; };
        options.keys_max = pick(4) == 0 ? kNames - 4 : queue::kKeysMax;
        queue_ = std::make_unique<queue::WorkQueue>(std::move(options));
        watcher_ = std::make_unique<ModelWatcher>(
            loop_,
            server_,
            random_,
            ModelWatcher::Listener{
                [this](const ModelWatcher::Commit& commit) { before_commit(commit); },
                [this](const std::vector<cache::Event>& events, bool initial) {
                    on_events(events, initial);
                }});
        server_.noticed();
    }

    void stop() {
        if (pick(2) == 0) {  // else it dies
            queue_->shut_down();
            EXPECT_FALSE(queue_->try_take(now())) << where();
            EXPECT_FALSE(queue_->add(now(), RandomServer::key(0)).has_value()) << where();
            for (const std::size_t index : workers_) {
                queue_->done(now(), RandomServer::key(index), queue::Finish::forget());
            }
            EXPECT_EQ(queue_->counts().in_flight, 0u) << where();
        }
        start();
    }

    void step() {
        const std::uint64_t what = pick(1000);
        if (what < 180) {
            write(pick(kNames));
        } else if (what < 480) {
            watcher_->progress();
        } else if (what < 490) {
            watcher_->break_off();
        } else if (what < 700) {
            take();
        } else if (what < 910) {
            finish();
        } else if (what < 960) {
            constexpr nanoseconds kSteps[] = {1us, 1ms, 20ms, 300ms, 2s, 15s, 100s};
            move_to(now() + kSteps[pick(7)]);
        } else if (what < 990) {
            const auto reason = pick(2) == 0 ? queue::Reason::external : queue::Reason::plugin;
            add(pick(kNames), {reason, queue::kPriorityLow, pick(3) * 1s});
        } else if (what < 995) {
            server_.compact();
        } else if (what < 999) {
            check_counts();
        } else if (pick(20) == 0 && server_.set_back(store_version())) {
            forget_own_writes();
            watcher_->break_off();  // the API server was started again
        }
    }

    void write(std::size_t index) {
        if (!server_.frozen()) {
            server_.write(index);
        }
    }

    void move_to(MonotonicTime when) {
        loop_.move_to(when);
        watcher_->time_moved();
    }

    // ---- events to keys

    void before_commit(const ModelWatcher::Commit& commit) {
        if (commit.reset) {
            ++tally_.resets;
            server_.noticed();
            forget_own_writes();
        } else {
            EXPECT_GE(commit.rv, store_version()) << where() << ": an older list was taken";
        }
        resetting_ = commit.reset;
    }

    void on_events(const std::vector<cache::Event>& events, bool initial) {
        for (const cache::Event& event : events) {
            ++tally_.events;
            fold(event);
            const ObjectPtr& any = event.new_object ? event.new_object : event.old_object;
            const std::size_t index = RandomServer::index_of(any->name());
            names_[index].dirty = true;
            const auto reason = event.type == cache::EventType::create   ? queue::Reason::create
                                : event.type == cache::EventType::update ? queue::Reason::update
                                                                         : queue::Reason::remove;
            add(index, {reason, initial ? queue::kPriorityLow : queue::kPriorityNormal, {}});
        }
        resetting_ = false;
    }

    // Each event follows from the one before it; versions only grow.
    void fold(const cache::Event& event) {
        const ObjectPtr& any = event.new_object ? event.new_object : event.old_object;
        Name& name = names_[RandomServer::index_of(any->name())];
        switch (event.type) {
            case cache::EventType::create:
                EXPECT_TRUE(!name.seen || resetting_) << where() << ": made twice, " << any->name();
                break;
            case cache::EventType::update:
                EXPECT_TRUE(name.seen == event.old_object || resetting_) << where();
                EXPECT_EQ(event.old_object->uid(), event.new_object->uid()) << where();
                if (!resetting_) {
                    EXPECT_GT(version_of(event.new_object), version_of(event.old_object))
                        << where() << ": went back, " << any->name();
                }
                break;
            case cache::EventType::remove:
                // Or it is a write of ours that no list showed.
                EXPECT_TRUE(name.seen || version_of(any) <= name.last_written_rv)
                    << where() << ": removed twice, " << any->name();
                break;
            case cache::EventType::resync: ADD_FAILURE() << where(); break;
        }
        name.seen = event.new_object;
    }

    void add(std::size_t index, const queue::AddOptions& options) {
        if (!queue_->add(now(), RandomServer::key(index), options)) {
            names_[index].refused = true;
            ++tally_.refused;
        }
    }

    // ---- keys to workers

    void take() {
        if (workers_.size() == kWorkers) {
            return;
        }
        const auto item = queue_->try_take(now());
        if (!item) {
            return;
        }
        const std::size_t index = RandomServer::index_of(item->key.name);
        Name& name = names_[index];
        EXPECT_FALSE(name.flying) << where() << ": in two workers, " << item->key.name;
        EXPECT_LE(item->due, now()) << where();
        ++tally_.runs;
        name.flying = true;
        name.dirty = false;
        workers_.push_back(index);
        const ObjectPtr object = store().get(item->key);
        name.observed = object ? version_of(object) : 0;
    }

    queue::Finish random_finish() {
        constexpr nanoseconds kDelays[] = {0s, 5ms, 1s, 1min};
        switch (pick(10)) {
            case 0: return queue::Finish::after(kDelays[pick(4)]);
            case 1: return queue::Finish::failed();
            case 2: return queue::Finish::failed(kDelays[pick(4)]);
            case 3: return queue::Finish::parked();
            case 4: return queue::Finish::put_back(20ms);
            default: return queue::Finish::forget();
        }
    }

    void finish() {
        if (workers_.empty()) {
            return;
        }
        const std::size_t at = pick(workers_.size());
        const std::size_t index = workers_[at];
        workers_.erase(workers_.begin() + static_cast<std::ptrdiff_t>(at));
        if (pick(6) == 0) {
            write_as_worker(index);
        }
        const auto how = random_finish();
        names_[index].flying = false;
        if (how.kind == queue::Finish::Kind::put_back) {
            names_[index].observed = kNothingObserved;  // it was not run after all
        }
        queue_->done(now(), RandomServer::key(index), how);
        refill();
    }

    // A worker's write is shown at once, though the watch has not seen it.
    void write_as_worker(std::size_t index) {
        if (server_.frozen() || !watcher_->fsm().synced()) {
            return;
        }
        ++tally_.own_writes;
        const Change change = server_.write(index);
        Name& name = names_[index];
        name.written = change.removed ? nullptr : change.object;
        name.written_rv = name.last_written_rv = change.rv;
        name.shown_until = now() + cache::kOverlayTtl;
        if (change.removed) {
            store().overlay_removed(RandomServer::key(index), change.object->uid());
            const ObjectPtr shown = store().get(RandomServer::key(index));
            EXPECT_TRUE(!shown || shown->uid() != change.object->uid()) << where();
        } else {
            store().overlay(change.object);
        }
    }

    void forget_own_writes() {
        for (Name& name : names_) {
            name.written_rv = 0;
        }
    }

    // ---- what must hold

    void look_at(std::size_t index) {
        const Name& name = names_[index];
        const ObjectKey& key = RandomServer::key(index);
        const queue::WorkQueue::Look look = queue_->look(key);
        EXPECT_EQ(look.state == "in_flight", name.flying) << where() << ": " << key.name;
        if (name.dirty && !name.refused) {
            const bool waits = look.state == "ready" || look.state == "delayed" ||
                               look.state == "backoff" || (look.state == "in_flight" && look.again);
            EXPECT_TRUE(waits) << where() << ": lost, " << key.name << " is " << look.state;
        }
        const ObjectPtr shown = store().get(key);
        if (name.seen && shown) {
            EXPECT_GE(version_of(shown), version_of(name.seen)) << where() << ": shown too old";
        }
        if (name.seen && !shown) {
            const bool removed = name.written_rv != 0 && !name.written && now() < name.shown_until;
            EXPECT_TRUE(removed || server_.frozen()) << where() << ": hidden, " << key.name;
        }
        // The watch has not come to it: the write is what is shown.
        const bool counts = name.written_rv > store_version() && now() < name.shown_until;
        if (counts && name.written) {
            EXPECT_EQ(shown, name.written) << where() << ": own write not shown, " << key.name;
        }
    }

    std::uint64_t store_version() const {
        const std::string text = store().resource_version();
        return text.empty() ? 0 : std::strtoull(text.c_str(), nullptr, 10);
    }

    void check_counts() {
        const auto counts = queue_->counts();
        EXPECT_EQ(counts.in_flight, workers_.size()) << where();
        EXPECT_LE(counts.ready + counts.delayed + counts.in_flight + counts.parked, kNames);
        std::size_t seen = 0;
        for (const Name& name : names_) {
            seen += name.seen ? 1 : 0;
        }
        EXPECT_EQ(store().size(), seen) << where();
    }

    // The trouble ends: everything is delivered and every key runs dry. Then the store is the
    // server's state, and the last run of each key has seen it.
    void settle() {
        watcher_->calm(true);
        std::uint64_t rounds = 0;
        for (; rounds < kCalmRoundsMax && !failed(); ++rounds) {
            while (!workers_.empty()) {
                finish_quietly();
            }
            take();
            if (!workers_.empty()) {
                continue;
            }
            if (!watcher_->idle()) {
                watcher_->progress();
                continue;
            }
            const MonotonicTime due = queue_->next_due();
            if (watcher_->live() && due == kNever) {
                break;
            }
            const MonotonicTime next =
                watcher_->live() ? due : std::min(due, watcher_->fsm().deadline());
            move_to(std::max(next, now()));
        }
        watcher_->calm(false);
        server_.noticed();
        ASSERT_LT(rounds, kCalmRoundsMax) << where() << ": never comes to rest";
        check_counts();
        for (std::size_t i = 0; i < kNames && !failed(); ++i) {
            const ObjectPtr& truth = server_.now().objects[i];
            const std::uint64_t rv = truth ? version_of(truth) : 0;
            EXPECT_EQ(names_[i].seen ? version_of(names_[i].seen) : 0, rv)
                << where() << ": the store differs, " << RandomServer::key(i).name;
            EXPECT_EQ(names_[i].observed, rv)
                << where() << ": lost, nobody saw the last state of " << RandomServer::key(i).name;
            EXPECT_FALSE(names_[i].dirty) << where();
        }
    }

    void finish_quietly() {
        const std::size_t index = workers_.back();
        workers_.pop_back();
        names_[index].flying = false;
        queue_->done(now(), RandomServer::key(index), queue::Finish::forget());
        refill();
    }

    void refill() {
        if (!queue_->take_overflow()) {
            return;
        }
        for (std::size_t i = 0; i < kNames; ++i) {
            if (names_[i].refused) {
                names_[i].refused = false;
                add(i, {queue::Reason::update, queue::kPriorityLow, {}});
            }
        }
    }

    std::string where() const { return "step " + std::to_string(step_); }

    static constexpr std::uint64_t kNothingObserved = ~std::uint64_t{0};

    Random random_;
    test::VirtualLoop loop_;
    RandomServer server_;
    std::unique_ptr<queue::WorkQueue> queue_;
    std::unique_ptr<ModelWatcher> watcher_;
    std::vector<Name> names_;
    std::vector<std::size_t> workers_;
    bool resetting_{false};
    std::uint64_t step_{0};
    Tally tally_;
};

std::uint64_t number_from(const char* variable, std::uint64_t otherwise) {
    const char* given = std::getenv(variable);
    return given != nullptr ? std::strtoull(given, nullptr, 10) : otherwise;
}

// Without optimisation, or instrumented, the same steps take 20 times as long and show the same.
std::uint64_t steps_by_default() {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__OPTIMIZE__)
    return 300'000;
#else
    return 10'000'000;
#endif
}

TEST(PipelineModel, LosesNoKeyRunsNoneTwiceAndNeverGoesBack) {
    const std::uint64_t seed = number_from("CAPSTAN_SEED", std::random_device{}());
    const std::uint64_t steps = number_from("CAPSTAN_MODEL_STEPS", steps_by_default());
    std::printf("seed %llu (CAPSTAN_SEED repeats it), %llu steps\n",
                static_cast<unsigned long long>(seed),
                static_cast<unsigned long long>(steps));
    World world(seed);
    world.run(steps);
    const auto& tally = world.tally();
    std::printf(
        "%llu events, %llu runs, %llu own writes, %llu keys refused, %llu resets, %llu "
        "processes\n",
        static_cast<unsigned long long>(tally.events),
        static_cast<unsigned long long>(tally.runs),
        static_cast<unsigned long long>(tally.own_writes),
        static_cast<unsigned long long>(tally.refused),
        static_cast<unsigned long long>(tally.resets),
        static_cast<unsigned long long>(tally.starts));
}

}  // namespace
}  // namespace capstan::model
