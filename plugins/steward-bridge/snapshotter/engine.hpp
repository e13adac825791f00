// Carries out the plan of snapshots while this member leads: one object per term.
//
// Everything it touches is an interface, so tests drive it step by step without an etcd, a host or
// time. Thread: one.
#pragma once

#include "plugins/steward-bridge/snapshotter/delta_buffer.hpp"
#include "plugins/steward-bridge/snapshotter/metrics.hpp"
#include "plugins/steward-bridge/snapshotter/plan.hpp"
#include "plugins/steward-bridge/snapshotter/snapshotter.hpp"
#include "plugins/steward-bridge/snapshotter/store_claim.hpp"
#include "plugins/steward-bridge/snapshotter/vault.hpp"

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace capstan::steward {

// How long one wait for the watch may keep requests and changes of role waiting.
inline constexpr std::chrono::milliseconds kWatchSlice{250};
inline constexpr std::size_t kLeasesKnownMax = 100'000;
// A watch that breaks off this often without a word in between is trouble; an etcd that restarts is
// not.
inline constexpr std::int64_t kWatchFailuresQuiet = 4;

struct EngineParts {
    EtcdClient& etcd;
    Vault& vault;
    Digests& digests;
    Pace& pace;
    Snapshotter& face;
    SnapshotMetrics& metrics;
    std::function<MonotonicTime()> now;
    // Fails once leadership or the configuration has changed, or the steward stops.
    Guard guard;
    std::function<void(LogLevel, std::string_view, const json::Value&)> log;
    // After a snapshot was stored, or when none was needed: what the leases say.
    std::function<void(const SnapshotFacts&)> confirmed;
    // The history this etcd's data has left when it was restored; "": none, or not known.
    std::function<Result<std::string>()> left_history{};
    std::function<void()> forget_left_history{};  // another one goes on by now
    StoreClaim* claim{nullptr};                   // whose the prefix is; borrowed
};

class SnapshotEngine {
public:
    SnapshotEngine(EngineParts parts, const SnapshotterConfig& config, Schedule schedule);
    ~SnapshotEngine();  // refuses who still waits

    // Does what is due. Gives until when nothing will be, unless somebody asks; with a watch open
    // it waits for that itself, for a slice. Errors: cancelled (the term is over); everything else
    // is reported and tried again.
    Result<MonotonicTime> step();
    // The etcd that was watched is gone: what only this process still knows of it is stored, tried
    // once. Nothing follows.
    void close();

private:
    using Asks = std::vector<std::shared_ptr<Snapshotter::Ask>>;

    Moment moment() const { return {parts_.now(), parts_.pace.wall_now()}; }
    void take_asks();
    Result<void> carry_out(const Action& action);
    // False: the prefix is another Etcd's by now, and this term stores nothing more in it.
    Result<bool> keep_claim();
    Result<void> look();
    Result<StoredChain> look_at_store();
    Result<void> look_failed(std::string_view what, const Error& error);
    Result<bool> verify_newest(const StoredChain& chain);
    // Nothing of `chain` is continued: it becomes that of a new history, without anything yet.
    Result<void> begin_history(const EtcdHead& head, StoredChain& chain);
    WallTime created_now() const { return std::max(parts_.pace.wall_now(), not_before_); }
    Result<void> take_full(FullReason reason);
    Result<void> open_watch();
    Result<void> read_watch(MonotonicTime until);
    Result<void> take_in(const WatchMessage& message);
    Result<void> check_watch();
    Result<void> flush();
    Result<void> catch_up();  // with what etcd has now; for who asks for a delta
    Result<void> seal();
    Result<void> store_sealed();
    Result<void> collect();
    Result<void> start_buffer(std::int64_t start);
    void full_stored(const FullTaken& taken);
    void delta_stored(const DeltaStored& stored);
    Result<void> lost_watch(const Error& error);
    // What went wrong: metric, log, state. Gives `cancelled` back, nothing else.
    Result<void> failed(std::string_view what, const Error& error);
    void confirm();
    void answer(Asks& asks, const Result<std::optional<SnapshotRecord>>& result);
    std::optional<std::int64_t> lease_ttl(std::int64_t id);
    Guard guard_until(MonotonicTime deadline) const;

    const EngineParts parts_;
    const SnapshotterConfig config_;
    SnapshotPlan plan_;
    SnapshotFacts facts_;
    bool set_back_{false};                 // as in facts_
    WallTime not_before_{};                // what is created next says at least this time
    std::unique_ptr<DeltaBuffer> buffer_;  // what follows sealed_, or the stored chain
    std::optional<SealedDelta> sealed_;    // not stored yet
    std::unique_ptr<WatchStream> watch_;
    bool heard_{false};  // anything of watch_ since it was opened
    Asks full_asks_, delta_asks_;
    bool final_asked_{false};
    std::map<std::int64_t, std::int64_t> leases_;  // granted seconds, by id
    std::set<std::int64_t> leases_gone_;           // of buffer_
    MonotonicTime ask_leases_from_{};
    bool stored_since_collect_{true};
    std::optional<MonotonicTime> collected_at_, uploads_collected_at_;
    std::string last_problem_, watch_problem_;
};

}  // namespace capstan::steward
