#include "plugins/custodian/backup.hpp"

#include "plugins/common/schedule.hpp"

#include <algorithm>

namespace capstan::custodian {

namespace {

using std::chrono::nanoseconds;

// a late snapshot wakes nobody, so what is overdue is looked at again
constexpr std::chrono::seconds kOverdueLook{10};
// a full this much before its time (two clocks) is the one of that time
constexpr std::chrono::minutes kClockDifference{1};
// an EtcdMember is written every 5 s at most, and an idle watch heard of as often
constexpr std::chrono::seconds kDeltaPeriodMin{10};
// keeps sums of times far from the end of int64 nanoseconds, the year 2262
constexpr std::chrono::hours kPeriodMax{20 * 365 * 24};
constexpr std::size_t kTroubleBytesMax = 512;

// When what is stored was found to be whole for the last time.
struct Stored {
    std::optional<WallTime> full;       // the newest full snapshot
    std::optional<WallTime> confirmed;  // everything up to then is stored
    std::optional<WallTime> expected;   // without a full: since when there should be one
};

struct Wanted {
    nanoseconds delta_period{kDeltaPeriodDefault};
    bool deltas{true};
    std::optional<Schedule> fulls;
    nanoseconds timeout{kSnapshotTimeoutDefault};  // longest time that one snapshot takes
};

void later(std::optional<WallTime>& newest, std::optional<WallTime> time, WallTime now) {
    if (time) {
        newest = std::max(newest.value_or(WallTime::min()), std::min(*time, now));
    }
}

Stored what_is_stored(const World& world) {
    Stored stored;
    for (const auto& [name, member] : world.members) {
        if (!member.status || !member.status->snapshots) {
            continue;
        }
        const api::Snapshots& said = *member.status->snapshots;
        if (said.last_full) {
            later(stored.full, parse_rfc3339(said.last_full->timestamp), world.now);
        }
        if (said.last_delta) {
            later(stored.confirmed, parse_rfc3339(said.last_delta->timestamp), world.now);
        }
        later(stored.confirmed, parse_rfc3339(said.observed_at.value_or("")), world.now);
    }
    const auto full = world.leases.find(world.etcd.metadata.name + "-full-snap");
    if (full != world.leases.end()) {
        later(stored.full, full->second.renewed, world.now);
        later(stored.expected, full->second.created, world.now);
    }
    const auto delta = world.leases.find(world.etcd.metadata.name + "-delta-snap");
    if (delta != world.leases.end()) {
        later(stored.confirmed, delta->second.renewed, world.now);
    }
    return stored;
}

Result<void> read_period(const char* field,
                         const std::optional<std::string>& text,
                         nanoseconds& into) {
    if (!text) {
        return ok();
    }
    const auto period = parse_duration(*text);
    if (!period) {
        return fail(Code::invalid,
                    std::string(field) + ": \"" + *text + "\" is no duration such as 5m");
    }
    into = std::clamp<nanoseconds>(*period, nanoseconds{0}, kPeriodMax);
    return ok();
}

Result<Wanted> what_is_wanted(const api::Backup& backup) {
    Wanted wanted;
    CAPSTAN_TRY(read_period(
        "spec.backup.deltaSnapshotPeriod", backup.delta_snapshot_period, wanted.delta_period));
    wanted.deltas = wanted.delta_period >= std::chrono::seconds(1);
    wanted.delta_period = std::max<nanoseconds>(wanted.delta_period, kDeltaPeriodMin);
    CAPSTAN_TRY(read_period(
        "spec.backup.etcdSnapshotTimeout", backup.etcd_snapshot_timeout, wanted.timeout));
    if (backup.full_snapshot_schedule) {
        auto schedule = Schedule::parse(*backup.full_snapshot_schedule);
        if (!schedule) {
            return fail(with_context(schedule.error(), "spec.backup.fullSnapshotSchedule"));
        }
        wanted.fulls = schedule.value();
    }
    return wanted;
}

// The newest thing of `type` that a member says it lacks.
std::string said_to_lack(const World& world, std::string_view type) {
    const api::MemberCondition* newest = nullptr;
    std::string_view who;
    for (const auto& [name, member] : world.members) {
        if (!member.status) {
            continue;
        }
        for (const api::MemberCondition& condition : member.status->conditions) {
            const bool lacks =
                condition.type == type && condition.status == api::ConditionStatus::false_;
            if (lacks && (newest == nullptr ||
                          newest->last_transition_time < condition.last_transition_time)) {
                newest = &condition;
                who = name;
            }
        }
    }
    if (newest == nullptr) {
        return "";
    }
    std::string text = "; " + std::string(who) + ": " + newest->reason + ": " + newest->message;
    if (text.size() > kTroubleBytesMax) {
        std::size_t end = kTroubleBytesMax;
        while ((static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) {
            --end;  // inside of a character
        }
        text.resize(end);
        text += "…";
    }
    return text;
}

std::string trouble(const World& world) {
    std::string text = said_to_lack(world, "SnapshotsTaken");
    return text.empty() ? said_to_lack(world, "Initialized") : text;
}

// When the next full is due after `full`; nullopt: never.
std::optional<WallTime> full_due(const Wanted& wanted, WallTime full) {
    if (!wanted.fulls) {
        return full + kFullPeriodDefault;
    }
    return wanted.fulls->next_after(full + kClockDifference);
}

// Whether it has not been True for a period already: True never becomes False at once, and a
// cluster that was woken up gets the time for a first snapshot.
bool is_lasting(const World& world, const api::Condition* before, nanoseconds period) {
    if (before == nullptr || before->status == "True" || before->reason == "NotChecked") {
        return false;
    }
    const auto since = parse_rfc3339(before->last_transition_time);
    return before->status == "False" || (since && world.now - *since >= period);
}

class Judge {
public:
    Judge(const World& world, const Wanted& wanted, const Stored& stored)
        : world_(world), wanted_(wanted), stored_(stored) {
        if (const auto full = stored.full ? stored.full : stored.expected) {
            due_ = full_due(wanted, *full);
        }
        if (due_) {
            overdue_ = *due_ + wanted.timeout;
        }
    }

    BackupVerdict verdict(const api::Condition* before) const {
        const bool deltas = wanted_.deltas;
        if (!stored_.full && !stored_.confirmed) {
            return unknown("No backup has been reported yet");
        }
        if (deltas && !stored_.confirmed) {
            return unknown(world_.now - *stored_.full > 5 * wanted_.delta_period
                               ? "Periodic delta snapshots have not started"
                               : "The first delta snapshot is awaited");
        }
        const std::optional<WallTime> stale =
            deltas ? std::optional(*stored_.confirmed + 2 * wanted_.delta_period) : std::nullopt;
        const bool has_full = stored_.full || stored_.expected;
        if (has_full && before_(stale) && before_(overdue_)) {
            return {"True",
                    "BackupSucceeded",
                    "Backups are as young as the Etcd asks for",
                    std::min(until(stale), until(overdue_))};
        }
        if (failed() && is_lasting(world_, before, wanted_.delta_period)) {
            return {"False", "BackupFailed", late() + trouble(world_), kOverdueLook};
        }
        return unknown(late());
    }

private:
    BackupVerdict unknown(std::string text) const {
        return {"Unknown", "Unknown", std::move(text) + trouble(world_), kOverdueLook};
    }
    bool before_(std::optional<WallTime> limit) const { return !limit || world_.now < *limit; }
    MonotonicTime until(std::optional<WallTime> limit) const {
        return limit ? std::max<nanoseconds>(*limit - world_.now, std::chrono::seconds(1)) : kNever;
    }
    // A full takes its time, and no delta is stored meanwhile.
    bool full_may_run() const { return due_ && world_.now >= *due_ && before_(overdue_); }
    bool failed() const {
        if (wanted_.deltas) {
            return world_.now - *stored_.confirmed > 3 * wanted_.delta_period && !full_may_run();
        }
        return overdue_ && world_.now - *overdue_ > wanted_.timeout;
    }
    std::string late() const {
        if (wanted_.deltas && !before_(*stored_.confirmed + 2 * wanted_.delta_period)) {
            return "Nothing has been stored or confirmed since " + to_rfc3339(*stored_.confirmed);
        }
        if (!due_) {
            return "No full snapshot has been reported yet";
        }
        return "A full snapshot was due at " + to_rfc3339(*due_);
    }

    const World& world_;
    const Wanted& wanted_;
    const Stored& stored_;
    std::optional<WallTime> due_, overdue_;
};

}  // namespace

std::optional<BackupVerdict> judge_backups(const World& world, const api::Condition* before) {
    const api::Backup& backup = world.etcd.spec.backup;
    if (!backup.store || backup.store->provider.value_or("").empty()) {
        return std::nullopt;
    }
    const auto wanted = what_is_wanted(backup);
    if (!wanted) {
        return BackupVerdict{"Unknown", "Unknown", wanted.error().message, kNever};
    }
    const Stored stored = what_is_stored(world);
    BackupVerdict verdict = Judge(world, wanted.value(), stored).verdict(before);
    if (world.etcd.spec.replicas == 0) {
        verdict.next_look = kNever;
    }
    return verdict;
}

}  // namespace capstan::custodian
