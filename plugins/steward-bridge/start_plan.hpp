// How a member decides to start, wait, join or give up: the table everything's safety hangs on.
//
// Pure. Source: docs/architecture.md, "Start of a member". This first form performs start,
// bootstrap and wait; what needs a learner or a restoration is decided here and refused with
// a reason by the caller.
#pragma once

#include "plugins/steward-bridge/data_directory.hpp"

#include <cstdint>
#include <string>

namespace capstan::steward {

struct StartFacts {
    // status.id of the EtcdMember, or a holder in the member lease
    bool has_record{false};
    enum class List {
        unreachable,
        member,
        member_never_started,
        not_member
    } list{List::unreachable};
    DataDirectory data;
    bool store_configured{false};
    std::int64_t replicas{1};
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

StartDecision decide_start(const StartFacts& facts);

}  // namespace capstan::steward
