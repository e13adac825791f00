#include "plugins/steward-bridge/restore/store_objects.hpp"

#include <algorithm>
#include <vector>

namespace capstan::steward {
namespace {

// Whether a key lies in v1/, v2/ or capstan/ of the prefix itself.
bool is_below(std::string_view key, std::string_view prefix) {
    if (!prefix.empty()) {
        key.remove_prefix(std::min(prefix.size() + 1, key.size()));
    }
    return key.starts_with("v1/") || key.starts_with("v2/") || key.starts_with("capstan/");
}

void move_foreign(std::vector<SnapshotRecord>& records,
                  std::string_view prefix,
                  std::vector<SkippedKey>& skipped) {
    for (const SnapshotRecord& record : records) {
        if (!is_below(record.key(), prefix)) {
            skipped.push_back({record.key(), "it belongs to a prefix below this one"});
        }
    }
    std::erase_if(records, [&](const auto& record) { return !is_below(record.key(), prefix); });
}

SnapshotListing without_foreign(SnapshotListing listing, std::string_view prefix) {
    for (SkippedKey& skipped : listing.skipped) {
        if (!is_below(skipped.key, prefix)) {
            skipped.last_revision = 0;  // no promise of this backup
        }
    }
    move_foreign(listing.snapshots, prefix, listing.skipped);
    move_foreign(listing.parts, prefix, listing.skipped);
    std::erase_if(listing.fences, [&](const auto& fence) { return !is_below(fence.key, prefix); });
    std::erase_if(listing.marks, [&](const auto& mark) { return !is_below(mark.key, prefix); });
    return listing;
}

}  // namespace

Result<void> remove_written(ObjectStore& store, const std::string& key) {
    const auto info = store.stat({key});
    if (!info && info.error().code != Code::not_found) {
        return fail(info.error());
    }
    return info ? store.remove(info.value().name()) : Result<void>(ok());
}

Result<SnapshotListing> list_snapshots(ObjectStore& store,
                                       std::string_view prefix,
                                       const ListOptions& options) {
    CAPSTAN_TRY(const std::vector<ObjectInfo> infos, list_all(store, prefix, options));
    std::vector<ListedObject> objects;
    objects.reserve(infos.size());
    for (const ObjectInfo& info : infos) {
        ListedObject object{info.key, info.bytes, info.locked_until, {}};
        if (!info.version.empty()) {
            object.version_id = info.version;
        }
        objects.push_back(std::move(object));
    }
    return without_foreign(read_listing(objects), prefix);
}

}  // namespace capstan::steward
