// The watch and the delta snapshots of the engine.
#include "plugins/steward-bridge/snapshotter/engine.hpp"

#include <algorithm>
#include <utility>

namespace capstan::steward {

std::optional<std::int64_t> SnapshotEngine::lease_ttl(std::int64_t id) {
    if (const auto known = leases_.find(id); known != leases_.end()) {
        return known->second;
    }
    // Each question may take as long as a call is allowed to: an etcd that does not answer must not
    // hold up everything else.
    if (leases_gone_.contains(id) || parts_.now() < ask_leases_from_ || !parts_.guard()) {
        return std::nullopt;
    }
    const auto ttl = parts_.etcd.lease_ttl(id);
    if (!ttl) {
        ask_leases_from_ = parts_.now() + config_.connection_timeout;
        return std::nullopt;  // asked again with a later change
    }
    if (!ttl.value()) {
        leases_gone_.insert(id);
        return std::nullopt;
    }
    if (leases_.size() >= kLeasesKnownMax) {
        leases_.clear();
    }
    return leases_[id] = *ttl.value();
}

Result<void> SnapshotEngine::open_watch() {
    auto opened = parts_.etcd.watch(buffer_->resume_revision());
    if (!opened) {
        return lost_watch(opened.error());
    }
    watch_ = std::move(opened).value();
    heard_ = false;
    plan_.watch_opened(moment());
    return ok();
}

// The watch is over; where it goes on, and when.
Result<void> SnapshotEngine::lost_watch(const Error& error) {
    watch_.reset();
    watch_problem_ = error.message;
    if (error.code == Code::expired) {
        plan_.watch_closed();
        plan_.want_full(FullReason::compacted);
        parts_.log(LogLevel::warn, "etcd has compacted what no snapshot holds yet", {});
        return ok();
    }
    plan_.failed(moment(), parts_.pace.chance());
    if (plan_.failures() < kWatchFailuresQuiet) {
        CAPSTAN_TRY(parts_.guard());
        parts_.metrics.failed(error.code);
        parts_.log(LogLevel::info, "the watch of etcd broke off", {{"error", error.message}});
        return ok();
    }
    return failed("watching etcd", error);
}

Result<void> SnapshotEngine::read_watch(MonotonicTime until) {
    WatchMessage message;
    const auto got = watch_->next(message, until);
    if (!got) {
        return lost_watch(got.error());
    }
    return got.value() ? take_in(message) : Result<void>(ok());
}

Result<void> SnapshotEngine::take_in(const WatchMessage& message) {
    plan_.heard(moment());
    heard_ = true;
    const bool was_empty = buffer_->empty();
    std::size_t at = 0;
    do {
        const auto added = buffer_->add(message, at, parts_.pace.wall_now());
        if (!added) {
            // Not what etcd sends of one history: only a full is sure to hold everything.
            watch_.reset();
            plan_.watch_closed();
            plan_.want_full(FullReason::gap);
            CAPSTAN_TRY(start_buffer(facts_.reached + 1));
            return failed("watching etcd", added.error());
        }
        if (at < message.changes.size()) {
            CAPSTAN_TRY(seal());
            CAPSTAN_TRY(store_sealed());
            if (!watch_) {
                return ok();  // failed, or stored by somebody else: what is left comes again
            }
        }
    } while (at < message.changes.size());
    if (was_empty && !buffer_->empty()) {
        parts_.metrics.required(SnapshotKind::full, true);
        parts_.metrics.required(SnapshotKind::delta, true);
    }
    if (buffer_->full() && buffer_->settled()) {
        plan_.flush_soon();
    }
    return ok();
}

Result<void> SnapshotEngine::check_watch() {
    auto head = parts_.etcd.head(false);
    if (head && head.value().revision < buffer_->reached()) {
        head = parts_.etcd.head(true);  // the member itself may be behind for a moment
    }
    if (!head) {
        plan_.failed(moment(), parts_.pace.chance());
        watch_.reset();
        return failed("asking etcd for its revision", head.error());
    }
    if (head.value().revision < buffer_->reached()) {
        // It was set back: the watch would wait for what was once, and that is nowhere else now.
        close();
        plan_.look_again();
        return ok();
    }
    if (head.value().revision <= buffer_->reached()) {
        plan_.heard(moment());
        heard_ = true;
        return ok();
    }
    parts_.log(LogLevel::warn,
               "the watch of etcd fell silent and is opened again",
               {{"revision", head.value().revision}, {"reached", buffer_->reached()}});
    watch_.reset();
    plan_.watch_closed();
    return ok();
}

// Reads until everything etcd had a moment ago is here and no revision is cut.
Result<void> SnapshotEngine::catch_up() {
    std::int64_t goal = 0;
    if (!delta_asks_.empty()) {
        const auto head = parts_.etcd.head(true);
        if (!head) {
            return head.error();
        }
        goal = head.value().revision;
    }
    const MonotonicTime deadline = parts_.now() + config_.connection_timeout;
    while (buffer_->reached() < goal || !buffer_->settled()) {
        CAPSTAN_TRY(parts_.guard());
        if (parts_.now() >= deadline) {
            return fail(Code::timeout,
                        "the watch does not reach revision " + std::to_string(goal) + " in time");
        }
        if (!watch_) {
            CAPSTAN_TRY(open_watch());
        }
        if (!watch_) {
            return fail(Code::unavailable, watch_problem_);
        }
        CAPSTAN_TRY(read_watch(std::min(deadline, parts_.now() + kWatchSlice)));
        if (!watch_) {
            return fail(Code::unavailable, watch_problem_);
        }
    }
    heard_ = heard_ || goal > 0;
    return ok();
}

Result<void> SnapshotEngine::flush() {
    const std::size_t deltas = facts_.deltas.size();
    if (!sealed_ && (!delta_asks_.empty() || !buffer_->settled())) {
        const auto caught_up = catch_up();
        if (!caught_up) {
            answer(delta_asks_, fail(caught_up.error()));
            plan_.failed(moment(), parts_.pace.chance());
            watch_.reset();
            return failed("delta snapshot", caught_up.error());
        }
    }
    if (!sealed_ && buffer_->empty()) {
        facts_.reached = std::max(facts_.reached, buffer_->reached());
        // Without a watch that works nobody knows whether there is nothing.
        if (watch_ && heard_) {
            plan_.flushed(moment());
            confirm();
        } else {
            plan_.nothing_flushed(moment());
        }
        // Catching up may have stored some already.
        answer(delta_asks_,
               facts_.deltas.size() > deltas ? std::optional(facts_.deltas.back()) : std::nullopt);
        return ok();
    }
    const bool left_over = sealed_.has_value();
    CAPSTAN_TRY(seal());
    CAPSTAN_TRY(store_sealed());
    if (sealed_ || !plan_.has_looked()) {
        return ok();  // failed, or adopted
    }
    if (left_over && !delta_asks_.empty()) {
        plan_.flush_soon();  // they ask for what came later, too
    } else {
        answer(delta_asks_, std::optional(facts_.deltas.back()));
    }
    return ok();
}

void SnapshotEngine::close() {
    watch_.reset();
    if (!parts_.guard() || !plan_.has_looked() || plan_.chain_broken()) {
        return;
    }
    bool stored = true;
    while (stored && (sealed_ || (!buffer_->empty() && buffer_->settled()))) {
        stored = seal() && store_sealed() && !sealed_ && plan_.has_looked();
    }
}

// Requires: sealed already, or something to seal.
Result<void> SnapshotEngine::seal() {
    if (sealed_) {
        return ok();
    }
    CAPSTAN_TRY(SealedDelta sealed, buffer_->seal(created_now()));
    sealed_ = std::move(sealed);
    return start_buffer(sealed_->record.last_revision + 1);
}

Result<void> SnapshotEngine::store_sealed() {
    const MonotonicTime begun = parts_.now();
    const Claiming claiming{config_.delta_period, begun};
    const auto stored =
        parts_.vault.store_delta(*sealed_, claiming, guard_until(begun + config_.snapshot_timeout));
    parts_.metrics.lasted(SnapshotKind::delta, stored.has_value(), parts_.now() - begun);
    if (!stored) {
        // It stays in memory for the next try; etcd keeps what comes after it.
        watch_.reset();
        answer(delta_asks_, fail(stored.error()));
        plan_.failed(moment(), parts_.pace.chance());
        return failed("delta snapshot", stored.error());
    }
    if (stored.value().adopted) {
        parts_.log(LogLevel::info,
                   "another steward has stored these changes already",
                   {{"start", sealed_->record.start_revision}});
        sealed_.reset();
        watch_.reset();
        plan_.look_again();
        return ok();
    }
    delta_stored(stored.value());
    return ok();
}

void SnapshotEngine::delta_stored(const DeltaStored& stored) {
    if (sealed_->beyond_other_tools) {
        plan_.want_full(FullReason::other_tools);
    }
    parts_.log(LogLevel::info,
               "delta snapshot stored",
               {{"name", stored.record.name},
                {"events", static_cast<std::int64_t>(sealed_->events)},
                {"bytes", static_cast<std::int64_t>(stored.record.bytes)}});
    facts_.deltas.push_back(stored.record);
    facts_.last_delta_bytes = sealed_->payload_bytes;
    facts_.delta_bytes += sealed_->payload_bytes;
    facts_.reached = stored.record.last_revision;
    not_before_ = std::max(not_before_, stored.record.created);
    sealed_.reset();
    stored_since_collect_ = true;
    plan_.flushed(moment());
    parts_.metrics.taken(stored.record, stored.record.bytes);
    parts_.metrics.required(SnapshotKind::delta, !buffer_->empty());
    if (!delta_asks_.empty()) {
        plan_.flush_soon();  // they are answered when everything is stored
    }
    confirm();
}

}  // namespace capstan::steward
