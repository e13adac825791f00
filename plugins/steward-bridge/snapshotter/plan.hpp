// What the steward of the leading member does next about snapshots, and when.
//
// Pure: time and chance are handed in, results are reported back, nothing is done here. One object
// per term of leadership and configuration.
#pragma once

#include "plugins/steward-bridge/snapshot/histories.hpp"
#include "plugins/steward-bridge/snapshot/record.hpp"
#include "plugins/steward-bridge/snapshotter/config.hpp"

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace capstan::steward {

// What the store holds of this cluster's present history.
struct StoredChain {
    std::optional<SnapshotRecord> full;  // the newest
    std::vector<SnapshotRecord> deltas;  // that continue it, in order
    std::int64_t reaches{0};             // the last revision of them
    std::int64_t end{0};                 // of anything, also behind a gap
    // There are deltas behind a gap, or something nobody here can read, or names that contradict
    // each other.
    bool gap{false};
    bool foreign{false};  // all of it is of another Etcd, which had this prefix before
    std::string history;  // its name
    WallTime since{};     // what belongs to it is created from here on
    WallTime newest{};    // when the last of it was made, a full and a second
};
StoredChain stored_chain(const SnapshotListing& listing);
// What is stored next says a time from here on, so that times rise although clocks differ. A time
// far ahead of `now` is no such difference and is left behind.
WallTime not_before(const StoredChain& chain, WallTime now);

enum class FullReason : std::uint8_t {
    none,
    asked,
    scheduled,
    no_full,
    after_final,  // the newest full says the source was closed: it was not
    overdue,      // a time of the schedule has passed without one
    gap,
    rolled_back,  // etcd stands before what is stored, or was restored so: another history
    taken_over,   // what is stored is of another Etcd
    compacted,    // etcd no longer has what is not stored yet
    other_tools,  // a delta holds a revision that existing tools cannot restore
};
std::string_view to_string(FullReason reason) noexcept;  // "AfterFinal", static

// Etcd at revision `head` does not continue the chain. `left`: the history that a restoration of
// this etcd has left, if it did.
bool is_set_back(const StoredChain& chain, std::int64_t head, std::string_view left);

// Why taking leadership needs a full at once.
FullReason why_full(const StoredChain& chain,
                    std::int64_t head,
                    WallTime now,
                    const Schedule& schedule,
                    std::string_view left = {});

struct Moment {
    MonotonicTime mono{};
    WallTime wall{};
};

enum class Step : std::uint8_t {
    wait,         // until Action::until, or until something happens
    look,         // read the store and etcd's revision
    full,         // take one
    watch,        // open the watch where the stored chain ends
    flush,        // store what was watched
    check_watch,  // it is silent: has etcd gone on?
    collect,      // run retention
};

struct Action {
    Step step{Step::wait};
    FullReason reason{FullReason::none};
    MonotonicTime until{};
};

class SnapshotPlan {
public:
    // `schedule`: of `config`; `now`: leadership begins.
    SnapshotPlan(const SnapshotterConfig& config, Schedule schedule, Moment now);

    Action next(Moment now) const;

    // looked() would find nothing that is missing.
    bool would_continue(const StoredChain& chain,
                        std::int64_t head,
                        Moment now,
                        std::string_view left = {}) const {
        return why_full(chain, head, now.wall, schedule_, left) == FullReason::none;
    }
    // Gives why a full is needed at once, if one is.
    FullReason looked(const StoredChain& chain,
                      std::int64_t head,
                      Moment now,
                      double chance,
                      std::string_view left = {});
    void want_full(FullReason reason);  // in addition to the schedule
    void full_taken(Moment now, double chance);
    // Tried again later; deltas go on meanwhile where they continue something.
    void full_failed(Moment now, double chance);
    void watch_opened(Moment now);
    void heard(Moment now);  // anything of the watch, or that it has missed nothing
    void watch_closed() { watching_ = false; }
    // Everything that was watched is stored; also when there was nothing.
    void flushed(Moment now);
    void nothing_flushed(Moment now);         // and perhaps there was something
    void flush_soon() { flush_now_ = true; }  // over the memory limit, or asked for
    void collected(Moment now);
    void look_again();  // the store is not what was thought
    // Any step but a full one: all is tried again later, after longer and longer pauses.
    void failed(Moment now, double chance);
    void hurry();  // somebody asks now: no pause is waited for
    // The wall clock may have been set back since a full was planned: then it is planned anew.
    void follow_clock(Moment now, double chance);

    bool has_looked() const { return looked_; }
    bool chain_broken() const;  // deltas would continue nothing
    // Of failures since the last success; 0: all is well.
    std::int64_t failures() const { return failures_ + full_failures_; }
    std::optional<WallTime> next_full() const { return next_full_; }

private:
    void plan_full(Moment now, double chance);
    MonotonicTime pause_until(std::int64_t failures, Moment now, double chance) const;
    Action next_of_deltas(Moment now, MonotonicTime& until) const;

    const SnapshotterConfig config_;
    const Schedule schedule_;
    bool looked_{false};
    FullReason wanted_{FullReason::none};
    std::optional<WallTime> next_full_;
    WallTime planned_at_{};
    bool watching_{false};
    bool flush_now_{false};
    MonotonicTime next_flush_{}, next_collect_{}, heard_{};
    MonotonicTime retry_at_{}, full_retry_at_{};
    std::int64_t failures_{0}, full_failures_{0};
};

}  // namespace capstan::steward
