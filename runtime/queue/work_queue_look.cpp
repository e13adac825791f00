// What can be seen of a queue: for metrics, debug pages, tests.
#include "runtime/queue/work_queue_state.hpp"

namespace capstan::queue {

WorkQueue::Running WorkQueue::running(MonotonicTime now) const {
    Running r;
    for (const Entry* e : state_->in_flight) {
        const nanoseconds ran = now - e->taken_at;
        r.total += ran;
        r.longest = std::max(r.longest, ran);
    }
    return r;
}

nanoseconds WorkQueue::oldest_ready(MonotonicTime now) const {
    MonotonicTime oldest = now;
    for (const Entry* e : state_->ready) {
        // Ranks rise, and no rank is further from its due time than the highest priority allows.
        if (rank_of(*e) >= oldest + kPriorityMax * nanoseconds(kAgingPeriod)) {
            break;
        }
        oldest = std::min(oldest, e->due);
    }
    return now - oldest;
}

namespace {

WorkQueue::Look look_at(const Entry& e) {
    const char* names[] = {"ready", e.backing_off ? "backoff" : "delayed", "in_flight", "parked"};
    WorkQueue::Look look{names[static_cast<std::size_t>(e.place)], e.failures, e.due, e.again};
    look.held = e.held;
    look.priority = e.priority;
    look.reasons = e.reasons;
    look.taken = e.taken_at;
    return look;
}

}  // namespace

WorkQueue::Look WorkQueue::look(const ObjectKey& key) const {
    const auto found = state_->entries.find(key);
    return found == state_->entries.end() ? Look{} : look_at(found->second);
}

std::vector<std::pair<ObjectKey, WorkQueue::Look>> WorkQueue::looks(std::size_t keys_max) const {
    const State& s = *state_;
    std::vector<std::pair<ObjectKey, Look>> found;
    const auto take = [&](const Entry& e, bool wanted) {
        if (wanted && found.size() < keys_max) {
            found.emplace_back(*e.key, look_at(e));
        }
    };
    for (const Entry* e : s.in_flight) {
        take(*e, true);
    }
    for (const Entry* e : s.delayed) {
        take(*e, e->backing_off);
    }
    if (s.parked > 0) {
        for (const auto& [key, e] : s.entries) {
            take(e, e.place == Place::parked);
        }
    }
    for (const Entry* e : s.ready) {
        take(*e, true);
    }
    for (const Entry* e : s.delayed) {
        take(*e, !e->backing_off);
    }
    return found;
}

}  // namespace capstan::queue
