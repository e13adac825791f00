#include "runtime/queue/work_queue.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>
#include <tuple>
#include <unordered_map>

namespace capstan::queue {
namespace {

using std::chrono::nanoseconds;

enum class Place : std::uint8_t { ready, delayed, in_flight, parked };

struct Entry {
    const ObjectKey* key{nullptr};  // the map's own
    Place place{Place::ready};
    bool backing_off{false};  // delayed by an error
    bool held{false};         // put back: nothing brings it forward
    bool again{false};        // in flight: added meanwhile
    bool again_event{false};  // ... by something that is not merely periodic
    int priority{0};
    int again_priority{0};
    std::uint16_t reasons{0};
    std::uint16_t again_reasons{0};
    std::uint32_t failures{0};
    MonotonicTime due{0};          // ready and delayed
    MonotonicTime again_due{0};    // with `again`
    MonotonicTime event_floor{0};  // backing off: no event runs it before this
    MonotonicTime taken_at{0};
    std::uint64_t order{0};  // of becoming ready
};

// Aging without a timer: a key that is ready since `due` ranks like one of level 0 that came
// priority * 30 s earlier.
nanoseconds rank_of(const Entry& e) {
    return e.due - e.priority * nanoseconds(kAgingPeriod);
}

struct ReadyLess {
    bool operator()(const Entry* a, const Entry* b) const {
        return std::tuple(rank_of(*a), a->order) < std::tuple(rank_of(*b), b->order);
    }
};
struct DueLess {
    bool operator()(const Entry* a, const Entry* b) const {
        return std::tuple(a->due, a->order) < std::tuple(b->due, b->order);
    }
};

MonotonicTime plus(MonotonicTime now, nanoseconds delay) {
    return now + std::clamp(delay, nanoseconds{0}, nanoseconds(kDelayMax));
}

}  // namespace

std::string describe_reasons(std::uint16_t bits) {
    static constexpr std::array<std::string_view, 9> kNames = {
        "create",
        "update",
        "remove",
        "initial",
        "external",
        "plugin",
        "requeue",
        "backoff",
        "forced",
    };
    std::string text;
    for (std::size_t i = 0; i < kNames.size(); ++i) {
        if ((bits & (1u << i)) == 0) {
            continue;
        }
        text += text.empty() ? "" : ",";
        text += kNames[i];
    }
    return text;
}

struct WorkQueue::State {
    explicit State(Options o) : options(std::move(o)) {}

    const Options options;
    std::unordered_map<ObjectKey, Entry> entries;
    std::set<Entry*, ReadyLess> ready;
    std::set<Entry*, DueLess> delayed;
    std::set<Entry*, DueLess> in_flight;  // `due` is not changed while in flight
    std::size_t parked{0};
    std::uint64_t order{0};
    bool shut{false};
    bool overflow{false};

    void note_depth() {
        if (options.observer != nullptr) {
            options.observer->depth(ready.size());
        }
    }
    void note_added() {
        if (options.observer != nullptr) {
            options.observer->added();
        }
    }
    void leave(Entry& e) {
        switch (e.place) {
            case Place::ready: ready.erase(&e); break;
            case Place::delayed: delayed.erase(&e); break;
            case Place::in_flight: in_flight.erase(&e); break;
            case Place::parked: --parked; break;
        }
    }
    // Into ready or delayed at `due`. Requires: the entry has left its place.
    void schedule(Entry& e, MonotonicTime now, MonotonicTime due) {
        e.due = due;
        e.order = ++order;
        if (due <= now) {
            e.place = Place::ready;
            e.backing_off = e.held = false;
            e.event_floor = MonotonicTime{0};
            ready.insert(&e);
            note_depth();
            return;
        }
        e.place = Place::delayed;
        delayed.insert(&e);
        if (options.observer != nullptr) {
            options.observer->retried();
        }
    }
    void promote(MonotonicTime now) {
        bool any = false;
        while (!delayed.empty() && (*delayed.begin())->due <= now) {
            Entry* e = *delayed.begin();
            delayed.erase(delayed.begin());
            e->place = Place::ready;
            e->backing_off = e->held = false;
            e->event_floor = MonotonicTime{0};
            e->order = ++order;
            ready.insert(e);
            any = true;
        }
        if (any) {
            note_depth();
        }
    }
    nanoseconds backoff(std::uint32_t failures) const {
        const double first = std::chrono::duration<double, std::nano>(kBackoffFirst).count();
        const double most = std::chrono::duration<double, std::nano>(kBackoffMax).count();
        const double plain = std::min(most, first * std::pow(2.0, std::min(failures - 1, 30u)));
        const double jitter = 1.0 + kBackoffJitter * (2.0 * options.random() - 1.0);
        return nanoseconds(static_cast<std::int64_t>(std::min(most, plain * jitter)));
    }
    void add_waiting(
        Entry& e, MonotonicTime now, const AddOptions& o, int priority, MonotonicTime due);
    void fail(Entry& e, MonotonicTime now, nanoseconds floor);
};

// Merges an add into an entry that is ready, delayed or parked.
void WorkQueue::State::add_waiting(
    Entry& e, MonotonicTime now, const AddOptions& o, int priority, MonotonicTime due) {
    if (e.place == Place::parked && o.reason == Reason::external) {
        return;
    }
    e.reasons = static_cast<std::uint16_t>(e.reasons | static_cast<std::uint16_t>(o.reason));
    if (e.place == Place::parked) {
        leave(e);
        e.priority = priority;
        note_added();
        schedule(e, now, due);
        return;
    }
    if (e.place == Place::delayed && e.backing_off) {
        due = o.reason == Reason::external ? e.due : std::max(due, e.event_floor);
    }
    const int merged = std::max(e.priority, priority);
    const bool earlier = !e.held && due < e.due;
    if (e.place == Place::ready) {
        if (merged > e.priority) {
            ready.erase(&e);
            e.priority = merged;
            ready.insert(&e);
        }
        return;
    }
    e.priority = merged;  // not part of the order of `delayed`
    if (earlier) {
        leave(e);
        note_added();
        schedule(e, now, due);
    }
}

void WorkQueue::State::fail(Entry& e, MonotonicTime now, nanoseconds floor) {
    if (e.failures < UINT32_MAX) {
        ++e.failures;
    }
    floor = std::clamp(floor, nanoseconds{0}, nanoseconds(kDelayMax));
    const nanoseconds delay = std::max(backoff(e.failures), floor);
    MonotonicTime event_floor = now + floor;
    if (e.failures > kFreeFailures) {
        event_floor = std::max(
            event_floor,
            now + std::clamp(delay / 16, nanoseconds(kEventFloorMin), nanoseconds(kEventFloorMax)));
    }
    MonotonicTime due = now + delay;
    if (e.again && e.again_event) {
        due = std::min(due, std::max(e.again_due, event_floor));
    }
    e.backing_off = true;
    e.event_floor = event_floor;
    schedule(e, now, due);
}

WorkQueue::WorkQueue(Options options) : state_(std::make_unique<State>(std::move(options))) {
    CAPSTAN_CHECK(state_->options.random != nullptr, "a queue needs a source of jitter");
}
WorkQueue::~WorkQueue() = default;

Result<void> WorkQueue::add(MonotonicTime now, const ObjectKey& key, const AddOptions& o) {
    State& s = *state_;
    if (s.shut) {
        return fail(Code::cancelled, "the queue is shut down");
    }
    const int priority = std::clamp(o.priority, -kPriorityMax, kPriorityMax);
    const MonotonicTime due = plus(now, o.delay);
    auto found = s.entries.find(key);
    if (found == s.entries.end()) {
        if (s.entries.size() >= s.options.keys_max) {
            s.overflow = true;
            return fail(Code::overloaded,
                        "queue is full (" + std::to_string(s.options.keys_max) + " keys)");
        }
        found = s.entries.emplace(key, Entry{}).first;
        Entry& e = found->second;
        e.key = &found->first;
        e.priority = priority;
        e.reasons = static_cast<std::uint16_t>(o.reason);
        s.note_added();
        s.schedule(e, now, due);
        return ok();
    }
    Entry& e = found->second;
    if (e.place != Place::in_flight) {
        s.add_waiting(e, now, o, priority, due);
        return ok();
    }
    const bool event = o.reason != Reason::external;
    e.again_priority = e.again ? std::max(e.again_priority, priority) : priority;
    e.again_due = e.again ? std::min(e.again_due, due) : due;
    e.again_reasons =
        static_cast<std::uint16_t>(e.again_reasons | static_cast<std::uint16_t>(o.reason));
    e.again_event = e.again_event || event;
    if (!e.again) {
        e.again = true;
        s.note_added();
    }
    return ok();
}

std::optional<Item> WorkQueue::try_take(MonotonicTime now) {
    State& s = *state_;
    if (s.shut) {
        return std::nullopt;
    }
    s.promote(now);
    if (s.ready.empty()) {
        return std::nullopt;
    }
    Entry& e = **s.ready.begin();
    s.ready.erase(s.ready.begin());
    e.place = Place::in_flight;
    e.taken_at = now;
    s.in_flight.insert(&e);
    Item item{*e.key, e.failures, e.reasons, e.priority, e.due};
    if (s.options.observer != nullptr) {
        s.options.observer->taken(std::max(now - e.due, nanoseconds{0}));
    }
    s.note_depth();
    return item;
}

MonotonicTime WorkQueue::next_due() const noexcept {
    const State& s = *state_;
    if (s.shut) {
        return kNever;
    }
    if (!s.ready.empty()) {
        return MonotonicTime{0};
    }
    return s.delayed.empty() ? kNever : (*s.delayed.begin())->due;
}

void WorkQueue::done(MonotonicTime now, const ObjectKey& key, const Finish& finish) {
    State& s = *state_;
    const auto found = s.entries.find(key);
    CAPSTAN_CHECK(found != s.entries.end() && found->second.place == Place::in_flight,
                  key.to_string() + " is not in flight");
    Entry& e = found->second;
    s.leave(e);
    if (s.options.observer != nullptr && finish.kind != Finish::Kind::put_back) {
        s.options.observer->finished(now - e.taken_at);
    }
    const std::uint16_t old_reasons = e.reasons;
    e.reasons = e.again_reasons;
    bool again = e.again;
    MonotonicTime due = again ? e.again_due : kNever;
    const auto also = [&e](Reason r) {
        e.reasons = static_cast<std::uint16_t>(e.reasons | static_cast<std::uint16_t>(r));
    };
    if (again && finish.kind != Finish::Kind::put_back) {
        e.priority = e.again_priority;
    }
    bool parked = false;
    switch (finish.kind) {
        case Finish::Kind::forget: e.failures = 0; break;
        case Finish::Kind::after:
            e.failures = 0;
            also(Reason::requeue);
            due = std::min(due, plus(now, finish.delay));
            again = true;
            break;
        case Finish::Kind::parked:
            e.failures = 0;
            parked = !again || !e.again_event;
            break;
        case Finish::Kind::failed:
            also(Reason::backoff);
            s.fail(e, now, finish.delay);
            break;
        case Finish::Kind::put_back:
            e.reasons = static_cast<std::uint16_t>(e.reasons | old_reasons);
            e.priority = e.again ? std::max(e.priority, e.again_priority) : e.priority;
            e.held = true;
            s.schedule(e, now, plus(now, std::max(finish.delay, nanoseconds{1})));
            break;
    }
    e.again = e.again_event = false;
    e.again_reasons = 0;
    if (finish.kind == Finish::Kind::failed || finish.kind == Finish::Kind::put_back) {
        return;
    }
    if (parked) {
        e.place = Place::parked;
        e.reasons = 0;
        ++s.parked;
    } else if (again) {
        s.schedule(e, now, due);
    } else {
        s.entries.erase(found);
    }
}

void WorkQueue::shut_down() noexcept {
    state_->shut = true;
}

bool WorkQueue::take_overflow() noexcept {
    State& s = *state_;
    // Parked keys may stay for ever; those that found no room must not wait for them.
    const std::size_t room = s.options.keys_max - s.parked;
    const std::size_t used = s.entries.size() - s.parked;
    if (!s.overflow || room == 0 || used > room / 2) {
        return false;
    }
    s.overflow = false;
    return true;
}

WorkQueue::Counts WorkQueue::counts() const noexcept {
    const State& s = *state_;
    return {s.ready.size(), s.delayed.size(), s.in_flight.size(), s.parked};
}

WorkQueue::Running WorkQueue::running(MonotonicTime now) const {
    Running r;
    for (const Entry* e : state_->in_flight) {
        const nanoseconds ran = now - e->taken_at;
        r.total += ran;
        r.longest = std::max(r.longest, ran);
    }
    return r;
}

WorkQueue::Look WorkQueue::look(const ObjectKey& key) const {
    const auto found = state_->entries.find(key);
    if (found == state_->entries.end()) {
        return {};
    }
    const Entry& e = found->second;
    const char* names[] = {"ready", e.backing_off ? "backoff" : "delayed", "in_flight", "parked"};
    return {names[static_cast<std::size_t>(e.place)], e.failures, e.due, e.again};
}

}  // namespace capstan::queue
