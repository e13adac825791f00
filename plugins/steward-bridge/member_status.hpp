// What the member says about itself: the status of its EtcdMember, and when it is worth a write.
//
// Pure; time is handed in. Transitions are written at once, other values at most every
// kWriteGapMin, and unchanged facts are confirmed when half of a reader's age limit has passed
// (docs/architecture.md, "EtcdMember at rest").
#pragma once

#include "api/etcd_member.hpp"
#include "capstan/clock.hpp"
#include "plugins/steward-bridge/etcd_gateway.hpp"

#include <optional>
#include <string>

namespace capstan::steward {

inline constexpr std::size_t kTransitionsMax = 10;
inline constexpr std::size_t kMismatchesMax = 10;  // volumes kept in the status
inline constexpr std::chrono::seconds kWriteGapMin{5};
// after writes that failed, doubling; and four times what they took
inline constexpr std::chrono::seconds kRefusedFirst{1};
inline constexpr std::chrono::minutes kRefusedMax{2};
// what readers allow; refreshed after half of it
inline constexpr std::chrono::minutes kFactsAgeMax{10};

// What etcd was started with; "" where this process does not know.
struct Running {
    std::string config_hash;
    std::string endpoint;  // advertised client URL
    bool peer_tls{false};
};

class MemberStatus {
public:
    // Takes over what an earlier process reported.
    explicit MemberStatus(api::EtcdMemberStatus known = {})
        : known_(std::move(known)), written_(known_) {}

    bool has_record() const { return known_.id.has_value() && !known_.id->empty(); }
    const api::EtcdMemberStatus& get() const { return known_; }
    std::optional<api::MemberState> state() const;
    std::optional<api::MemberSubState> sub_state() const;

    // Appends unless state, sub-state and reason repeat the newest entry; the oldest
    // beyond kTransitionsMax go.
    void enter(api::MemberState state,
               std::optional<api::MemberSubState> sub_state,
               std::string reason,
               std::string message,
               WallTime now);
    // A fresh answer of the running etcd; enters Started with the right role.
    void observe(const EtcdStatus& status, const Running& running, WallTime now);
    // The data is being rebuilt, from a snapshot or from the cluster's leader.
    void restoration_begins(api::RestorationType type, std::string reason, WallTime now);
    // Ends the one that goes on; without one nothing happens.
    void restoration_ends(bool succeeded, std::string message, WallTime now);
    bool restoring() const;
    // A volume of somebody else is here, seen by `run` (a start of the member); counted once per
    // run.
    void volume_mismatch(const std::string& volume_id, const std::string& run, WallTime now);
    void volume_matches(WallTime now);
    // Sets or, with an empty reason, clears the condition `type`.
    void condition(std::string_view type, std::string reason, std::string message, WallTime now);

    // What is backed up; nullopt, nothing known: what was reported stays. A confirmation of the
    // same facts is written, too: readers take a block that is too old as unknown.
    void backups(const std::optional<api::Snapshots>& snapshots);
    // What maintenance did last in this process. nullopt, nothing yet: one that an earlier process
    // left unfinished is recorded as failed.
    void defragmentation(const std::optional<api::Defragmentation>& last, WallTime now);
    // Conditions for the alarms that etcd has raised on this member.
    void alarms(const std::vector<EtcdAlarm>& raised, WallTime now);

    // The status to write now, if any.
    std::optional<json::Value> due(MonotonicTime now) const;
    void written(MonotonicTime now);
    // A write that took from `begun` until `now` was refused or not answered: the next one waits,
    // longer each time and the longer it took.
    void refused(MonotonicTime begun, MonotonicTime now);
    bool reported() const { return written_.observed_at.has_value(); }
    // The object no longer holds what was written: all of it is due again.
    void lost();

private:
    bool urgent() const;  // something a reader waits for has changed
    bool backups_confirmed() const;
    api::EtcdMemberStatus known_;
    api::EtcdMemberStatus written_;
    std::optional<MonotonicTime> written_at_;
    std::chrono::nanoseconds pause_{0};  // of the last refusal
    MonotonicTime not_before_{};
    std::string mismatch_run_;  // the start that last met a foreign volume
};

}  // namespace capstan::steward
