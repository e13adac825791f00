// How a member decides to start, wait, join, be restored or give up: the table everything's safety
// hangs on.
//
// Pure. Source: docs/architecture.md, "Start of a member". Whatever is unknown, data that may be
// the last copy is never replaced, and no cluster is made where one may have been.
#pragma once

#include "plugins/steward-bridge/data/data_directory.hpp"
#include "plugins/steward-bridge/data/data_owner.hpp"

#include <cstdint>
#include <string>

namespace capstan::steward {

struct StartFacts {
    // status.id of the EtcdMember, or a holder in the member lease
    bool has_record{false};
    // annotation create-as-learner: added to a cluster that was running already
    bool learner_mark{false};
    enum class List : std::uint8_t {
        unreachable,
        member,
        member_never_started,
        learner,
        not_member
    } list{List::unreachable};
    // Enough of the other voters answer to go on without this one. Looked at only when listed.
    bool quorum_without_me{false};
    DataDirectory data;
    OwnerVerdict owner;
    enum class Store : std::uint8_t {
        none,
        unreachable,
        empty,
        has_backups,
        foreign,  // has backups, of another Etcd
    } store{Store::none};
    std::string store_problem;  // for unreachable and foreign
    std::int64_t replicas{1};
    bool first{true};  // ordinal 0: the one that restores a cluster of several
    // The member whose lease has a holder, so that the cluster ran; "": none. Looked at only where
    // this one would restore it.
    std::string other_ran;
};

enum class StartDo : std::uint8_t {
    start,           // with the data there is
    bootstrap,       // new cluster, full initial cluster
    join,            // never started member of a running cluster: initial-cluster-state existing
    rejoin_learner,  // remove the own entry, come back as learner
    become_learner,
    restore,
    wait,  // never guess
    fail,
};

struct StartDecision {
    StartDo what{StartDo::wait};
    std::string reason;   // for a condition: "DataInvalid"
    std::string message;  // one sentence
};

// The data can be started with: whole, and of the member's present life.
bool usable(const StartFacts& facts);

StartDecision decide_start(const StartFacts& facts);

// Only these look at the store: nobody else's start depends on it.
bool needs_store(const StartFacts& facts);
// Only these look at the leases of others.
bool needs_others(const StartFacts& facts);

}  // namespace capstan::steward
