// What the HTTP API asks of the snapshotter, so that both can be tested alone.
#pragma once

#include "plugins/steward-bridge/snapshot/chain.hpp"
#include "plugins/steward-bridge/snapshot/record.hpp"

#include "capstan/plugin.hpp"

#include <chrono>
#include <cstdint>
#include <optional>

namespace capstan::steward {

class SnapshotAccess {
public:
    enum class State : std::uint8_t {
        no_store,   // no backups are configured
        elsewhere,  // the steward of the leading member takes them
        here,
    };
    virtual ~SnapshotAccess() = default;
    virtual State state() const = 0;
    virtual Result<SnapshotRecord> full(Call& call,
                                        bool final,
                                        std::chrono::nanoseconds timeout) = 0;
    // nullopt: nothing has changed since the newest snapshot
    virtual Result<std::optional<SnapshotRecord>> delta(Call& call,
                                                        std::chrono::nanoseconds timeout) = 0;
    virtual LatestSet latest() const = 0;
};

}  // namespace capstan::steward
