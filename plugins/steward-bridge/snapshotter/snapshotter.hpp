// Snapshots of this member's cluster: what others ask of the service that takes them, and what they
// may know.
//
//     auto taken = snapshotter.request_full(call, true, std::chrono::minutes(15));
//     const SnapshotterView seen = snapshotter.view();
//
// Only the steward of the leading member takes any. One service thread does the work, everybody
// else waits in his own call. Owns its mutex. Thread: any.
#pragma once

#include "plugins/steward-bridge/snapshot/chain.hpp"
#include "plugins/steward-bridge/snapshot/record.hpp"
#include "plugins/steward-bridge/snapshotter/config.hpp"

#include "capstan/http.hpp"
#include "capstan/plugin.hpp"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

namespace capstan::steward {

inline constexpr std::size_t kSnapshotRequestsMax = 64;  // waiting at once
// A leader that does not answer so often in a row leads no more for us; a slow moment of etcd ends
// nothing.
inline constexpr int kUnknownRolesMax = 3;

enum class Role : std::uint8_t { unknown, follower, learner, leader };

// How the steward reaches the etcd beside it.
struct EtcdAccess {
    std::string endpoint;  // "http://127.77.0.2:2379", already mapped
    HttpTls tls;
    std::string data_directory;  // its data, likewise; "": not known
};

// What is in the store, as far as this steward knows: written or read by it since it leads.
struct SnapshotFacts {
    std::optional<SnapshotRecord> full;  // the newest
    std::vector<SnapshotRecord> deltas;  // after it, in order
    std::uint64_t full_bytes{0};         // of the database; 0: not known
    std::uint64_t last_delta_bytes{0};   // before compression; 0: not known
    std::uint64_t delta_bytes{0};        // of all `deltas`, before compression as far as known
    std::optional<WallTime> observed_at;
    bool set_back{false};  // the cluster was, before the history these are of
    // Up to here everything is backed up, also what needed no delta (progress of the watch).
    std::int64_t reached{0};

    const SnapshotRecord* newest() const {
        return !deltas.empty() ? &deltas.back() : full ? &*full : nullptr;
    }
};

enum class SnapshotterState : std::uint8_t {
    no_store,  // no backups are configured
    stopped,   // this member does not lead
    starting,  // leads; looks what the store holds, or takes the first snapshot
    running,
    failing,  // tries again later
};
std::string_view to_string(SnapshotterState state) noexcept;

struct SnapshotterView {
    SnapshotterState state{SnapshotterState::no_store};
    std::string reason;   // TitleCase; empty while all is well
    std::string message;  // one sentence, with the remedy
    SnapshotFacts facts;
    // Changes with every change of the above: what is worth a report.
    std::uint64_t version{0};
};

class Snapshotter {
public:
    explicit Snapshotter(const HostTables& host);  // borrowed; outlives *this
    Snapshotter(const Snapshotter&) = delete;
    Snapshotter& operator=(const Snapshotter&) = delete;

    // Takes one and waits for it in the caller's call. A final one that would repeat the newest
    // final full gives that. Errors: unsupported (no store), unavailable (does not lead: the
    // leader's steward takes it; or why it failed), overloaded, timeout (it may still be taken),
    // cancelled.
    Result<SnapshotRecord> request_full(Call& call, bool final, std::chrono::nanoseconds timeout);
    // nullopt: nothing has changed since the newest snapshot. Errors: as above; unsupported also
    // when deltas are off.
    Result<std::optional<SnapshotRecord>> request_delta(Call& call,
                                                        std::chrono::nanoseconds timeout);

    SnapshotterView view() const;
    std::uint64_t version() const;  // of view(), which copies all of it
    LatestSet latest() const;       // of view().facts
    bool backups() const;           // a store is configured
    bool leads() const;             // this member does, so requests are answered here

    // Told after each look at etcd; the same again costs nothing. What is under way stops at once
    // when the member no longer leads.
    void on_role(Role role);
    // The member's etcd is started anew, so it leads nothing until it answers: the term ends at
    // once, without the patience of on_role().
    void end_term();
    // Nothing of an earlier term comes into the store any more.
    bool at_rest() const;
    // nullopt: not known (yet). A change starts the service anew.
    void configure(std::optional<SnapshotterConfig> config, EtcdAccess etcd);

    // --- for the service -------------------------------------------------------------------------

    struct Ask {
        bool full{true};
        bool final{false};
        Token done;
        std::mutex mutex;
        std::optional<Result<std::optional<SnapshotRecord>>> answer;  // guarded by mutex
    };
    struct Orders {
        Role role{Role::unknown};
        EtcdAccess etcd;
        std::optional<SnapshotterConfig> config;
        // Rises with every change of role and configuration: work begun under another one stops.
        std::uint64_t term{0};
    };
    Orders orders() const;
    std::uint64_t term() const noexcept { return term_.load(std::memory_order_acquire); }
    Token& wake() noexcept { return wake_; }
    // Not at rest from the first to the second. False: the term is over already.
    bool begin_work(std::uint64_t term);
    void end_work();
    // The last term ended without an answer of etcd, and there was none since: what the term held
    // in memory is nowhere else, if the data is lost, too.
    bool etcd_gone() const;
    // Errors: as request_full, at once.
    Result<std::shared_ptr<Ask>> enqueue(bool full, bool final);
    std::shared_ptr<Ask> take_ask();  // nullptr: none
    static void answer(Ask& ask, Result<std::optional<SnapshotRecord>> result);
    void refuse_asks(const Error& why);  // all that wait
    void publish(SnapshotterState state, std::string reason, std::string message);
    void publish(const SnapshotFacts& facts);

private:
    Result<std::optional<SnapshotRecord>> ask(Call& call,
                                              bool full,
                                              bool final,
                                              std::chrono::nanoseconds timeout);
    void changed();  // requires: mutex_ held

    const HostTables& host_;
    Token wake_;
    std::atomic<std::uint64_t> term_{0};
    mutable std::mutex mutex_;
    Orders orders_;  // guarded by mutex_, as all below
    SnapshotterView view_;
    std::deque<std::shared_ptr<Ask>> asks_;
    int unknown_in_a_row_{0};
    bool working_{false}, etcd_gone_{false};
};

}  // namespace capstan::steward
