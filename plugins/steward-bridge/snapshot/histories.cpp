#include "plugins/steward-bridge/snapshot/histories.hpp"

#include <algorithm>
#include <utility>

namespace capstan::steward {
namespace {

using Records = std::vector<SnapshotRecord>;

// By more than clocks may be apart.
bool made_before(const SnapshotRecord& a, const SnapshotRecord& b) {
    return a.created + kClockSlack < b.created;
}

const SnapshotRecord* full_made_last(const Records& snapshots) {
    const SnapshotRecord* last = nullptr;
    for (const SnapshotRecord& record : snapshots) {
        if (record.kind == SnapshotKind::full &&
            (last == nullptr || record.created >= last->created)) {
            last = &record;
        }
    }
    return last;
}

// Something begins or ends right where `full` ends, so it lies on the way of what goes further.
bool lies_on_the_way(const SnapshotRecord& full, const Records& snapshots) {
    return std::any_of(snapshots.begin(), snapshots.end(), [&](const SnapshotRecord& other) {
        const bool begins = other.kind == SnapshotKind::delta &&
                            other.start_revision - 1 == full.last_revision &&
                            made_before(other, full);
        return begins || (other.last_revision == full.last_revision && other.key() != full.key());
    });
}

// What was made after `full` goes on behind `end`, so with what goes further and not with `full`.
bool is_passed_over(const SnapshotRecord& full, std::int64_t end, const Records& snapshots) {
    return std::any_of(snapshots.begin(), snapshots.end(), [&](const SnapshotRecord& delta) {
        return delta.kind == SnapshotKind::delta && made_before(full, delta) &&
               delta.start_revision > end;
    });
}

// Deltas from `full` on hold revisions once more that older ones hold up to `end`.
bool written_twice(const SnapshotRecord& full, std::int64_t end, const Records& snapshots) {
    const auto same = [&](const SnapshotRecord& delta) {
        return std::any_of(snapshots.begin(), snapshots.end(), [&](const SnapshotRecord& other) {
            return made_before(other, full) && other.start_revision == delta.start_revision &&
                   other.last_revision == delta.last_revision;
        });
    };
    return std::any_of(snapshots.begin(), snapshots.end(), [&](const SnapshotRecord& delta) {
        return delta.kind == SnapshotKind::delta && !made_before(delta, full) &&
               delta.last_revision > full.last_revision && delta.start_revision <= end &&
               !same(delta);
    });
}

// "first (until 2026-11-30T12:00:00Z, up to revision 1200)"
std::string described(const StoredHistory& history) {
    const std::string span = history.until ? "until " + to_rfc3339(*history.until) : "the present";
    return history.name + " (" + span + ", up to revision " + std::to_string(history.end) + ")";
}

template <class Keep>
std::string described(const std::vector<StoredHistory>& histories, Keep keep) {
    std::string text;
    for (const StoredHistory& history : histories) {
        if (keep(history)) {
            text += (text.empty() ? "" : ", ") + described(history);
        }
    }
    return text;
}

bool holds(const StoredHistory& history, std::int64_t revision) {
    const Records& all = history.listing.snapshots;
    return revision <= history.end &&
           std::any_of(all.begin(), all.end(), [&](const SnapshotRecord& record) {
               return record.kind == SnapshotKind::full && record.last_revision <= revision;
           });
}

auto not_clear(std::string message) {
    return fail(Code::conflict, std::move(message));
}

// Without a name: the present history, unless what is asked for lies in another one as well.
Result<std::size_t> find_by_revision(const std::vector<StoredHistory>& histories,
                                     std::int64_t revision) {
    const auto wanted = [&](const StoredHistory& history) { return holds(history, revision); };
    if (std::none_of(histories.begin(), histories.end() - 1, wanted)) {
        return histories.size() - 1;
    }
    return not_clear(
        "the cluster was set back, and revision " + std::to_string(revision) +
        " may be one of several states; say which with --history: " + described(histories, wanted));
}

Result<std::size_t> find_by_time(const std::vector<StoredHistory>& histories, WallTime time) {
    std::size_t found = 0;
    for (std::size_t i = 1; i < histories.size(); ++i) {
        const WallTime since = *histories[i].since;
        if (since - kClockSlack < time && time < since + kClockSlack) {
            return not_clear(
                "the cluster was set back around " + to_rfc3339(since) +
                "; say which history is meant with --history: " +
                described({histories[i - 1], histories[i]}, [](auto&) { return true; }));
        }
        found = since <= time ? i : found;
    }
    return found;
}

// A full, and what was made after it.
std::optional<ChosenHistory> from_full(const std::vector<StoredHistory>& histories,
                                       const std::string& name) {
    for (const StoredHistory& history : histories) {
        const Records& all = history.listing.snapshots;
        const auto full = std::find_if(all.begin(), all.end(), [&](const SnapshotRecord& record) {
            return record.kind == SnapshotKind::full &&
                   (record.name == name || record.key() == name);
        });
        if (full == all.end()) {
            continue;
        }
        ChosenHistory chosen;
        chosen.only = false;
        chosen.history.name = full->name;
        chosen.history.since = full->created;
        chosen.history.until = history.until;
        for (const SnapshotRecord& record : all) {
            if (record.created >= full->created) {
                chosen.history.listing.snapshots.push_back(record);
                chosen.history.end = std::max(chosen.history.end, record.last_revision);
            } else if (!made_before(record, *full) && record.last_revision > full->last_revision) {
                chosen.warnings.push_back(record.key() + " was made shortly before " + full->name +
                                          " by its name, so it was left out");
            }
        }
        return chosen;
    }
    return std::nullopt;
}

Result<ChosenHistory> pick(std::vector<StoredHistory> histories, const HistoryWish& wish) {
    std::size_t at = histories.size() - 1;
    if (!wish.history.empty()) {
        const auto named = std::find_if(histories.begin(), histories.end(), [&](const auto& one) {
            return one.name == wish.history;
        });
        if (named == histories.end()) {
            if (auto chosen = from_full(histories, wish.history)) {
                return std::move(*chosen);
            }
            return not_clear("there is no history \"" + wish.history + "\", but " +
                             described(histories, [](auto&) { return true; }));
        }
        at = static_cast<std::size_t>(named - histories.begin());
    } else if (wish.to_revision) {
        CAPSTAN_TRY(at, find_by_revision(histories, *wish.to_revision));
    } else if (wish.to_time) {
        CAPSTAN_TRY(at, find_by_time(histories, *wish.to_time));
    }
    ChosenHistory chosen;
    chosen.only = histories.size() == 1;
    if (!chosen.only && histories[at].newest_full() == nullptr) {
        return fail(Code::invalid,
                    "no full snapshot of history " + described(histories[at]) +
                        " is stored; --history takes another one: " +
                        described(histories, [](const StoredHistory& history) {
                            return history.newest_full() != nullptr;
                        }));
    }
    chosen.history = std::move(histories[at]);
    return chosen;
}

Result<void> refuse_doubt(const ChosenHistory& chosen, const HistoryWish& wish) {
    const auto doubt = doubt_in(chosen.history);
    if (!doubt || wish.by_revision) {
        return ok();
    }
    return fail(Code::invalid,
                doubt->full.key() + " was made after " + doubt->other.key() +
                    " by its name and does not reach as far: either the cluster was set back, or "
                    "a clock was wrong; --history " +
                    doubt->full.name +
                    " takes that full and what was made after it, --by-revision takes what has "
                    "the highest revisions");
}

}  // namespace

const SnapshotRecord* StoredHistory::newest_full() const {
    const auto& all = listing.snapshots;
    const auto full = std::find_if(all.rbegin(), all.rend(), [](const SnapshotRecord& record) {
        return record.kind == SnapshotKind::full;
    });
    return full == all.rend() ? nullptr : &*full;
}

std::size_t history_index(const SnapshotListing& listing, WallTime created) {
    const auto next = std::find_if(listing.marks.begin(),
                                   listing.marks.end(),
                                   [&](const HistoryMark& mark) { return created < mark.since; });
    return static_cast<std::size_t>(next - listing.marks.begin());
}

std::vector<StoredHistory> histories_of(const SnapshotListing& listing) {
    std::vector<StoredHistory> histories(listing.marks.size() + 1);
    for (std::size_t i = 0; i < listing.marks.size(); ++i) {
        histories[i].until = listing.marks[i].since;
        histories[i + 1].since = listing.marks[i].since;
        histories[i + 1].name = listing.marks[i].name();
    }
    for (const SnapshotRecord& record : listing.snapshots) {
        StoredHistory& own = histories[history_index(listing, record.created)];
        own.listing.snapshots.push_back(record);
        own.end = std::max(own.end, record.last_revision);
    }
    for (const SnapshotRecord& part : listing.parts) {
        histories[history_index(listing, part.created)].listing.parts.push_back(part);
    }
    for (const SkippedKey& skipped : listing.skipped) {
        // What promises nothing is shown with the present.
        StoredHistory& own = skipped.last_revision > 0
                                 ? histories[history_index(listing, skipped.created)]
                                 : histories.back();
        own.listing.skipped.push_back(skipped);
        own.end = std::max(own.end, skipped.last_revision);
    }
    return histories;
}

WallTime next_history_since(const SnapshotListing& listing, WallTime now) {
    using std::chrono::floor;
    using std::chrono::seconds;
    WallTime since = floor<seconds>(now);
    const auto follow = [&since](WallTime time) {
        since = std::max<WallTime>(since, floor<seconds>(time) + seconds(1));
    };
    for (const auto* records : {&listing.snapshots, &listing.parts}) {
        for (const SnapshotRecord& record : *records) {
            follow(record.created);
        }
    }
    for (const SkippedKey& skipped : listing.skipped) {
        follow(skipped.created);
    }
    if (!listing.marks.empty()) {
        follow(listing.marks.back().since);
    }
    return since;
}

std::optional<Doubt> doubt_in(const StoredHistory& history) {
    const Records& all = history.listing.snapshots;
    const SnapshotRecord* const full = full_made_last(all);
    if (full == nullptr) {
        return std::nullopt;
    }
    // Ordered by revision, so the last one found goes furthest.
    const auto other = std::find_if(all.rbegin(), all.rend(), [&](const SnapshotRecord& record) {
        return record.last_revision > full->last_revision && made_before(record, *full);
    });
    if (other == all.rend()) {
        return std::nullopt;
    }
    const std::int64_t end = other->last_revision;
    if ((lies_on_the_way(*full, all) || is_passed_over(*full, end, all)) &&
        !written_twice(*full, end, all)) {
        return std::nullopt;
    }
    return Doubt{*full, *other};
}

Result<ChosenHistory> choose_history(const SnapshotListing& listing, const HistoryWish& wish) {
    std::vector<StoredHistory> histories = histories_of(listing);
    const std::string present = histories.back().name;
    const std::int64_t end = histories.back().end;
    CAPSTAN_TRY(ChosenHistory chosen, pick(std::move(histories), wish));
    CAPSTAN_TRY(refuse_doubt(chosen, wish));
    chosen.to_revision = wish.to_revision;
    if (wish.to_time) {
        for (const SnapshotRecord& record : chosen.history.listing.snapshots) {
            if (record.created <= *wish.to_time) {
                chosen.to_revision = record.last_revision;  // they are ordered by it
            }
        }
        if (!chosen.to_revision) {
            return fail(Code::not_found,
                        "no snapshot was made by " + to_rfc3339(*wish.to_time) +
                            (chosen.only ? "" : " in history " + chosen.history.name));
        }
    }
    if (chosen.history.name != present || chosen.to_revision.value_or(end) < end) {
        chosen.leaves = present;
    }
    return chosen;
}

}  // namespace capstan::steward
