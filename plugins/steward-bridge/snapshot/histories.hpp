// The histories below one prefix, and which of them is meant: the one rule of everything that
// reads backups.
//
// A cluster that is set back writes other changes under revisions it has used before. Its steward
// then leaves a HistoryMark; every object belongs to the history between two marks that its time of
// creation tells, and inside of a history order is by revision. So nothing goes by clocks but
// across a mark, which lies above all times before it and below all after it.
//
// Without marks (of other tools) names may contradict each other: a full made long after something
// that goes further. What may be a rollback is refused, never guessed. Pure. Thread: any.
#pragma once

#include "plugins/steward-bridge/snapshot/record.hpp"

#include "capstan/error.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace capstan::steward {

// So far the clocks of two writers may be apart; what is further apart was made in that order.
inline constexpr std::chrono::minutes kClockSlack{10};
inline constexpr std::string_view kFirstHistory = "first";

struct StoredHistory {
    std::string name{kFirstHistory};       // of the mark it begins with: "history-1000-1796003195"
    std::optional<WallTime> since, until;  // nothing: from the beginning, and the present one
    SnapshotListing listing;               // what of snapshots, parts and skipped keys is its own
    std::int64_t end{0};                   // the last revision that anything in it promises

    const SnapshotRecord* newest_full() const;  // nullptr: none
};

// Oldest first, never empty: the last is the present one.
std::vector<StoredHistory> histories_of(const SnapshotListing& listing);
// Index into histories_of() of what was created then.
std::size_t history_index(const SnapshotListing& listing, WallTime created);

// When a mark that is made now begins a history: above the times of everything in `listing`.
WallTime next_history_since(const SnapshotListing& listing, WallTime now);

// Two objects of one history whose names contradict each other.
struct Doubt {
    SnapshotRecord full;   // the one made last
    SnapshotRecord other;  // made before it, and ends behind it
};
// A full that another tool compacted or that a slow steward made late is told by what begins or
// ends right where it ends, and is no doubt.
std::optional<Doubt> doubt_in(const StoredHistory& history);

struct HistoryWish {
    // "": the present one. Else its name, or that of a full in doubt: it and what was made after
    // it.
    std::string history;
    bool by_revision{false};  // where names contradict each other, as etcd-backup-restore does
    std::optional<std::int64_t> to_revision;
    std::optional<WallTime> to_time;  // the history of that time, unless one is named
};

struct ChosenHistory {
    StoredHistory history;
    bool only{true};                          // there is no other
    std::optional<std::int64_t> to_revision;  // of the wish; of a time the last revision made by it
    // The present history, when what is chosen is less than all of it: who goes on from there
    // leaves it.
    std::string leaves;
    std::vector<std::string> warnings;  // sentences
};

// Errors: conflict (a revision or time that is not of the present history alone, or an unknown
// name: lists what can be asked for); invalid (names contradict each other, or nothing of the
// present history is stored yet: names the objects and what can be asked for); not_found (nothing
// was made by that time).
Result<ChosenHistory> choose_history(const SnapshotListing& listing, const HistoryWish& wish = {});

}  // namespace capstan::steward
