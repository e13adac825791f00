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

}  // namespace capstan::cli
