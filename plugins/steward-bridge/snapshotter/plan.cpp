#include "plugins/steward-bridge/snapshotter/plan.hpp"

#include "plugins/steward-bridge/snapshot/chain.hpp"

#include <algorithm>
#include <utility>

namespace capstan::steward {
namespace {

constexpr std::chrono::seconds kBackoffFirst{1};
constexpr std::chrono::hours kClockAheadMax{24};
constexpr std::chrono::hours kSleepMax{1};  // the wall clock may be set meanwhile

MonotonicTime mono_of(WallTime time, Moment now) {
    return now.mono + std::min<std::chrono::nanoseconds>(time - now.wall, kSleepMax);
}

std::chrono::nanoseconds share(std::chrono::nanoseconds of, double chance) {
    return std::chrono::nanoseconds(
        static_cast<std::int64_t>(static_cast<double>(of.count()) * chance));
}

}  // namespace

StoredChain stored_chain(const SnapshotListing& listing) {
    const StoredHistory present = std::move(histories_of(listing).back());
    StoredChain out;
    out.history = present.name;
    out.end = present.end;
    out.since = present.since.value_or(WallTime());
    for (const SnapshotRecord& record : present.listing.snapshots) {
        const bool full = record.kind == SnapshotKind::full;
        out.newest = std::max(out.newest, record.created + std::chrono::seconds(full ? 1 : 0));
    }
    const SnapshotRecord* const full = present.newest_full();
    if (full == nullptr) {
        return out;
    }
    out.full = *full;
    Chain chain = chain_from(*full, present.listing.snapshots);
    out.deltas = std::move(chain.deltas);
    out.reaches = chain.reaches;
    out.gap = out.end > out.reaches || doubt_in(present).has_value();
    return out;
}

WallTime not_before(const StoredChain& chain, WallTime now) {
    return std::max(chain.since, chain.newest <= now + kClockAheadMax ? chain.newest : WallTime());
}

std::string_view to_string(FullReason reason) noexcept {
    switch (reason) {
        case FullReason::none: return "";
        case FullReason::asked: return "Asked";
        case FullReason::scheduled: return "Scheduled";
        case FullReason::no_full: return "NoFullSnapshot";
        case FullReason::after_final: return "AfterFinal";
        case FullReason::overdue: return "Overdue";
        case FullReason::gap: return "GapInChain";
        case FullReason::rolled_back: return "RevisionBelowChain";
        case FullReason::taken_over: return "PrefixTakenOver";
        case FullReason::compacted: return "Compacted";
        case FullReason::other_tools: return "RevisionTooLargeForOtherTools";
    }
    return "";
}

bool is_set_back(const StoredChain& chain, std::int64_t head, std::string_view left) {
    return head < chain.end || (chain.end > 0 && left == chain.history);
}

FullReason why_full(const StoredChain& chain,
                    std::int64_t head,
                    WallTime now,
                    const Schedule& schedule,
                    std::string_view left) {
    if (is_set_back(chain, head, left)) {
        return FullReason::rolled_back;
    }
    if (!chain.full) {
        return FullReason::no_full;
    }
    if (chain.foreign) {
        return FullReason::taken_over;
    }
    if (chain.full->final) {
        return FullReason::after_final;
    }
    if (chain.gap) {
        return FullReason::gap;
    }
    const auto due = schedule.next_after(chain.full->created);
    return due && *due <= now ? FullReason::overdue : FullReason::none;
}

SnapshotPlan::SnapshotPlan(const SnapshotterConfig& config, Schedule schedule, Moment now)
    : config_(config), schedule_(std::move(schedule)), next_collect_(now.mono) {}

// The next time of the schedule, and by chance a little later, so that many clusters do not come
// to one store in the same second.
void SnapshotPlan::plan_full(Moment now, double chance) {
    planned_at_ = now.wall;
    next_full_ = schedule_.next_after(now.wall);
    if (next_full_) {
        *next_full_ += share(config_.jitter, chance);
    }
}

bool SnapshotPlan::chain_broken() const {
    switch (wanted_) {
        case FullReason::no_full:
        case FullReason::gap:
        case FullReason::rolled_back:
        case FullReason::taken_over:
        case FullReason::compacted: return true;
        default: return false;
    }
}

Action SnapshotPlan::next(Moment now) const {
    if (now.mono < retry_at_) {
        return {Step::wait, {}, retry_at_};
    }
    if (!looked_) {
        return {Step::look, {}, {}};
    }
    MonotonicTime until = now.mono + kSleepMax;
    const bool due = wanted_ != FullReason::none || (next_full_ && *next_full_ <= now.wall);
    if (due && full_retry_at_ <= now.mono) {
        return {Step::full, wanted_ == FullReason::none ? FullReason::scheduled : wanted_, {}};
    }
    if (due) {
        until = std::min(until, full_retry_at_);
    } else if (next_full_) {
        until = std::min(until, mono_of(*next_full_, now));
    }
    const Action delta = next_of_deltas(now, until);
    if (delta.step != Step::wait) {
        return delta;
    }
    if (config_.collect_period > std::chrono::seconds(1)) {
        if (next_collect_ <= now.mono) {
            return {Step::collect, {}, {}};
        }
        until = std::min(until, next_collect_);
    }
    return {Step::wait, {}, until};
}

Action SnapshotPlan::next_of_deltas(Moment now, MonotonicTime& until) const {
    if (!config_.deltas() || chain_broken()) {
        return {};
    }
    if (flush_now_ || next_flush_ <= now.mono) {
        return {Step::flush, {}, {}};
    }
    if (!watching_) {
        return {Step::watch, {}, {}};
    }
    const MonotonicTime stale = heard_ + 2 * config_.delta_period;
    if (stale <= now.mono) {
        return {Step::check_watch, {}, {}};
    }
    until = std::min({until, next_flush_, stale});
    return {};
}

FullReason SnapshotPlan::looked(
    const StoredChain& chain, std::int64_t head, Moment now, double chance, std::string_view left) {
    looked_ = true;
    watching_ = false;
    failures_ = 0;
    plan_full(now, chance);
    next_flush_ = now.mono + config_.delta_period;
    const FullReason reason = why_full(chain, head, now.wall, schedule_, left);
    want_full(reason);
    return reason;
}

void SnapshotPlan::want_full(FullReason reason) {
    const bool weaker = wanted_ == FullReason::none || !chain_broken();
    if (weaker && reason != FullReason::none) {
        wanted_ = reason;
    }
}

void SnapshotPlan::full_taken(Moment now, double chance) {
    wanted_ = FullReason::none;
    failures_ = 0;
    full_failures_ = 0;
    full_retry_at_ = {};
    watching_ = false;
    flush_now_ = false;
    next_flush_ = now.mono + config_.delta_period;
    plan_full(now, chance);
}

void SnapshotPlan::full_failed(Moment now, double chance) {
    watching_ = false;
    full_retry_at_ = pause_until(full_failures_++, now, chance);
}

void SnapshotPlan::watch_opened(Moment now) {
    watching_ = true;
    heard_ = now.mono;
}

void SnapshotPlan::heard(Moment now) {
    failures_ = 0;
    heard_ = now.mono;
}

void SnapshotPlan::flushed(Moment now) {
    failures_ = 0;
    nothing_flushed(now);
}

void SnapshotPlan::nothing_flushed(Moment now) {
    flush_now_ = false;
    next_flush_ = now.mono + config_.delta_period;
}

void SnapshotPlan::collected(Moment now) {
    next_collect_ = now.mono + config_.collect_period;
}

void SnapshotPlan::look_again() {
    looked_ = false;
    watching_ = false;
}

void SnapshotPlan::failed(Moment now, double chance) {
    watching_ = false;
    retry_at_ = pause_until(failures_++, now, chance);
}

void SnapshotPlan::follow_clock(Moment now, double chance) {
    if (next_full_ && now.wall + kClockStep < planned_at_) {
        plan_full(now, chance);
    }
}

void SnapshotPlan::hurry() {
    retry_at_ = {};
    full_retry_at_ = {};
}

MonotonicTime SnapshotPlan::pause_until(std::int64_t failures, Moment now, double chance) const {
    std::chrono::nanoseconds pause = kBackoffFirst;
    for (std::int64_t i = 0; i < failures && pause < config_.backoff_max; ++i) {
        pause =
            i < config_.backoff_attempts ? pause * config_.backoff_multiplier : config_.backoff_max;
    }
    pause = std::min(pause, config_.backoff_max);
    return now.mono + pause - share(pause / 2, chance);
}

}  // namespace capstan::steward
