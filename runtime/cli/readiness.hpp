// Is an applied object what it asks for? By convention of its status alone, for any kind. Pure.
#pragma once

#include "capstan/json.hpp"

#include <string>
#include <vector>

namespace capstan::cli {

struct Readiness {
    bool ready{false};
    // a condition says that what is asked for cannot be done: waiting is no use
    bool refused{false};
    std::vector<std::string> awaits;  // "Etcd default/main: Ready: 1 of 3 members"
};

// Ready: observedGeneration has reached the generation, readyReplicas (where present) equals
// spec.replicas, and every condition that means readiness (Ready, AllMembersReady, Complete,
// Available) is True; a kind without status is ready as it is. `waits_for_status`: an object
// without any status counts as not ready yet.
Readiness readiness_of(const json::Value& object, bool waits_for_status);

// What the object itself says that hinders it, one line each: lastErrors, conditions that are False
// with a message, and the newest of its transitions (state, subState, reason, message) while that
// is not Started: "EtcdMember default/main-0: Initialized: StoreUnreachable: no answer from …".
// Conditions of readiness only tell the outcome and are left out.
std::vector<std::string> hindrances_of(const json::Value& object);

}  // namespace capstan::cli
