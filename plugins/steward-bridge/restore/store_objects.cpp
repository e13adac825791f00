#include "plugins/steward-bridge/restore/store_objects.hpp"

#include <vector>

namespace capstan::steward {

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
    return read_listing(objects);
}

}  // namespace capstan::steward
