// From the snapshots of a store to a data directory etcd starts from, without any etcd.
//
// A history is chosen (histories.hpp), of it a chain of one full and the deltas after it, proved as
// it is read, and written on the way; when an object turns out damaged the next best chain that
// loses nothing is taken, and without one nothing is left behind. Verifying and compacting are the
// same with another end. Memory: one value, up to 24 MiB of History, the leases. Disk: the base,
// unpacked, and what is made. Thread: one at a time; one work per directory.
#pragma once

#include "plugins/steward-bridge/restore/cluster.hpp"
#include "plugins/steward-bridge/restore/compaction.hpp"
#include "plugins/steward-bridge/restore/replay.hpp"
#include "plugins/steward-bridge/snapshot/chain.hpp"
#include "plugins/steward-bridge/snapshot/histories.hpp"
#include "plugins/steward-bridge/snapshot/record.hpp"
#include "plugins/steward-bridge/stream/digest.hpp"
#include "plugins/steward-bridge/stream/stream.hpp"

#include "capstan/error.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace capstan::steward {

// Where snapshots come from: the stored bytes of one, packed as they are.
class SnapshotObjects {
public:
    virtual ~SnapshotObjects() = default;
    virtual Result<std::unique_ptr<Source>> open(const SnapshotRecord& record) = 0;
};

struct RestoreReport;

struct RestoreOptions {
    HistoryWish wish;  // what to restore; by itself the newest of the present history
    // Where the base waits unpacked; made when missing. Compacting puts two files of that name with
    // an ending beside it. Nothing of this is left at the end.
    std::string work_directory;
    // A restored database above 80 % of it loses the revisions that were superseded before the
    // newest delta. 0: no limit.
    std::uint64_t quota_bytes{0};
    // Takes deltas whose versions do not continue what is before them, with a warning. For the
    // explicit wish of somebody who knows why, never for a pod: the result may be of two histories.
    bool accept_unfit_events{false};
    // Of compact(): what is about to be written, before the sink gets its first byte. An error ends
    // it.
    std::function<Result<void>(const RestoreReport&)> before_writing;
    // Of restore(): the new data lies at `made`, whole and on the disk, and is about to become the
    // data directory. With this that may hold a member/ until then, which goes here. An error ends
    // it.
    std::function<Result<void>(const std::string& made)> before_publishing;
    // Between objects and every few thousand events; true stops with `cancelled`.
    std::function<bool()> cancelled;
    std::size_t compaction_memory_bytes{kCompactionMemoryBytes};
};

struct RestoreReport {
    std::string history;              // its name, when there are several
    std::string leaves;               // ChosenHistory::leaves
    std::string full;                 // key of the base
    std::vector<std::string> deltas;  // keys, those that were read
    std::int64_t base_revision{0};
    std::int64_t revision{0};
    std::int64_t compacted_to{0};  // 0: nothing was dropped
    std::uint64_t database_bytes{0};
    ReplayCounts counts;
    std::vector<std::string> warnings;  // sentences: what was passed over, and why nothing is lost
};

// Errors of all three: those of choose_history(); not_found (no snapshot at all: neither a success
// nor a damaged store); invalid (damaged or incomplete: names the object or the missing revisions
// and what can be reached); cancelled; what the store or the disk says, overloaded only when the
// disk is full. After an error nothing is left on disk.

// Makes `data_directory`, which must be absent or empty (else exists), for the member
// `cluster.self()`.
Result<RestoreReport> restore(const SnapshotListing& listing,
                              SnapshotObjects& objects,
                              Digests& digests,
                              const NewCluster& cluster,
                              const std::string& data_directory,
                              const RestoreOptions& options);

// The history that the data in a data directory has left, as restore() has noted it there; "":
// none. The steward of an etcd that starts from it begins a new one instead of going on with that
// one, whatever etcd's revision is by then. Errors: of reading the note.
Result<std::string> left_history(const std::string& data_directory);
void forget_left_history(const std::string& data_directory);

// Reads the whole chain as a restore would, and writes nothing but the unpacked base.
Result<RestoreReport> verify(const SnapshotListing& listing,
                             SnapshotObjects& objects,
                             Digests& digests,
                             const RestoreOptions& options);

// One new full out of the chain, compacted to the revision it reaches, not packed: the database and
// its SHA-256 go into `to`, which is finished at the end.
Result<RestoreReport> compact(const SnapshotListing& listing,
                              SnapshotObjects& objects,
                              Digests& digests,
                              Sink& to,
                              const RestoreOptions& options);

}  // namespace capstan::steward
