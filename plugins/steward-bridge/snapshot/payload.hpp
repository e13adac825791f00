// A stored snapshot and its payload: the database of a full, the JSON of a delta. Puts the filters
// of this folder together.
#pragma once

#include "plugins/steward-bridge/snapshot/record.hpp"
#include "plugins/steward-bridge/stream/digest.hpp"
#include "plugins/steward-bridge/stream/stream.hpp"

#include "capstan/error.hpp"

#include <cstdint>
#include <memory>

namespace capstan::steward {

// The payload of a stored object: unpacked, without its trailer. What was read may be damaged until
// the end is reported: only then the digest and the size of a database are known to be right.
Result<std::unique_ptr<Source>> open_payload(std::unique_ptr<Source> stored,
                                             const SnapshotRecord& record,
                                             Digests& digests);

// Takes the payload of a delta; its finish() adds the trailer and finishes `stored`. A full comes
// from etcd with its trailer: pass it on with TrailerSource (keep) and compress().
Result<std::unique_ptr<Sink>> create_delta(std::unique_ptr<Sink> stored,
                                           Compression compression,
                                           Digests& digests);

struct VerifiedSnapshot {
    std::uint64_t payload_bytes{0};
    std::uint64_t events{0};  // of a delta
};

// Reads a stored object to its end: packing, digest, and for a delta every event and the range its
// name promises. Errors: damaged(), and those of `stored`.
Result<VerifiedSnapshot> verify_snapshot(std::unique_ptr<Source> stored,
                                         const SnapshotRecord& record,
                                         Digests& digests);

}  // namespace capstan::steward
