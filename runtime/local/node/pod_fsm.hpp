// When the containers of a pod start again, and what phase that makes. Pure.
//
// The kubelet's rules: init containers one after the other, then all others; restartPolicy;
// back-off per container (1 s, doubling to 30 s here, where the kubelet has 10 s to 300 s). Source:
// Kubernetes' pod lifecycle page.
#pragma once

#include "capstan/clock.hpp"

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace capstan::local {

enum class RestartPolicy : std::uint8_t { always, on_failure, never };
RestartPolicy restart_policy_from(std::string_view text);  // unknown or empty: always

enum class Stage : std::uint8_t { never, running, ended };

struct ContainerFacts {
    bool init{false};
    bool skipped{false};  // an init container this machine has no use for: counts as done
    Stage stage{Stage::never};
    bool succeeded{false};      // of an ended one
    MonotonicTime ended_at{0};  // of an ended one
    int failures{0};            // consecutive short runs
};

enum class Phase : std::uint8_t { pending, running, succeeded, failed };
std::string_view to_string(Phase phase) noexcept;  // "Pending"

struct PodPlan {
    Phase phase{Phase::pending};
    bool initialized{false};
    std::vector<std::size_t> start;  // indexes, to be started now
    // per container: waiting for back-off until; 0: not waiting for it
    std::vector<MonotonicTime> start_at;
    MonotonicTime wake{kNever};  // the earliest of them
};

// Delay before the start that follows `failures` ended runs; 1 gives the first delay.
std::chrono::nanoseconds restart_delay(int failures);

// `containers`: init containers first, in order. Never starts anything in a pod that
// is Succeeded or Failed.
PodPlan plan_pod(RestartPolicy policy,
                 const std::vector<ContainerFacts>& containers,
                 MonotonicTime now);

}  // namespace capstan::local
