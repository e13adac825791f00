#include "plugins/steward-bridge/snapshot/retention.hpp"

#include "plugins/steward-bridge/snapshot/histories.hpp"

#include <algorithm>
#include <optional>

namespace capstan::steward {
namespace {

using std::chrono::days;
using std::chrono::floor;
using std::chrono::hours;
using std::chrono::nanoseconds;
using std::chrono::seconds;

constexpr hours kDay{24}, kWeek{168};
constexpr hours kDailyUntil{192};   // eight days back from the end of today
constexpr hours kWeeklyUntil{840};  // five weeks

struct Rule {
    bool keep{true};
    std::string_view name;
    std::string reason;
};

// What a policy says of each full but the newest, by its place among the fulls.
using FullRules = std::vector<Rule>;
using Fulls = std::vector<const SnapshotRecord*>;

FullRules limit_based(const Fulls& fulls, std::int64_t max_backups) {
    FullRules rules;
    const auto count = static_cast<std::int64_t>(fulls.size());
    for (std::int64_t i = 0; i < count; ++i) {
        const std::string place = "it is number " + std::to_string(count - i) +
                                  " from the newest full, and " + std::to_string(max_backups) +
                                  " are kept";
        rules.push_back({i >= count - max_backups, "limit", place});
    }
    return rules;
}

// Whole periods between two times and the end of the day, rounded toward zero before they are
// compared: a full is kept when it lies in another period than its newer neighbour.
std::int64_t periods_between(WallTime end, WallTime older, WallTime newer, hours period) {
    return (end - older) / period - (end - newer) / period;
}

struct Range {
    std::string_view name;
    hours period;
};

// The sum of existing tools, which compares hours, days and weeks each with the period.
bool in_another_period(WallTime end, WallTime older, WallTime newer, hours period) {
    const std::int64_t in_hours = periods_between(end, older, newer, hours(1));
    const std::int64_t in_days = periods_between(end, older, newer, kDay);
    const std::int64_t in_weeks = periods_between(end, older, newer, kWeek);
    const std::int64_t length = period.count();
    return in_hours / length != 0 || in_days * kDay.count() / length != 0 ||
           in_weeks * kWeek.count() / length != 0;
}

FullRules exponential(const Fulls& fulls, WallTime now) {
    FullRules rules(fulls.size());
    WallTime end = floor<days>(now) + days(1) - seconds(1);
    bool in_weeks = false;
    const auto hour_of_day = [](WallTime time) { return floor<hours>(time - floor<days>(time)); };
    for (std::size_t i = fulls.size(); i-- > 1;) {
        const WallTime newer = fulls[i]->created, older = fulls[i - 1]->created;
        Rule& rule = rules[i - 1];
        const nanoseconds age = end - older;
        if (age >= kWeeklyUntil) {
            rule = {false, "too-old", "it is older than five weeks"};
            continue;
        }
        Range range{"hourly", hours(1)};
        if (age >= kDailyUntil) {
            end -= in_weeks ? hours(0) : kDay;
            in_weeks = true;
            range = {"weekly", kWeek};
        } else if (age >= kDay) {
            range = {"daily", kDay};
        } else if (hour_of_day(older) == hour_of_day(now)) {
            rule = {true, "this-hour", "it was taken in the present hour of the day"};
            continue;
        }
        const std::string period(range.name == "hourly"  ? "hour"
                                 : range.name == "daily" ? "day"
                                                         : "week");
        rule.name = range.name;
        rule.keep = in_another_period(end, older, newer, range.period);
        rule.reason = rule.keep ? "it is the newest full of its " + period
                                : "a newer full covers the same " + period;
    }
    return rules;
}

// Objects of one set: a full and the deltas up to the next one of its history; the first set of
// each history are deltas without a full.
struct Set {
    std::optional<std::size_t> full;  // index into the snapshots
    std::vector<std::size_t> deltas;
    bool present{false};    // of the present history
    bool abandoned{false};  // an earlier history ended with it
};

std::vector<Set> split(const SnapshotListing& listing) {
    const std::vector<SnapshotRecord>& snapshots = listing.snapshots;
    std::vector<Set> sets;
    for (std::size_t history = 0; history <= listing.marks.size(); ++history) {
        const bool present = history == listing.marks.size();
        sets.push_back({{}, {}, present, false});
        for (std::size_t i = 0; i < snapshots.size(); ++i) {
            if (history_index(listing, snapshots[i].created) != history) {
                continue;
            }
            if (snapshots[i].kind == SnapshotKind::full) {
                sets.push_back({i, {}, present, false});
            } else {
                sets.back().deltas.push_back(i);
            }
        }
        sets.back().abandoned = !present;
    }
    return sets;
}

Rule protect(Rule rule, const SnapshotRecord& record, WallTime now) {
    if (rule.keep || record.deletable(now)) {
        return rule;
    }
    return {true, "immutable", "it is locked until " + to_rfc3339(*record.immutable_until)};
}

Rule delta_rule(const SnapshotRecord& record, WallTime now, nanoseconds retention, bool headless) {
    const bool old = record.created < now - retention;
    if (!old) {
        return {true,
                "delta-retention",
                "it is younger than " + std::to_string(floor<seconds>(retention).count()) + " s"};
    }
    return protect(
        {false, "superseded", headless ? "no full is left to build on" : "a newer full covers it"},
        record,
        now);
}

Rule part_rule(const SnapshotRecord& part, const RetentionOptions& options, WallTime now) {
    // A full starts at 0, so only its end tells whether its upload is over.
    const std::int64_t revision =
        part.kind == SnapshotKind::full ? part.last_revision : part.start_revision;
    if (options.stored_revision == 0 || revision > options.stored_revision) {
        return {true, "upload", "the upload it belongs to may be running"};
    }
    return protect({false, "upload", "the upload it belongs to is over"}, part, now);
}

class Decision {
public:
    Decision(const SnapshotListing& listing, WallTime now, const RetentionOptions& options)
        : listing_(listing), now_(now), options_(options), sets_(split(listing)) {}

    std::vector<RetentionVerdict> take() {
        for (const SnapshotRecord& record : listing_.snapshots) {
            verdicts_.push_back({.record = &record});
        }
        const FullRules rules = full_rules();
        const std::size_t newest = newest_set(), made_last = newest_by_time();
        std::size_t fulls = 0;
        for (std::size_t set = 0; set < sets_.size(); ++set) {
            const Rule rule = sets_[set].full ? rules[fulls++] : Rule{};
            // Without any full all are kept; so is what the present history has without one.
            const bool headless = !sets_[set].full && sets_[set].present;
            if (set == newest || set == made_last || (headless && !sets_[newest].present) ||
                fulls_ == 0) {
                keep_set(set, newest);
            } else {
                judge_set(set, rule);
            }
        }
        for (const SnapshotRecord& part : listing_.parts) {
            verdicts_.push_back({.record = &part});
            say(verdicts_.size() - 1, part_rule(part, options_, now_), 0);
        }
        return std::move(verdicts_);
    }

private:
    const SnapshotRecord& record(std::size_t i) const { return listing_.snapshots[i]; }

    FullRules full_rules() {
        Fulls fulls;
        for (const Set& set : sets_) {
            if (set.full) {
                fulls.push_back(&record(*set.full));
            }
        }
        fulls_ = fulls.size();
        return options_.policy == RetentionPolicy::limit_based
                   ? limit_based(fulls, std::max<std::int64_t>(options_.max_backups, 1))
                   : exponential(fulls, now_);
    }

    // The last one with a full; 0: there is none.
    std::size_t newest_set() const {
        std::size_t newest = 0;
        for (std::size_t set = 0; set < sets_.size(); ++set) {
            newest = sets_[set].full ? set : newest;
        }
        return newest;
    }

    // 0: there is no full.
    std::size_t newest_by_time() const {
        std::size_t newest = 0;
        for (std::size_t set = 1; set < sets_.size(); ++set) {
            if (sets_[set].full && (newest == 0 || record(*sets_[set].full).created >=
                                                       record(*sets_[newest].full).created)) {
                newest = set;
            }
        }
        return newest;
    }

    void say(std::size_t i, const Rule& rule, std::size_t set) {
        verdicts_[i].keep = rule.keep;
        verdicts_[i].rule = rule.name;
        verdicts_[i].reason = rule.reason;
        verdicts_[i].set = set;
    }

    void keep_set(std::size_t set, std::size_t newest) {
        const Rule full = set == newest ? Rule{true, "newest", "it is the newest full"}
                                        : Rule{true, "newest", "it is the full taken last"};
        if (sets_[set].full) {
            say(*sets_[set].full, full, set);
        }
        for (const std::size_t delta : sets_[set].deltas) {
            say(delta, {true, "newest", "it belongs to the newest full, or there is none"}, set);
        }
    }

    // What a rollback gave up can be had for as long as anything is kept at all.
    Rule last_of_history(Rule full) const {
        const bool by_age = options_.policy == RetentionPolicy::exponential;
        if (full.keep || (by_age && full.name != "too-old")) {
            return {true, "abandoned", "the history before a rollback ended with it"};
        }
        return full;
    }

    void judge_set(std::size_t set, Rule full) {
        const Set& own = sets_[set];
        if (own.full && own.abandoned) {
            full = last_of_history(std::move(full));
        }
        bool needed = false;
        for (const std::size_t delta : own.deltas) {
            const Rule rule =
                full.keep && own.full && own.abandoned
                    ? full
                    : delta_rule(record(delta), now_, options_.delta_retention, !own.full);
            needed = needed || rule.name == "delta-retention";
            say(delta, rule, set);
        }
        if (!own.full) {
            return;
        }
        if (!full.keep && needed) {
            full = {true, "delta-retention", "deltas that are kept build on it"};
        }
        say(*own.full, protect(std::move(full), record(*own.full), now_), set);
    }

    const SnapshotListing& listing_;
    const WallTime now_;
    const RetentionOptions& options_;
    const std::vector<Set> sets_;
    std::size_t fulls_{0};
    std::vector<RetentionVerdict> verdicts_;
};

}  // namespace

std::vector<RetentionVerdict> decide_retention(const SnapshotListing& listing,
                                               WallTime now,
                                               const RetentionOptions& options) {
    return Decision(listing, now, options).take();
}

std::vector<Fence> fences_to_delete(const SnapshotListing& listing) {
    const StoredHistory present = std::move(histories_of(listing).back());
    const SnapshotRecord* const full = present.newest_full();
    std::vector<Fence> superfluous;
    for (const Fence& fence : listing.fences) {
        if (full != nullptr && fence.start_revision <= full->last_revision) {
            superfluous.push_back(fence);
        }
    }
    return superfluous;
}

std::vector<HistoryMark> marks_to_delete(const SnapshotListing& listing) {
    std::optional<WallTime> oldest;
    const auto look = [&](WallTime created) {
        oldest = oldest ? std::min(*oldest, created) : created;
    };
    for (const auto* records : {&listing.snapshots, &listing.parts}) {
        for (const SnapshotRecord& record : *records) {
            look(record.created);
        }
    }
    for (const SkippedKey& skipped : listing.skipped) {
        if (skipped.last_revision > 0) {
            look(skipped.created);
        }
    }
    std::vector<HistoryMark> superfluous;
    for (std::size_t i = 0; oldest && i + 1 < listing.marks.size(); ++i) {
        if (*oldest >= listing.marks[i].since) {
            superfluous.push_back(listing.marks[i]);
        }
    }
    return superfluous;
}

}  // namespace capstan::steward
