// The snapshotter as the HTTP API sees it.
#pragma once

#include "plugins/steward-bridge/api/snapshot_access.hpp"
#include "plugins/steward-bridge/snapshotter/snapshotter.hpp"

namespace capstan::steward {

class SnapshotterAccess final : public SnapshotAccess {
public:
    // borrowed; outlives *this
    explicit SnapshotterAccess(Snapshotter& snapshotter) noexcept : snapshotter_(snapshotter) {}
    State state() const override {
        if (!snapshotter_.backups()) {
            return State::no_store;
        }
        // One that starts or tries again answers itself: its error says more than another member.
        return snapshotter_.leads() ? State::here : State::elsewhere;
    }
    Result<SnapshotRecord> full(Call& call, bool final, std::chrono::nanoseconds timeout) override {
        return snapshotter_.request_full(call, final, timeout);
    }
    Result<std::optional<SnapshotRecord>> delta(Call& call,
                                                std::chrono::nanoseconds timeout) override {
        return snapshotter_.request_delta(call, timeout);
    }
    LatestSet latest() const override { return snapshotter_.latest(); }

private:
    Snapshotter& snapshotter_;
};

}  // namespace capstan::steward
