#include "plugins/steward-bridge/snapshotter/vault.hpp"

#include "plugins/steward-bridge/restore/store_objects.hpp"
#include "plugins/steward-bridge/snapshot/histories.hpp"
#include "plugins/steward-bridge/snapshot/payload.hpp"
#include "plugins/steward-bridge/snapshot/trailer.hpp"

#include <algorithm>
#include <utility>

namespace capstan::steward {
namespace {

using std::chrono::seconds;

// Asks the guard before each piece, and counts.
class GuardedSource final : public Source {
public:
    GuardedSource(Source& from, const Guard& guard, std::uint64_t& bytes)
        : from_(from), guard_(guard), bytes_(bytes) {}
    Result<std::size_t> read(std::span<std::uint8_t> into) override {
        CAPSTAN_TRY(guard_());
        CAPSTAN_TRY(const std::size_t count, from_.read(into));
        bytes_ += count;
        return count;
    }

private:
    Source& from_;
    const Guard& guard_;
    std::uint64_t& bytes_;
};

class OwnedGuardedSource final : public Source {
public:
    OwnedGuardedSource(std::unique_ptr<Source> from, const Guard& guard, std::uint64_t& bytes)
        : from_(std::move(from)), guarded_(*from_, guard, bytes) {}
    Result<std::size_t> read(std::span<std::uint8_t> into) override { return guarded_.read(into); }

private:
    const std::unique_ptr<Source> from_;
    GuardedSource guarded_;
};

Result<void> still_leads(EtcdClient& etcd) {
    CAPSTAN_TRY(const EtcdHead head, etcd.head(false));
    if (!head.leads) {
        return fail(Code::cancelled, "this member no longer leads, so its steward stores nothing");
    }
    return ok();
}

struct Opened {
    EtcdSnapshot snapshot;
    std::int64_t before{0}, after{0};
};

// The content of a snapshot is settled when its first piece arrives, so its revision lies between
// the one before the call and the one after it. With nobody writing in these few milliseconds both
// are the same, and the name is exact; else a new moment is tried, and at last the lower one taken,
// which every reader understands.
Result<Opened> open_snapshot(EtcdClient& etcd, const FullWish& wish, const Guard& guard) {
    for (int opens = 1;; ++opens) {
        CAPSTAN_TRY(guard());
        CAPSTAN_TRY(const EtcdHead before, etcd.head(true));
        if (!before.leads) {
            return fail(Code::cancelled,
                        "this member no longer leads, so its steward takes no snapshot");
        }
        Opened opened;
        opened.before = before.revision;
        opened.after = before.revision;
        const SnapshotRecord* const newest = wish.newest;
        if (wish.final && newest != nullptr && newest->final &&
            newest->last_revision == before.revision) {
            return opened;  // without a snapshot: it would repeat that one
        }
        CAPSTAN_TRY(opened.snapshot, etcd.snapshot());
        CAPSTAN_TRY(const EtcdHead after, etcd.head(false));
        opened.after = std::max(after.revision, before.revision);
        if (opened.after == opened.before || opens == kSnapshotOpensMax) {
            return opened;
        }
    }
}

bool has_versions(const SnapshotListing& listing) {
    const auto& all = listing.snapshots;
    return std::any_of(all.begin(), all.end(), [](const SnapshotRecord& record) {
        return record.version_id.has_value();
    });
}

using Remove = std::function<bool(const SnapshotRecord&)>;  // true: it is gone

// Deltas before the full they build on.
Result<void> remove_superseded(const std::vector<RetentionVerdict>& verdicts,
                               const Guard& guard,
                               const Remove& remove) {
    std::map<std::size_t, std::size_t> failures;  // by set
    for (auto verdict = verdicts.rbegin(); verdict != verdicts.rend(); ++verdict) {
        const SnapshotRecord& record = *verdict->record;
        if (verdict->keep) {
            continue;
        }
        CAPSTAN_TRY(guard());
        std::size_t& failed = failures[verdict->set];
        const bool full = record.kind == SnapshotKind::full && !record.part;
        // A full stays while one of its deltas does.
        if (failed >= kDeleteFailuresMax || (full && failed > 0)) {
            continue;
        }
        failed += remove(record) ? 0u : 1u;
    }
    return ok();
}

}  // namespace

Result<SnapshotListing> Vault::list_all_of(bool excluded_too) {
    return list_snapshots(parts_.store, parts_.prefix, {.include_excluded = excluded_too});
}

Result<SnapshotListing> Vault::list() {
    CAPSTAN_TRY(SnapshotListing listing, list_all_of(false));
    std::erase_if(listing.snapshots,
                  [this](const SnapshotRecord& one) { return damaged_.contains(one.key()); });
    return listing;
}

Result<VerifiedSnapshot> Vault::verify(SnapshotRecord& record, const Guard& guard) {
    CAPSTAN_TRY(auto stored,
                parts_.store.open({record.key(), record.version_id.value_or(std::string())}, 0));
    std::uint64_t bytes = 0;
    auto verified =
        verify_snapshot(std::make_unique<OwnedGuardedSource>(std::move(stored), guard, bytes),
                        record,
                        parts_.digests);
    if (verified) {
        record.bytes = bytes;
    } else if (verified.error().code == Code::invalid) {
        damaged_.insert(record.key());
    }
    return verified;
}

Result<void> Vault::read_back(SnapshotRecord& record,
                              std::uint64_t payload_bytes,
                              const Guard& guard) {
    // Where there are versions an older object of that name would be read.
    const auto info = parts_.store.stat({record.key()});
    if (!info) {
        return fail(with_context(info.error(), "reading back " + record.key()));
    }
    if (!info.value().version.empty()) {
        record.version_id = info.value().version;
    }
    const auto verified = verify(record, guard);
    if (!verified && verified.error().code != Code::invalid) {
        return fail(with_context(verified.error(), "reading back " + record.key()));
    }
    if (verified && verified.value().payload_bytes == payload_bytes) {
        return ok();
    }
    damaged_.insert(record.key());
    // It must not be taken for a backup. When removing fails too, its digest still tells.
    const auto removed = remove(record);
    return fail(Code::unavailable,
                record.key() + " reads back as something else than was written" +
                    (verified ? "" : " (" + verified.error().message + ")") +
                    (removed ? "; it was removed" : "; it could not be removed") +
                    "; check the store and what lies between");
}

Result<FullTaken> Vault::take_full(EtcdClient& etcd, const FullWish& wish, const Guard& guard) {
    CAPSTAN_TRY(Opened opened, open_snapshot(etcd, wish, guard));
    FullTaken taken;
    taken.inside_at_most = opened.after;
    if (!opened.snapshot.bytes) {
        taken.record = *wish.newest;
        taken.repeated = true;
        return taken;
    }
    SnapshotRecord& record = taken.record;
    record.kind = SnapshotKind::full;
    record.compression = wish.compression;
    record.last_revision = opened.before;
    record.created = std::chrono::floor<seconds>(std::max(parts_.pace.wall_now(), wish.not_before));
    record.final = wish.final;
    name(record);

    CAPSTAN_TRY(auto stored,
                parts_.store.create(record.key(), {.bytes_about = opened.snapshot.bytes_about}));
    CAPSTAN_TRY(auto packed, compress(record.compression, *stored));
    std::uint64_t received = 0;
    GuardedSource guarded(*opened.snapshot.bytes, guard, received);
    CAPSTAN_TRY(auto sha256, parts_.digests.sha256());
    TrailerSource checked(
        guarded, std::move(sha256), "etcd's snapshot", {.database = true, .keep = true});
    CAPSTAN_TRY(copy(checked, *packed));
    CAPSTAN_TRY(still_leads(etcd));
    CAPSTAN_TRY(guard());
    CAPSTAN_TRY(still_ours());
    CAPSTAN_TRY(packed->finish());
    taken.database_bytes = checked.payload_bytes();
    CAPSTAN_TRY(read_back(record, taken.database_bytes, guard));
    CAPSTAN_TRY(take_back_unless(still_ours(), record));
    return taken;
}

// A name that a damaged object bears is of no use, as that may be the one that readers get.
void Vault::name(SnapshotRecord& record) const {
    record.prefix = folder() + "v2/";
    record.name = snapshot_name(record);
    while (damaged_.contains(record.key())) {
        record.created += std::chrono::seconds(1);
        record.name = snapshot_name(record);
    }
}

// What appeared after somebody else took over.
Result<void> Vault::take_back_unless(Result<void> held, const SnapshotRecord& record) {
    if (!held && held.error().code == Code::conflict) {
        damaged_.insert(record.key());
        const auto removed = remove(record);
        if (!removed) {
            return fail(with_context(removed.error(), held.error().message));
        }
    }
    return held;
}

Result<HistoryMark> Vault::begin_history(std::int64_t head, const Guard& guard) {
    CAPSTAN_TRY(const SnapshotListing listing, list_all_of(true));
    HistoryMark mark;
    mark.revision = head;
    mark.since = next_history_since(listing, parts_.pace.wall_now());
    mark.key = history_key(parts_.prefix, head, mark.since);
    const std::string text =
        json::dump({{"member", parts_.member}, {"since", to_rfc3339(mark.since)}}) + "\n";
    CAPSTAN_TRY(guard());
    CAPSTAN_TRY(parts_.store.put_if_absent(mark.key, text));
    return mark;
}

Result<void> Vault::write(const SealedDelta& delta,
                          SnapshotRecord& record,
                          const Claim& claim,
                          const Guard& guard) {
    CAPSTAN_TRY(auto sink, parts_.store.create(record.key(), {.bytes_about = delta.bytes.size()}));
    for (const std::string& piece : delta.bytes.pieces()) {
        CAPSTAN_TRY(guard());
        CAPSTAN_TRY(sink->write(bytes_of(piece)));
    }
    CAPSTAN_TRY(guard());
    CAPSTAN_TRY(still_ours());
    CAPSTAN_TRY(still_holds(claim));
    CAPSTAN_TRY(sink->finish());
    CAPSTAN_TRY(read_back(record, delta.payload_bytes, guard));
    CAPSTAN_TRY(take_back_unless(still_ours(), record));
    return take_back_unless(still_holds(claim), record);
}

Result<DeltaStored> Vault::store_delta(const SealedDelta& delta,
                                       const Claiming& claiming,
                                       const Guard& guard) {
    DeltaStored stored;
    while (true) {
        CAPSTAN_TRY(guard());
        stored.record = delta.record;
        name(stored.record);
        CAPSTAN_TRY(const Claim claimed, claim(stored.record, claiming));
        if (!claimed.stored) {
            CAPSTAN_TRY(write(delta, stored.record, claimed, guard));
            return stored;
        }
        // An earlier try of ours, or another steward; perhaps nobody has read it back.
        SnapshotRecord found = *claimed.stored;
        const bool ours = found.key() == stored.record.key();
        const auto verified = verify(found, guard);
        if (verified && ours && verified.value().payload_bytes == delta.payload_bytes) {
            stored.record = std::move(found);
            return stored;
        }
        if (verified) {
            return DeltaStored{{}, true};
        }
        if (verified.error().code != Code::invalid) {
            return fail(with_context(verified.error(), "reading back " + found.key()));
        }
        if (ours) {
            const auto removed = remove(found);  // if it cannot be, its digest still tells
            static_cast<void>(removed);
        }
    }
}

bool Vault::remove(const SnapshotRecord& record, Collected& collected) {
    const auto removed = remove(record);
    const char* const kind = record.part                         ? "Chunk"
                             : record.kind == SnapshotKind::full ? "Full"
                                                                 : "Incr";
    ++collected.objects[{kind, removed.has_value()}];
    if (!removed && collected.problem.empty()) {
        collected.problem = removed.error().message;
    }
    return removed.has_value();
}

Result<Collected> Vault::collect(const RetentionOptions& options,
                                 bool unfinished_too,
                                 const Guard& guard) {
    CAPSTAN_TRY(const SnapshotListing all, list_all_of(true));
    // What readers do not get, excluded or damaged, keeps nothing and replaces nothing.
    SnapshotListing used = all;
    if (has_versions(all)) {  // without them nothing is excluded
        CAPSTAN_TRY(used, list());
    }
    std::erase_if(used.snapshots,
                  [this](const SnapshotRecord& one) { return damaged_.contains(one.key()); });
    std::set<std::string> spared = damaged_;
    for (const SnapshotRecord& record : used.snapshots) {
        spared.insert(record.key());
    }
    const WallTime now = parts_.pace.wall_now();
    Collected collected;
    const Remove gone = [&](const SnapshotRecord& record) { return remove(record, collected); };
    CAPSTAN_TRY(remove_superseded(decide_retention(used, now, options), guard, gone));
    auto of_excluded = decide_retention(all, now, options);
    std::erase_if(of_excluded, [&](const RetentionVerdict& verdict) {
        return verdict.record->part || spared.contains(verdict.record->key());
    });
    CAPSTAN_TRY(remove_superseded(of_excluded, guard, gone));
    std::size_t refused = 0;  // without the right to delete all of them are
    for (const Fence& fence : fences_to_delete(used)) {
        CAPSTAN_TRY(guard());
        if (fence.deletable(now) && refused < kDeleteFailuresMax) {
            const auto removed = parts_.store.remove({fence.key, fence.version});
            ++(removed ? collected.fences : refused);
        }
    }
    for (const HistoryMark& mark : marks_to_delete(all)) {
        CAPSTAN_TRY(guard());
        if (mark.deletable(now) && refused < kDeleteFailuresMax) {
            const auto removed = parts_.store.remove({mark.key, mark.version});
            ++(removed ? collected.fences : refused);
        }
    }
    if (unfinished_too) {
        remove_unfinished(now, collected);
    }
    return collected;
}

// What lies elsewhere below the prefix is of somebody else.
void Vault::remove_unfinished(WallTime now, Collected& collected) {
    for (const char* const own : {"v1", "v2", "capstan"}) {
        const auto uploads = parts_.store.remove_unfinished(folder() + own, now - kUnfinishedAge);
        if (uploads) {
            collected.uploads += uploads.value();
        } else if (collected.problem.empty()) {
            collected.problem = uploads.error().message;
        }
    }
}

}  // namespace capstan::steward
