#include "runtime/queue/work_queue.hpp"

#include "runtime/queue/work_queue_state.hpp"

#include <array>

namespace capstan::queue {
namespace {

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

}  // namespace capstan::queue
