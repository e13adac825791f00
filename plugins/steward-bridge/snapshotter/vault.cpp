#include "plugins/steward-bridge/snapshotter/vault.hpp"

#include "plugins/steward-bridge/restore/store_objects.hpp"
#include "plugins/steward-bridge/snapshot/payload.hpp"
#include "plugins/steward-bridge/snapshot/trailer.hpp"

#include <algorithm>
#include <utility>

namespace capstan::steward {
namespace {

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

}  // namespace

Result<SnapshotListing> Vault::list(bool excluded_too) {
    return list_snapshots(parts_.store, parts_.prefix, {.include_excluded = excluded_too});
}

Result<void> Vault::read_back(SnapshotRecord& record,
                              std::uint64_t payload_bytes,
                              const Guard& guard) {
    CAPSTAN_TRY(auto stored, parts_.store.open({record.key()}, 0));
    std::uint64_t bytes = 0;
    const auto verified =
        verify_snapshot(std::make_unique<OwnedGuardedSource>(std::move(stored), guard, bytes),
                        record,
                        parts_.digests);
    if (!verified && verified.error().code != Code::invalid) {
        return fail(with_context(verified.error(), "reading back " + record.key()));
    }
    if (verified && verified.value().payload_bytes == payload_bytes) {
        record.bytes = bytes;
        return ok();
    }
    // It must not be taken for a backup. When removing fails too, its digest still tells.
    const auto removed = parts_.store.remove({record.key()});
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
    record.prefix = folder() + "v2/";
    record.compression = wish.compression;
    record.last_revision = opened.before;
    record.created = std::chrono::floor<std::chrono::seconds>(parts_.pace.wall_now());
    record.final = wish.final;
    record.name = snapshot_name(record);

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
    CAPSTAN_TRY(packed->finish());
    taken.database_bytes = checked.payload_bytes();
    CAPSTAN_TRY(read_back(record, taken.database_bytes, guard));
    return taken;
}

Result<Vault::Claim> Vault::take_over(const std::string& key,
                                      const std::string& text,
                                      const Claiming& claiming) {
    CAPSTAN_TRY(const ObjectInfo info, parts_.store.stat({key}));
    const auto present = read_object(parts_.store, {key}, kFenceTextBytesMax);
    std::string holder;
    if (present) {
        const auto parsed = json::parse(present.value());
        holder = parsed ? std::string(json::View(parsed.value())["member"].string_or("")) : "";
    }
    // Its age counts on our own clock, from when we saw it: clocks differ.
    Sighting& seen = sightings_[key];
    if (seen.etag != info.etag) {
        seen = {info.etag, claiming.now};
    }
    if (holder != parts_.member && claiming.now - seen.first < 2 * claiming.period) {
        return fail(Code::conflict,
                    key + " is claimed by the steward of \"" + holder +
                        "\", which has not stored it yet; it is taken over when that stays so");
    }
    // Our own claim is one of an earlier process, which is dead.
    CAPSTAN_TRY(parts_.store.put_if_match(key, text, info.etag));
    sightings_.erase(key);
    return Claim::ours;
}

// At most one steward stores the delta that starts at a revision, also while leadership changes.
Result<Vault::Claim> Vault::claim(const SnapshotRecord& record, const Claiming& claiming) {
    const std::string key = fence_key(parts_.prefix, record.start_revision);
    const std::string text = json::dump({{"member", parts_.member}, {"name", record.name}}) + "\n";
    const auto made = parts_.store.put_if_absent(key, text);
    if (made) {
        return Claim::ours;
    }
    if (made.error().code != Code::exists) {
        return fail(made.error());
    }
    CAPSTAN_TRY(const SnapshotListing listing, list());
    const bool stored = std::any_of(
        listing.snapshots.begin(), listing.snapshots.end(), [&](const SnapshotRecord& other) {
            return other.kind == SnapshotKind::delta && other.created >= claiming.since &&
                   other.start_revision <= record.start_revision &&
                   other.last_revision >= record.start_revision;
        });
    if (stored) {
        return Claim::stored;
    }
    return take_over(key, text, claiming);
}

Result<DeltaStored> Vault::store_delta(const SealedDelta& delta,
                                       const Claiming& claiming,
                                       const Guard& guard) {
    DeltaStored stored;
    stored.record = delta.record;
    stored.record.prefix = folder() + "v2/";
    CAPSTAN_TRY(guard());
    CAPSTAN_TRY(const Claim claimed, claim(stored.record, claiming));
    if (claimed == Claim::stored) {
        return DeltaStored{{}, true};
    }
    CAPSTAN_TRY(auto sink,
                parts_.store.create(stored.record.key(), {.bytes_about = delta.bytes.size()}));
    for (const std::string& piece : delta.bytes.pieces()) {
        CAPSTAN_TRY(guard());
        CAPSTAN_TRY(sink->write(bytes_of(piece)));
    }
    CAPSTAN_TRY(guard());
    CAPSTAN_TRY(sink->finish());
    CAPSTAN_TRY(read_back(stored.record, delta.payload_bytes, guard));
    return stored;
}

bool Vault::remove(const SnapshotRecord& record, Collected& collected) {
    const auto removed =
        parts_.store.remove({record.key(), record.version_id.value_or(std::string())});
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
    CAPSTAN_TRY(const SnapshotListing listing, list(true));
    const WallTime now = parts_.pace.wall_now();
    const auto verdicts = decide_retention(listing, now, options);
    Collected collected;
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
        failed += remove(record, collected) ? 0u : 1u;
    }
    for (const Fence& fence : fences_to_delete(listing)) {
        CAPSTAN_TRY(guard());
        collected.fences += parts_.store.remove({fence.key}) ? 1u : 0u;
    }
    if (unfinished_too) {
        const auto uploads = parts_.store.remove_unfinished(parts_.prefix, now - kUnfinishedAge);
        if (uploads) {
            collected.uploads = uploads.value();
        } else if (collected.problem.empty()) {
            collected.problem = uploads.error().message;
        }
    }
    return collected;
}

}  // namespace capstan::steward
