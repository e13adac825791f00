// Which snapshots belong together: chains that are proved whole.
//
// Of one history only (histories.hpp). Pure, from records alone. A full may hold more than its name
// says, so a gap right after a full is judged by the revision inside once it is known
// (ChainOptions). Thread: any.
#pragma once

#include "plugins/steward-bridge/snapshot/record.hpp"

#include "capstan/error.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace capstan::steward {

// The newest full and the deltas after it, in order.
struct LatestSet {
    std::optional<SnapshotRecord> full;
    std::vector<SnapshotRecord> deltas;
};

struct RevisionGap {
    std::int64_t from{0}, to{0};  // missing, both included

    friend bool operator==(const RevisionGap&, const RevisionGap&) = default;
};

// One full and the deltas to apply after it, in order. Deltas may overlap: events up to the
// revision reached are skipped.
struct Chain {
    SnapshotRecord full;
    std::int64_t base_revision{0};  // inside the full when known, else that of its name
    std::vector<SnapshotRecord> deltas;
    std::int64_t reaches{0};
    std::vector<SnapshotRecord> redundant;    // hold nothing that is not in the chain
    std::vector<SnapshotRecord> unreachable;  // behind the gap
    std::optional<RevisionGap> gap;           // the first one
};

struct ChainOptions {
    std::optional<std::int64_t> to_revision;  // deltas beyond it are left out as redundant
    std::map<std::string, std::int64_t> base_revisions;  // key of a full -> revision inside
    // key -> why it cannot be used: the message of the error met
    std::map<std::string, std::string> damaged;
    // Of the listing: what cannot be read counts as lost when nothing else holds it.
    std::vector<SkippedKey> skipped;
};

// The chain that starts at `full`, out of all of `snapshots`.
Chain chain_from(const SnapshotRecord& full,
                 const std::vector<SnapshotRecord>& snapshots,
                 const ChainOptions& options = {});

// The chain to restore: the newest full that is whole. An older one only when its chain reaches the
// end of everything there is, or `to_revision`; never a silent loss. Errors: not_found (no snapshot
// at all, readable or not), invalid: names the damaged object or the gap, the revision that can be
// reached and how to ask for it.
Result<Chain> choose_chain(const std::vector<SnapshotRecord>& snapshots,
                           const ChainOptions& options = {});

}  // namespace capstan::steward
