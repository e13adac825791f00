// The running etcd as the snapshotter needs it: revision, snapshot, watch, leases.
//
// An interface, so that tests need no etcd and another transport may follow. Errors: unavailable
// and timeout (etcd, or the way to it), forbidden (credentials), expired (compacted), invalid (an
// answer that is none), cancelled. Thread: one at a time.
#pragma once

#include "plugins/steward-bridge/snapshot/delta_event.hpp"
#include "plugins/steward-bridge/stream/stream.hpp"

#include "capstan/clock.hpp"
#include "capstan/error.hpp"
#include "capstan/json.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

namespace capstan::steward {

struct EtcdHead {
    std::int64_t revision{0};
    bool leads{false};  // the member asked is the leader
};

// One answer of the watch; move only, as the changes point into the document.
struct WatchMessage {
    WatchMessage() = default;
    WatchMessage(WatchMessage&&) noexcept = default;
    WatchMessage& operator=(WatchMessage&&) noexcept = default;

    // Of the header. When there are no changes: everything up to it has been sent.
    std::int64_t revision{0};
    bool created{false};
    bool more{false};  // another piece of the same answer follows: a revision may be cut here
    std::vector<DeltaChange> changes;
    std::unique_ptr<const json::Value> document;
};

// Lives no longer than the client it is of.
class WatchStream {
public:
    virtual ~WatchStream() = default;

    // False: nothing came until then, the watch goes on. Any error ends it; expired: what it was
    // to start with is compacted.
    virtual Result<bool> next(WatchMessage& message, MonotonicTime until) = 0;
};

struct EtcdSnapshot {
    // The database and its trailer. Its content is settled: it holds every revision that the
    // member had before the call, and none that it had not after it.
    std::unique_ptr<Source> bytes;
    std::uint64_t bytes_about{0};
};

class EtcdClient {
public:
    virtual ~EtcdClient() = default;

    // `linearizable`: not below any revision that anybody has seen before.
    virtual Result<EtcdHead> head(bool linearizable) = 0;
    virtual Result<EtcdSnapshot> snapshot() = 0;
    // The whole keyspace from `start` on, in pieces, with progress.
    virtual Result<std::unique_ptr<WatchStream>> watch(std::int64_t start) = 0;
    // Seconds as granted; nullopt: there is no such lease (any more).
    virtual Result<std::optional<std::int64_t>> lease_ttl(std::int64_t id) = 0;
};

// One line of the gateway's watch, without its line end. Errors: expired (compacted), unavailable
// (ended by the server: says why), invalid.
Result<WatchMessage> parse_watch_line(std::string_view line);

}  // namespace capstan::steward
