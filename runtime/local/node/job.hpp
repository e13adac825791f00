// The Job controller's decisions. Pure.
//
// Completions one after the other or side by side (parallelism), backoffLimit,
// activeDeadlineSeconds, suspend, ttlSecondsAfterFinished, and the conditions of Kubernetes:
// SuccessCriteriaMet and FailureTarget as soon as it is decided, Complete and Failed when no pod
// runs any more. The back-off between pods is 1 s doubling to 30 s. What is not supported (indexed
// completions, policies for pod failures and success) fails the job: reason NotSupported.
// Source: docs/local.md.
#pragma once

#include "capstan/clock.hpp"
#include "capstan/json.hpp"
#include "runtime/local/node/stateful_set.hpp"

#include <optional>
#include <vector>

namespace capstan::local {

struct JobPlan {
    std::optional<json::Value> pod;    // to be created; then look again
    std::vector<PodRemoval> removals;  // to be deleted
    bool remove_job{false};            // its time to live has passed
    json::Value status;                // whole and desired
    std::optional<WallTime> wake;      // when to look again, if nothing happens before
};

// `pods`: those controlled by the job.
JobPlan plan_job(const json::Value& job, const std::vector<const json::Value*>& pods, WallTime now);

}  // namespace capstan::local
