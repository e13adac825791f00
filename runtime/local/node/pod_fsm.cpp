#include "runtime/local/node/pod_fsm.hpp"

#include "runtime/local/node/node.hpp"

#include <algorithm>

namespace capstan::local {
namespace {

bool restarts(RestartPolicy policy, const ContainerFacts& facts) {
    if (facts.init) {
        return !facts.succeeded && policy != RestartPolicy::never;
    }
    return policy == RestartPolicy::always ||
           (policy == RestartPolicy::on_failure && !facts.succeeded);
}

void start_or_wait(PodPlan& plan,
                   const std::vector<ContainerFacts>& containers,
                   std::size_t index,
                   MonotonicTime now) {
    const auto& facts = containers[index];
    const auto at =
        facts.stage == Stage::never ? now : facts.ended_at + restart_delay(facts.failures);
    if (at <= now) {
        plan.start.push_back(index);
    } else {
        plan.start_at[index] = at;
        plan.wake = std::min(plan.wake, at);
    }
}

Phase phase_of(RestartPolicy policy, const std::vector<ContainerFacts>& containers) {
    bool all_ended = true;
    bool all_succeeded = true;
    bool any_started = false;
    for (const auto& facts : containers) {
        if (facts.init) {
            continue;
        }
        any_started = any_started || facts.stage != Stage::never;
        all_ended = all_ended && facts.stage == Stage::ended && !restarts(policy, facts);
        all_succeeded = all_succeeded && facts.succeeded;
    }
    if (all_ended) {
        return all_succeeded ? Phase::succeeded : Phase::failed;
    }
    return any_started ? Phase::running : Phase::pending;
}

}  // namespace

RestartPolicy restart_policy_from(std::string_view text) {
    if (text == "Never") {
        return RestartPolicy::never;
    }
    return text == "OnFailure" ? RestartPolicy::on_failure : RestartPolicy::always;
}

std::string_view to_string(Phase phase) noexcept {
    switch (phase) {
        case Phase::pending: return "Pending";
        case Phase::running: return "Running";
        case Phase::succeeded: return "Succeeded";
        case Phase::failed: return "Failed";
    }
    return "Unknown";
}

std::chrono::nanoseconds restart_delay(int failures) {
    std::chrono::nanoseconds delay = kRestartDelayFirst;
    for (int i = 1; i < failures && delay < kRestartDelayMax; ++i) {
        delay *= 2;
    }
    return std::min<std::chrono::nanoseconds>(delay, kRestartDelayMax);
}

PodPlan plan_pod(RestartPolicy policy,
                 const std::vector<ContainerFacts>& containers,
                 MonotonicTime now) {
    PodPlan plan;
    plan.start_at.assign(containers.size(), MonotonicTime{0});
    // Once a main container exists the init containers have done their work,
    // whatever is known about them.
    const bool past_init =
        std::any_of(containers.begin(), containers.end(), [](const ContainerFacts& facts) {
            return !facts.init && facts.stage != Stage::never;
        });
    for (std::size_t i = 0; i < containers.size() && !past_init; ++i) {
        const auto& facts = containers[i];
        if (!facts.init) {
            break;
        }
        if (facts.skipped || (facts.stage == Stage::ended && facts.succeeded)) {
            continue;
        }
        if (facts.stage == Stage::ended && !restarts(policy, facts)) {
            plan.phase = Phase::failed;
            return plan;
        }
        if (facts.stage != Stage::running) {
            start_or_wait(plan, containers, i, now);
        }
        return plan;
    }
    plan.initialized = true;
    plan.phase = phase_of(policy, containers);
    if (plan.phase == Phase::succeeded || plan.phase == Phase::failed) {
        return plan;
    }
    for (std::size_t i = 0; i < containers.size(); ++i) {
        const auto& facts = containers[i];
        if (!facts.init && (facts.stage == Stage::never ||
                            (facts.stage == Stage::ended && restarts(policy, facts)))) {
            start_or_wait(plan, containers, i, now);
        }
    }
    return plan;
}

}  // namespace capstan::local
