// Watched selections of the cluster: started by handles, shared, removed with their last handle.
//
// watch() starts (or joins) the watch of a selection. Reads go to its Store and never start
// anything. Events are delivered on the loop, after the store shows them. A kind that is missing or
// forbidden degrades only its own watch, and heals by itself. Thread: [io] unless tagged.
#pragma once

#include "capstan/error.hpp"
#include "capstan/object_ref.hpp"
#include "runtime/cache/reflector_fsm.hpp"
#include "runtime/cache/store.hpp"
#include "runtime/kube/client.hpp"
#include "runtime/net/loop.hpp"

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace capstan::cache {

inline constexpr std::size_t kWatchesMax = 512;

// What is watched. Equal specs share one stream and one store.
struct WatchSpec {
    GroupVersionKind gvk;
    std::string ns;  // empty: all namespaces, or cluster-scoped
    std::string label_selector;
    std::string field_selector;  // "metadata.name=main" to watch one object
    kube::Projection projection;
    auto operator<=>(const WatchSpec&) const = default;
};

enum class SyncState : std::uint8_t { pending, live, degraded };
std::string_view to_string(SyncState state) noexcept;

struct WatchState {
    SyncState state{SyncState::pending};
    bool synced{false};  // the store has held a complete first state
    // Why not live: "Lease: forbidden: list leases.coordination.k8s.io in namespace x";
    // empty when live.
    std::string reason;
    std::size_t objects{0};
    std::size_t bytes{0};
    std::string resource_version;
    MonotonicTime last_event{kNever};  // object, bookmark or page; kNever: none yet
    MonotonicTime last_bytes{kNever};  // anything at all from the server
};

// Log lines, metrics. Called on the loop.
class CacheObserver {
public:
    virtual ~CacheObserver() = default;
    virtual void log(const WatchSpec& spec, const LogLine& line) = 0;
    // A first state is asked for. reason: "first", "expired", "error", "older", "fallback"; for
    // capstan_cache_lists_total{gvk,reason}.
    virtual void listed(const WatchSpec& spec, std::string_view reason) = 0;
    // A stream ended. reason: "ended" (by the server, in order), "silent" (our deadline passed), or
    // the code of the error; for capstan_cache_watch_ends_total{gvk,reason}.
    virtual void watch_ended(const WatchSpec& /*spec*/, std::string_view /*reason*/) {}
};

// [io]; must not block; may drop its own handle
using Subscriber = std::function<void(const Event&)>;
using StateChanged = std::function<void(const WatchState&)>;

// Keeps one subscription and, with the others, its watch. Dropping it: no event follows. [io]
class WatchHandle {
public:
    virtual ~WatchHandle() = default;
    virtual const WatchSpec& spec() const noexcept = 0;
    virtual WatchState state() const = 0;
    // For reads from any thread; stays valid (and still) after the watch has gone. [any]
    virtual std::shared_ptr<const Store> store() const = 0;
    // The initial events of this subscriber have been delivered.
    virtual bool delivered() const noexcept = 0;
};

struct WatchRequest {
    WatchSpec spec;
    std::vector<IndexSpec> indexes;
    Subscriber on_event;    // may be empty: only the store is wanted
    StateChanged on_state;  // may be empty; on every change of state, synced or reason
};

struct CacheOptions {
    ReflectorOptions reflector;
    ReflectorFsm::Random random;       // [0, 1); required
    CacheObserver* observer{nullptr};  // borrowed; may be nullptr
};

class Cache {
public:
    Cache(net::Loop& loop, kube::Client& client, CacheOptions options);  // borrowed; outlive *this
    ~Cache();                                                            // requires: no handle left
    Cache(const Cache&) = delete;
    Cache& operator=(const Cache&) = delete;

    // Whether watches opened from now on may ask for their first state by one list
    // (ReflectorOptions::whole_list).
    void prefer_whole_lists(bool prefer);

    // A late subscriber gets the present content as creates (initial). Errors: invalid (selector),
    // too_large.
    Result<std::unique_ptr<WatchHandle>> watch(WatchRequest request);

    // Reads over all watches of a kind. Errors: invalid ("v1/Pod is not watched"), unavailable ("…
    // is not synced yet"), not_found. [any]
    Result<ObjectPtr> get(const GroupVersionKind& gvk, const ObjectKey& key) const;
    // From the first watch that covers the namespace and has no selector, else invalid ("not
    // watched as a whole"). [any]
    Result<std::vector<ObjectPtr>> list(const GroupVersionKind& gvk,
                                        const ListQuery& query = {}) const;

    // After a successful write of ours: reads show at least this version until the watch catches
    // up. [any]
    void note_write(const GroupVersionKind& gvk, const ObjectPtr& written);
    void note_delete(const GroupVersionKind& gvk, const ObjectKey& key, std::string_view uid);
    // Every watch of the kind that covers the key shows version `rv` or later. [any]
    bool reached(const GroupVersionKind& gvk, const ObjectKey& key, std::string_view rv) const;

    std::vector<std::pair<WatchSpec, WatchState>> states() const;  // for readiness, metrics

private:
    struct State;
    std::shared_ptr<State> state_;
};

}  // namespace capstan::cache
