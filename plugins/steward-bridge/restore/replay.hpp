// Puts the revisions of a base and of the deltas after it into one row, and writes them as a
// database.
//
// The keys of etcd's bucket `key` rise with the revision, so the base's come first and the deltas'
// behind them: no sorting, and no more memory than one value, the leases and what History keeps.
// Without a writer everything is read and judged all the same. Thread: one at a time.
#pragma once

#include "plugins/steward-bridge/bolt/reader.hpp"
#include "plugins/steward-bridge/bolt/writer.hpp"
#include "plugins/steward-bridge/restore/base.hpp"
#include "plugins/steward-bridge/restore/cluster.hpp"
#include "plugins/steward-bridge/restore/history.hpp"
#include "plugins/steward-bridge/snapshot/delta_event.hpp"

#include "capstan/error.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>

namespace capstan::steward {

struct ReplayCounts {
    std::uint64_t base_entries{0};    // revisions taken from the base
    std::uint64_t events{0};          // taken from deltas
    std::uint64_t events_known{0};    // in deltas, but in the base already
    std::uint64_t leases{0};          // of deltas alone, with their length
    std::uint64_t events_unfit{0};    // taken although they do not continue what is before them
    std::uint64_t leases_unknown{0};  // puts in deltas whose lease neither base nor deltas describe
};

class Replay {
public:
    // `writer`: null to write nothing; borrowed, as is the base. Revisions above `to_revision` are
    // left out.
    Replay(bolt::Writer* writer,
           bolt::Reader& reader,
           const BaseFacts& base,
           std::optional<std::int64_t> to_revision);

    // Takes events that do not continue the history before them, and counts them.
    void accept_unfit() { unfit_accepted_ = true; }

    // Once, first. Errors: invalid (damage in the base, or its compaction is newer than
    // to_revision), unavailable (disk).
    Result<void> add_base();

    // Before the events of each delta: none begins inside a revision.
    void begin_delta() { next_sub_ = 0; }

    // In the order of the object. Errors: invalid: a revision is missing, or the event does not
    // continue the history so far; unavailable.
    Result<void> add_event(const DeltaEvent& event);

    // All other buckets, as a restore leaves them: no alarms, and with `cluster` the members, the
    // log index and the term of a cluster that starts anew. Nothing follows.
    Result<void> finish(const NewCluster* cluster);

    std::int64_t revision() const { return revision_; }  // reached so far
    const ReplayCounts& counts() const { return counts_; }
    bool sampled() const { return history_.sampled(); }

private:
    Result<void> add_base_entry(const mvcc::Revision& revision, bolt::Bytes key, bolt::Bytes value);
    Result<void> write(std::string_view key, std::string_view value);
    Result<void> check(const DeltaEvent& event);
    Result<void> note_leases(const DeltaEvent& event);
    Result<bool> base_has_lease(const std::string& id);
    Result<void> write_leases();
    Result<void> write_meta(const NewCluster* cluster);
    Result<void> write_members(const NewCluster& cluster);
    Result<void> copy_bucket(const bolt::Bucket& bucket);

    bolt::Writer* const writer_;
    bolt::Reader& reader_;
    const BaseFacts& base_;
    const std::int64_t to_revision_;
    History history_;
    bool unfit_accepted_{false};
    std::int64_t revision_{1};
    std::int64_t next_sub_{0};  // 0: nothing of revision_ came from the present delta
    // By id, as its key in the bucket:
    std::map<std::string, std::int64_t> leases_;           // not in the base -> seconds
    std::set<std::string> leases_kept_;                    // in the base
    std::map<std::string, std::uint64_t> leases_unknown_;  // told by nobody so far -> keys
    ReplayCounts counts_;
    std::string message_;  // being encoded
};

}  // namespace capstan::steward
