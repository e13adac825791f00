// The keys a backup holds at a revision, as JSON, without restoring it:
// {"revision":…,"count":…,"kvs":[{"key":…,"create_revision":…,"mod_revision":…,"version":…,
// "value":…,"lease":…}, …]}, in the order of keys; key and value in base64, zeros and empty values
// left out.
#pragma once

#include "plugins/steward-bridge/restore/restoration.hpp"

namespace capstan::steward {

// All keys together; values are read one at a time.
inline constexpr std::size_t kDumpKeyBytesMax = std::size_t{512} << 20;

// Writes into `to` and finishes it. Disk and errors as for compact(); too_large: restore it and ask
// an etcd.
Result<RestoreReport> dump(const SnapshotListing& listing,
                           SnapshotObjects& objects,
                           Digests& digests,
                           Sink& to,
                           const RestoreOptions& options);

}  // namespace capstan::steward
