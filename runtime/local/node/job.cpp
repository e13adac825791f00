#include "runtime/local/node/job.hpp"

#include "runtime/local/node/objects.hpp"
#include "runtime/local/node/pod_fsm.hpp"

#include <algorithm>

namespace capstan::local {
namespace {

struct Counts {
    int active{0};
    int ready{0};
    int succeeded{0};
    int failed{0};
    std::int64_t restarts{0};  // of active pods
    WallTime last_failure{};
};

WallTime finished_at(const json::Value& pod) {
    WallTime last{};
    const auto statuses = json::View(pod)["status"]["containerStatuses"];
    for (const auto& status : statuses.array()) {
        const auto text = json::View(status)["state"]["terminated"]["finishedAt"].string_or("");
        last = std::max(last, parse_rfc3339(text).value_or(WallTime{}));
    }
    return last;
}

Counts count(const std::vector<const json::Value*>& pods) {
    Counts counts;
    for (const auto* pod : pods) {
        const auto phase = phase_of(*pod);
        if (phase == "Succeeded") {
            ++counts.succeeded;
        } else if (phase == "Failed") {
            ++counts.failed;
            counts.last_failure = std::max(counts.last_failure, finished_at(*pod));
        } else if (!is_deleting(*pod)) {
            ++counts.active;
            counts.ready += is_pod_ready(*pod) ? 1 : 0;
            const auto statuses = json::View(*pod)["status"]["containerStatuses"];
            for (const auto& status : statuses.array()) {
                counts.restarts += json::View(status)["restartCount"].int_or(0);
            }
        }
    }
    return counts;
}

const json::Value* condition(const json::Value& job, std::string_view type) {
    const auto* conditions = job.pointer("/status/conditions");
    if (conditions == nullptr || !conditions->is_array()) {
        return nullptr;
    }
    for (const auto& entry : *conditions->if_array()) {
        if (json::View(entry)["type"].string_or("") == type &&
            json::View(entry)["status"].string_or("") == "True") {
            return &entry;
        }
    }
    return nullptr;
}

void finish(JobPlan& plan,
            WallTime now,
            std::string_view type,
            std::string_view reason,
            std::string_view message) {
    const auto time = to_rfc3339(now);
    plan.status["conditions"].push_back({
        {"type", type},
        {"status", "True"},
        {"reason", reason},
        {"message", message},
        {"lastProbeTime", time},
        {"lastTransitionTime", time},
    });
    if (type == "Complete") {
        plan.status.set("completionTime", time);
    }
}

void remove_active(JobPlan& plan, const std::vector<const json::Value*>& pods) {
    for (const auto* pod : pods) {
        if (phase_of(*pod) != "Succeeded" && phase_of(*pod) != "Failed" && !is_deleting(*pod)) {
            plan.removals.push_back({key_of(*pod).name, uid_of(*pod)});
        }
    }
}

json::Value build_pod(const json::Value& job) {
    const auto key = key_of(job);
    const auto* pod_template = job.pointer("/spec/template");
    const auto* meta = pod_template == nullptr ? nullptr : pod_template->find("metadata");
    const auto* spec = pod_template == nullptr ? nullptr : pod_template->find("spec");
    json::Value metadata = meta != nullptr && meta->is_object() ? *meta : json::object();
    metadata.erase("name");
    metadata.set("generateName", key.name + "-");
    metadata.set("namespace", key.ns);
    auto& labels = metadata["labels"];
    for (const std::string_view prefix : {"", "batch.kubernetes.io/"}) {
        labels.set(std::string(prefix) + "job-name", key.name);
        labels.set(std::string(prefix) + "controller-uid", uid_of(job));
    }
    metadata.set("ownerReferences", json::list({controller_reference(kJobKind, job)}));
    return {
        {"apiVersion", "v1"},
        {"kind", "Pod"},
        {"metadata", std::move(metadata)},
        {"spec", spec == nullptr ? json::object() : *spec},
    };
}

void plan_end_of_life(JobPlan& plan, const json::Value& job, WallTime now) {
    const json::View view(job);
    const auto* end = condition(job, "Complete") != nullptr ? condition(job, "Complete")
                                                            : condition(job, "Failed");
    const auto ttl = view["spec"]["ttlSecondsAfterFinished"];
    if (!ttl.present()) {
        return;
    }
    const auto since =
        parse_rfc3339(json::View(*end)["lastTransitionTime"].string_or("")).value_or(now);
    const auto at =
        since + std::chrono::seconds(std::clamp<std::int64_t>(ttl.int_or(0), 0, 10'000'000));
    if (at <= now) {
        plan.remove_job = true;
    } else {
        plan.wake = at;
    }
}

void plan_next_pod(
    JobPlan& plan, const json::Value& job, const Counts& counts, int failed, WallTime now) {
    if (counts.active > 0) {
        return;
    }
    const auto at = counts.last_failure + restart_delay(failed);
    if (failed > 0 && at > now) {
        plan.wake = plan.wake ? std::min(*plan.wake, at) : at;
    } else {
        plan.pod = build_pod(job);
    }
}

void plan_running(JobPlan& plan,
                  const json::Value& job,
                  const std::vector<const json::Value*>& pods,
                  const Counts& counts,
                  int failed,
                  WallTime now) {
    const auto spec = json::View(job)["spec"];
    if (counts.succeeded > 0) {
        remove_active(plan, pods);
        finish(plan,
               now,
               "Complete",
               "CompletionsReached",
               "Reached expected number of succeeded pods");
        return;
    }
    const auto limit = spec["backoffLimit"].int_or(6);
    if (failed > limit ||
        (counts.restarts > limit &&
         spec["template"]["spec"]["restartPolicy"].string_or("") == "OnFailure")) {
        remove_active(plan, pods);
        finish(plan,
               now,
               "Failed",
               "BackoffLimitExceeded",
               "Job has reached the specified backoff limit");
        return;
    }
    if (spec["activeDeadlineSeconds"].present()) {
        const auto start =
            parse_rfc3339(json::View(plan.status)["startTime"].string_or("")).value_or(now);
        const auto end = start + std::chrono::seconds(std::clamp<std::int64_t>(
                                     spec["activeDeadlineSeconds"].int_or(0), 0, 10'000'000));
        if (end <= now) {
            remove_active(plan, pods);
            finish(plan,
                   now,
                   "Failed",
                   "DeadlineExceeded",
                   "Job was active longer than specified deadline");
            return;
        }
        plan.wake = end;
    }
    plan_next_pod(plan, job, counts, failed, now);
}

}  // namespace

JobPlan plan_job(const json::Value& job,
                 const std::vector<const json::Value*>& pods,
                 WallTime now) {
    JobPlan plan;
    const json::View view(job);
    const auto status = view["status"];
    plan.status = status.present() ? *status.value() : json::object();
    if (is_deleting(job)) {
        return plan;
    }
    const auto counts = count(pods);
    // Pods that were deleted since stay counted.
    const int failed = std::max(counts.failed, static_cast<int>(status["failed"].int_or(0)));
    const int succeeded =
        std::max(counts.succeeded, static_cast<int>(status["succeeded"].int_or(0)));
    const auto set_count = [&](std::string_view key, int value) {
        plan.status.erase(key);
        if (value > 0) {
            plan.status.set(key, value);
        }
    };
    set_count("active", counts.active);
    set_count("failed", failed);
    set_count("succeeded", succeeded);
    plan.status.set("ready", counts.ready);
    if (condition(job, "Complete") != nullptr || condition(job, "Failed") != nullptr) {
        plan_end_of_life(plan, job, now);
        return plan;
    }
    if (view["spec"]["suspend"].bool_or(false)) {
        remove_active(plan, pods);
        plan.status.erase("startTime");
        return plan;
    }
    if (!status["startTime"].present()) {
        plan.status.set("startTime", to_rfc3339(now));
    }
    if (view["spec"]["completions"].int_or(1) != 1 || view["spec"]["parallelism"].int_or(1) != 1) {
        finish(plan,
               now,
               "Failed",
               "NotSupported",
               "local mode runs jobs with one completion and one pod at a time");
        return plan;
    }
    plan_running(plan, job, pods, counts, failed, now);
    if (!plan.pod && !plan.removals.empty()) {
        set_count("active", 0);
        plan.status.set("ready", 0);
    }
    return plan;
}

}  // namespace capstan::local
