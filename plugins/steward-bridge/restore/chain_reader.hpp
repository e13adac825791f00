// Reads the best chain of the history that is meant through, from the base to the last delta, and
// starts again with the next best one when an object on the way is damaged. Thread: one at a time.
#pragma once

#include "plugins/steward-bridge/bolt/reader.hpp"
#include "plugins/steward-bridge/bolt/writer.hpp"
#include "plugins/steward-bridge/restore/restoration.hpp"

namespace capstan::steward {

class ChainReader {
public:
    // All borrowed.
    ChainReader(const SnapshotListing& listing,
                SnapshotObjects& objects,
                Digests& digests,
                const RestoreOptions& options);
    ~ChainReader();
    ChainReader(const ChainReader&) = delete;
    ChainReader& operator=(const ChainReader&) = delete;

    // Writes the database at `path`, which is removed when a chain proves damaged; "": nothing is
    // written. `cluster`: as for Replay::finish. Errors as of restore().
    Result<RestoreReport> run(const std::string& path, const NewCluster* cluster);

private:
    Result<void> prepare();
    Result<void> choose_history();
    Result<Chain> choose();
    const SnapshotRecord* worth_opening() const;
    Result<void> fetch_base(const SnapshotRecord& full);
    Result<void> learn_base(const SnapshotRecord& full);
    Result<void> open_base(const SnapshotRecord& full);
    Result<void> attempt(const std::string& path, const NewCluster* cluster);
    Result<void> build(const Chain& chain, bolt::Writer* writer, const NewCluster* cluster);
    Result<void> add_delta(const SnapshotRecord& delta, Replay& replay);
    Error blame(const SnapshotRecord& record, const Error& error);
    Error blame_content(const SnapshotRecord& record, const Error& error);
    bool note_damage(const Error& error);
    Result<void> check_cancelled() const;
    std::string base_path() const;

    const SnapshotListing& all_;
    SnapshotObjects& objects_;
    Digests& digests_;
    const RestoreOptions& options_;
    SnapshotListing listing_;  // of the history alone
    ChainOptions chosen_by_;
    std::string base_key_;  // of what lies at base_path()
    std::unique_ptr<bolt::Reader> base_;
    BaseFacts facts_;
    std::optional<std::string> damaged_;  // key, set by blame()
    RestoreReport report_;
};

}  // namespace capstan::steward
