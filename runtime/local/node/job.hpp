// The Job controller's decisions, for jobs with one completion. Pure.
//
// backoffLimit, activeDeadlineSeconds, suspend, ttlSecondsAfterFinished and the conditions Complete
// and Failed as in Kubernetes; the back-off between pods is 1 s doubling to 30 s. More than one
// completion: condition Failed, reason NotSupported. Source: docs/local.md.
#pragma once

#include "capstan/clock.hpp"
#include "capstan/json.hpp"
#include "runtime/local/node/stateful_set.hpp"

#include <optional>
#include <vector>

namespace capstan::local {

struct JobPlan {
    std::optional<json::Value> pod;    // to be created
    std::vector<PodRemoval> removals;  // to be deleted
    bool remove_job{false};            // its time to live has passed
    json::Value status;                // whole and desired
    std::optional<WallTime> wake;      // when to look again, if nothing happens before
};

JobPlan plan_job(const json::Value& job, const std::vector<const json::Value*>& pods, WallTime now);

}  // namespace capstan::local
