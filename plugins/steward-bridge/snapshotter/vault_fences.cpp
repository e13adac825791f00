// Who may store a delta: the fences of the vault.
#include "plugins/steward-bridge/snapshot/histories.hpp"
#include "plugins/steward-bridge/snapshotter/vault.hpp"

#include <algorithm>
#include <utility>

namespace capstan::steward {
namespace {

// The fence names the delta it was made for. One that was sealed before the mark stays of an
// earlier history whenever it appears, so nothing of the present one is kept apart by it.
bool is_of_earlier_history(const json::View& claim, const SnapshotListing& listing) {
    const auto delta = parse_snapshot_key("v2/" + std::string(claim["name"].string_or("")));
    return delta && history_index(listing, delta.value().created) < listing.marks.size();
}

bool is_ours(const json::View& claim, const VaultParts& parts) {
    return claim["member"].string_or("") == parts.member &&
           claim["process"].string_or("") == parts.process;
}

// Whether the claim is held by whoever asks; what cannot be read is not.
bool holds(const VaultParts& parts, const std::string& key) {
    const auto present = read_object(parts.store, {key}, kFenceTextBytesMax);
    const auto claim =
        present ? json::parse(present.value()) : Result<json::Value>(fail(present.error()));
    return claim && is_ours(json::View(claim.value()), parts);
}

}  // namespace

Result<Vault::Claim> Vault::take_over(const std::string& key,
                                      const std::string& text,
                                      const SnapshotListing& listing,
                                      const Claiming& claiming) {
    CAPSTAN_TRY(const ObjectInfo info, parts_.store.stat({key}));
    const auto present = read_object(parts_.store, {key}, kFenceTextBytesMax);
    std::string holder;
    bool free = false;  // of an earlier try of ours, or of an earlier history
    if (const auto parsed =
            present ? json::parse(present.value()) : Result<json::Value>(fail(present.error()))) {
        const json::View claim(parsed.value());
        holder = claim["member"].string_or("");
        free = is_ours(claim, parts_) || is_of_earlier_history(claim, listing);
    }
    // Its age counts on our own clock, from when we saw it: clocks differ.
    Sighting& seen = sightings_[key];
    if (seen.etag != info.etag) {
        seen = {info.etag, claiming.now};
    }
    if (!free && claiming.now - seen.first < 2 * claiming.period) {
        return fail(Code::conflict,
                    key + " is claimed by the steward of \"" + holder +
                        "\", which has not stored it yet; it is taken over when that stays so");
    }
    CAPSTAN_TRY(std::string etag, parts_.store.put_if_match(key, text, info.etag));
    sightings_.erase(key);
    return Claim{key, std::move(etag), {}};
}

// At most one steward stores the delta that starts at a revision, also while leadership changes.
Result<Vault::Claim> Vault::claim(const SnapshotRecord& record, const Claiming& claiming) {
    const std::string key = fence_key(parts_.prefix, record.start_revision);
    const std::string text =
        json::dump(
            {{"member", parts_.member}, {"process", parts_.process}, {"name", record.name}}) +
        "\n";
    auto made = parts_.store.put_if_absent(key, text);
    if (made) {
        return Claim{key, std::move(made).value(), {}};
    }
    if (made.error().code != Code::exists) {
        return fail(made.error());
    }
    CAPSTAN_TRY(const SnapshotListing listing, list());
    // What an earlier history holds of these revisions is something else.
    const StoredHistory present = std::move(histories_of(listing).back());
    const auto& snapshots = present.listing.snapshots;
    const auto stored =
        std::find_if(snapshots.begin(), snapshots.end(), [&](const SnapshotRecord& other) {
            return other.kind == SnapshotKind::delta &&
                   other.start_revision <= record.start_revision &&
                   other.last_revision >= record.start_revision;
        });
    // What another stores under a claim that was taken from it goes again, so its heir does not
    // rely on it.
    if (stored != snapshots.end() && (stored->key() == record.key() || !holds(parts_, key))) {
        return Claim{key, {}, *stored};
    }
    return take_over(key, text, listing, claiming);
}

// Somebody may have waited long enough for what is still on its way.
Result<void> Vault::still_holds(const Claim& claim) {
    const auto now = parts_.store.stat({claim.key});
    if (!now && now.error().code != Code::not_found) {
        return fail(now.error());
    }
    if (now && (claim.etag.empty() || now.value().etag == claim.etag)) {
        return ok();  // a store that gave no etag has nothing to compare
    }
    return fail(Code::conflict,
                claim.key +
                    " was taken over by another steward while this one was storing, so "
                    "this one gives it up");
}

}  // namespace capstan::steward
