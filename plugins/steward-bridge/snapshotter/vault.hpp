// Snapshots into the store and out of it again: written, read back, fenced, collected.
//
// Nothing counts as stored before it was read back whole, whoever wrote it. Errors: those of the
// store and of etcd, named after the object; those of `guard`, which ends what is under way.
// Thread: one at a time.
#pragma once

#include "plugins/steward-bridge/snapshot/payload.hpp"
#include "plugins/steward-bridge/snapshot/retention.hpp"
#include "plugins/steward-bridge/snapshotter/delta_buffer.hpp"
#include "plugins/steward-bridge/snapshotter/etcd_client.hpp"
#include "plugins/steward-bridge/store/store.hpp"
#include "plugins/steward-bridge/store/transport.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>

namespace capstan::steward {

// ok: go on. Asked before every piece of work.
using Guard = std::function<Result<void>()>;

// How often a snapshot is opened anew to find a moment without writes, which makes its name exact.
inline constexpr int kSnapshotOpensMax = 8;
inline constexpr std::size_t kFenceTextBytesMax = 4096;
inline constexpr std::chrono::hours kUnfinishedAge{24};

struct VaultParts {
    ObjectStore& store;
    Digests& digests;
    Pace& pace;
    std::string prefix;     // of the store, without the layout
    std::string member;     // this steward's, written into fences
    std::string process{};  // tells it from an earlier or later one of this member
    // Fails when the prefix is another Etcd's; asked right before an object appears, and after.
    Guard still_ours{};
};

struct FullWish {
    bool final{false};
    Compression compression{Compression::gzip};
    // A final full that would repeat this one is not taken.
    const SnapshotRecord* newest{nullptr};
    WallTime not_before{};  // what its time of creation is at least
};

struct FullTaken {
    SnapshotRecord record;
    std::uint64_t database_bytes{0};
    // Of etcd when the content was settled: never below the revision inside. Equal to the name's
    // last revision when nobody wrote in that moment.
    std::int64_t inside_at_most{0};
    bool repeated{false};  // there was one already
};

struct Claiming {
    // A claim of another steward that stands for two of them without its object is taken over; one
    // for a delta of an earlier history at once.
    std::chrono::nanoseconds period{};
    MonotonicTime now{};
};

struct DeltaStored {
    SnapshotRecord record;
    bool adopted{false};  // somebody else has stored these revisions; record is empty
};

struct Collected {
    std::map<std::pair<std::string, bool>, std::size_t> objects;  // "Full", "Incr", "Chunk"; gone
    std::size_t fences{0}, uploads{0};                            // fences: also marks
    std::string problem;  // of the first that could not be removed
};

class Vault {
public:
    explicit Vault(VaultParts parts) : parts_(std::move(parts)) {}

    // Without what verify() found damaged.
    Result<SnapshotListing> list();
    // Reads an object to its end; sets record.bytes. Errors: invalid (damaged: not listed from now
    // on); everything else tells nothing about the object.
    Result<VerifiedSnapshot> verify(SnapshotRecord& record, const Guard& guard);
    Result<FullTaken> take_full(EtcdClient& etcd, const FullWish& wish, const Guard& guard);
    // From now on another history is stored: etcd, at revision `head`, does not continue what is
    // there, all of which stays as an earlier one.
    Result<HistoryMark> begin_history(std::int64_t head, const Guard& guard);
    // Errors: conflict (claimed by another steward, which may still store it: later).
    Result<DeltaStored> store_delta(const SealedDelta& delta,
                                    const Claiming& claiming,
                                    const Guard& guard);
    // Removes what retention gives up. Errors: of listing; a single object is only counted.
    Result<Collected> collect(const RetentionOptions& options,
                              bool unfinished_too,
                              const Guard& guard);

private:
    // The right to store the delta that starts at a revision, for as long as the fence's content is
    // what was written; or who has stored it.
    struct Claim {
        std::string key, etag;
        std::optional<SnapshotRecord> stored;
    };
    std::string folder() const { return parts_.prefix.empty() ? "" : parts_.prefix + "/"; }
    // Where and under which name it is to be stored.
    void name(SnapshotRecord& record) const;
    Result<void> still_ours() const { return parts_.still_ours ? parts_.still_ours() : ok(); }
    Result<SnapshotListing> list_all_of(bool excluded_too);
    Result<Claim> claim(const SnapshotRecord& record, const Claiming& claiming);
    Result<Claim> take_over(const std::string& key,
                            const std::string& text,
                            const SnapshotListing& listing,
                            const Claiming& claiming);
    Result<void> still_holds(const Claim& claim);
    Result<void> take_back_unless(Result<void> held, const SnapshotRecord& record);
    // Sets record.version_id and bytes.
    Result<void> read_back(SnapshotRecord& record, std::uint64_t payload_bytes, const Guard& guard);
    Result<void> write(const SealedDelta& delta,
                       SnapshotRecord& record,
                       const Claim& claim,
                       const Guard& guard);
    Result<void> remove(const SnapshotRecord& record) {
        return parts_.store.remove({record.key(), record.version_id.value_or(std::string())});
    }
    bool remove(const SnapshotRecord& record, Collected& collected);
    void remove_unfinished(WallTime now, Collected& collected);

    struct Sighting {
        std::string etag;
        MonotonicTime first{};
    };
    const VaultParts parts_;
    std::map<std::string, Sighting> sightings_;  // of foreign claims, by key
    std::set<std::string> damaged_;              // keys
};

}  // namespace capstan::steward
