// Inside of WorkQueue. Not for other folders.
#pragma once

#include "runtime/queue/work_queue.hpp"

#include <algorithm>
#include <cmath>
#include <set>
#include <tuple>
#include <unordered_map>

namespace capstan::queue {

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
inline nanoseconds rank_of(const Entry& e) {
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

}  // namespace capstan::queue
