// The snapshots of an object store, for restoring.
#pragma once

#include "plugins/steward-bridge/restore/restoration.hpp"
#include "plugins/steward-bridge/store/store.hpp"

#include <string_view>

namespace capstan::steward {

// Everything below `prefix`, sorted into snapshots and what is none: snapshots of a prefix that
// begins with this one and goes on ("a/b" below "a") are skipped. Excluded objects stay unseen
// unless asked for.
Result<SnapshotListing> list_snapshots(ObjectStore& store,
                                       std::string_view prefix,
                                       const ListOptions& options = {});

// Removes what was just written under `key`, by its version where the store keeps them: without one
// it would only be marked, and still be what readers get.
Result<void> remove_written(ObjectStore& store, const std::string& key);

class StoreObjects final : public SnapshotObjects {
public:
    explicit StoreObjects(ObjectStore& store) : store_(store) {}  // borrowed

    Result<std::unique_ptr<Source>> open(const SnapshotRecord& record) override {
        return store_.open({record.key(), record.version_id.value_or("")}, 0);
    }

private:
    ObjectStore& store_;
};

}  // namespace capstan::steward
