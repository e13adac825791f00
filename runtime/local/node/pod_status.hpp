// What status a pod gets from what its containers do. Pure.
#pragma once

#include "capstan/clock.hpp"
#include "capstan/json.hpp"
#include "runtime/local/node/container_record.hpp"
#include "runtime/local/node/pod_fsm.hpp"

#include <string>
#include <vector>

namespace capstan::local {

struct ContainerView {
    const json::Value* spec{nullptr};
    bool init{false};
    bool skipped{false};
    bool running{false};
    bool started{false};
    bool ready{false};
    const ContainerRecord* record{nullptr};
    std::string waiting_reason;  // when it does not run: "CrashLoopBackOff", "ImageNotUsable" …
    std::string waiting_message;
};

struct PodStatusInput {
    // for the present conditions: their times stay while their status does
    const json::Value* pod{nullptr};
    std::string pod_ip;  // empty: none yet
    WallTime started{};  // of the pod on this node
    WallTime now{};
    Phase phase{Phase::pending};
    bool initialized{false};
    std::vector<ContainerView> containers;  // init containers first
};

json::Value build_pod_status(const PodStatusInput& input);

}  // namespace capstan::local
