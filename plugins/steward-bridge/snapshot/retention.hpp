// What garbage collection keeps and deletes, and by which rule: what `capstan backup explain`
// prints.
//
// Pure. The newest full of the present history and everything after it are never deleted, nor is
// the full made last. Where an earlier history ends, its last set stays whole while its full does.
// Thread: any.
#pragma once

#include "plugins/steward-bridge/snapshot/record.hpp"

#include "capstan/clock.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace capstan::steward {

enum class RetentionPolicy : std::uint8_t { exponential, limit_based };

struct RetentionOptions {
    RetentionPolicy policy{RetentionPolicy::exponential};
    std::int64_t max_backups{7};  // fulls kept by limit_based, > 0
    // Deltas younger than this stay, and with them the full they build on.
    std::chrono::nanoseconds delta_retention{0};
    // The last revision this steward has stored; parts above it belong to an upload that runs.
    std::int64_t stored_revision{0};
};

struct RetentionVerdict {
    const SnapshotRecord* record{nullptr};  // of the listing given
    bool keep{true};
    std::string_view rule;  // a word, static: "newest", "daily", "immutable" …
    std::string reason;     // one sentence without the key
    // Fulls and the deltas up to the next full share a number. When a delta of a set could not be
    // deleted, its full stays for this round.
    std::size_t set{0};
};

// Deletes after this many failures in one set are left to the next round.
inline constexpr std::size_t kDeleteFailuresMax = 5;

// One verdict per object, in the order of the listing: snapshots, then parts. Deleting in this
// order from the end of each set removes deltas before their full.
std::vector<RetentionVerdict> decide_retention(const SnapshotListing& listing,
                                               WallTime now,
                                               const RetentionOptions& options);

// Fences of deltas that a newer full of the present history has made superfluous.
std::vector<Fence> fences_to_delete(const SnapshotListing& listing);

// Marks before which nothing is left; never the newest one.
std::vector<HistoryMark> marks_to_delete(const SnapshotListing& listing);

}  // namespace capstan::steward
