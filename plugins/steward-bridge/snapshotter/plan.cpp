#include "plugins/steward-bridge/snapshotter/plan.hpp"

#include "plugins/steward-bridge/snapshot/chain.hpp"

#include <algorithm>
#include <utility>

namespace capstan::steward {
namespace {

constexpr std::chrono::seconds kBackoffFirst{1};
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
    StoredChain out;
    for (const SnapshotRecord& record : listing.snapshots) {
        if (record.kind == SnapshotKind::full &&
            (!out.full || record.created > out.full->created ||
             (record.created == out.full->created &&
              record.last_revision >= out.full->last_revision))) {
            out.full = record;
        }
    }
    if (!out.full) {
        return out;
    }
    std::vector<SnapshotRecord> present;
    for (const SnapshotRecord& record : listing.snapshots) {
        if (record.kind == SnapshotKind::delta &&
            record.created + kClockSlack >= out.full->created) {
            present.push_back(record);
        }
    }
    Chain chain = chain_from(*out.full, present);
    out.deltas = std::move(chain.deltas);
    out.reaches = chain.reaches;
    out.gap = chain.gap.has_value() ||
              std::any_of(listing.skipped.begin(),
                          listing.skipped.end(),
                          [&](const SkippedKey& key) { return key.last_revision > out.reaches; });
    return out;
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
        case FullReason::compacted: return "Compacted";
        case FullReason::other_tools: return "RevisionTooLargeForOtherTools";
    }
    return "";
}

FullReason why_full(const StoredChain& chain,
                    std::int64_t head,
                    WallTime now,
                    const Schedule& schedule) {
    if (!chain.full) {
        return FullReason::no_full;
    }
    if (chain.full->final) {
        return FullReason::after_final;
    }
    if (head < chain.reaches) {
        return FullReason::rolled_back;
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

FullReason SnapshotPlan::looked(const StoredChain& chain,
                                std::int64_t head,
                                Moment now,
                                double chance) {
    looked_ = true;
    watching_ = false;
    failures_ = 0;
    plan_full(now, chance);
    next_flush_ = now.mono + config_.delta_period;
    const FullReason reason = why_full(chain, head, now.wall, schedule_);
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
