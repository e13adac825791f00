#include "runtime/local/node/job.hpp"

#include "runtime/local/node/objects.hpp"
#include "runtime/local/node/pod_fsm.hpp"

#include <algorithm>

namespace capstan::local {
namespace {

constexpr std::int64_t kSecondsMax = 10'000'000;

struct Counts {
    int active{0};  // neither ended nor being deleted
    int ready{0};
    int terminating{0};  // being deleted, not ended yet
    int succeeded{0};
    int failed{0};
    int failed_in_a_row{0};    // since the last success
    std::int64_t restarts{0};  // of active pods
    WallTime last_failure{};
};

// How a job ends.
struct End {
    std::string_view type;  // "Complete", "Failed"
    std::string reason, message;

    std::string_view target() const {
        return type == "Complete" ? "SuccessCriteriaMet" : "FailureTarget";
    }
};

bool has_ended(const json::Value& pod) {
    return phase_of(pod) == "Succeeded" || phase_of(pod) == "Failed";
}

WallTime finished_at(const json::Value& pod) {
    WallTime last{};
    const auto statuses = json::View(pod)["status"]["containerStatuses"];
    for (const auto& status : statuses.array()) {
        const auto text = json::View(status)["state"]["terminated"]["finishedAt"].string_or("");
        last = std::max(last, parse_rfc3339(text).value_or(WallTime{}));
    }
    return last;
}

std::int64_t restarts_of(const json::Value& pod) {
    std::int64_t restarts = 0;
    for (const char* list : {"initContainerStatuses", "containerStatuses"}) {
        const auto statuses = json::View(pod)["status"][list];
        for (const auto& status : statuses.array()) {
            restarts += json::View(status)["restartCount"].int_or(0);
        }
    }
    return restarts;
}

Counts count(const std::vector<const json::Value*>& pods) {
    Counts counts;
    WallTime last_success{};
    for (const auto* pod : pods) {
        if (phase_of(*pod) == "Succeeded") {
            ++counts.succeeded;
            last_success = std::max(last_success, finished_at(*pod));
        } else if (phase_of(*pod) == "Failed") {
            ++counts.failed;
            counts.last_failure = std::max(counts.last_failure, finished_at(*pod));
        } else if (is_deleting(*pod)) {
            ++counts.terminating;
        } else {
            ++counts.active;
            counts.ready += is_pod_ready(*pod) ? 1 : 0;
            counts.restarts += restarts_of(*pod);
        }
    }
    for (const auto* pod : pods) {
        counts.failed_in_a_row +=
            phase_of(*pod) == "Failed" && finished_at(*pod) >= last_success ? 1 : 0;
    }
    return counts;
}

json::Value* find_condition(json::Value& status, std::string_view type) {
    json::Value* conditions = status.find("conditions");
    if (conditions == nullptr || !conditions->is_array()) {
        return nullptr;
    }
    for (json::Value& entry : *conditions->if_array()) {
        if (json::View(entry)["type"].string_or("") == type) {
            return &entry;
        }
    }
    return nullptr;
}

const json::Value* true_condition(json::Value& status, std::string_view type) {
    const json::Value* found = find_condition(status, type);
    return found != nullptr && json::View(*found)["status"].string_or("") == "True" ? found
                                                                                    : nullptr;
}

void set_condition(json::Value& status,
                   std::string_view type,
                   bool value,
                   std::string_view reason,
                   std::string_view message,
                   WallTime now) {
    json::Value* present = find_condition(status, type);
    const std::string_view text = value ? "True" : "False";
    if (present != nullptr && json::View(*present)["status"].string_or("") == text) {
        return;
    }
    const auto time = to_rfc3339(now);
    json::Value entry = {
        {"type", type},
        {"status", text},
        {"reason", reason},
        {"message", message},
        {"lastProbeTime", time},
        {"lastTransitionTime", time},
    };
    if (present != nullptr) {
        *present = std::move(entry);
    } else {
        status["conditions"].push_back(std::move(entry));
    }
}

// All that run, or so many of them that `keep` are left.
void remove_active(JobPlan& plan, const std::vector<const json::Value*>& pods, int keep = 0) {
    for (const auto* pod : pods) {
        if (!has_ended(*pod) && !is_deleting(*pod) && --keep < 0) {
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

void plan_end_of_life(JobPlan& plan, const json::Value& job, const json::Value& end, WallTime now) {
    const auto ttl = json::View(job)["spec"]["ttlSecondsAfterFinished"];
    if (!ttl.present()) {
        return;
    }
    const auto since =
        parse_rfc3339(json::View(end)["lastTransitionTime"].string_or("")).value_or(now);
    const auto at =
        since + std::chrono::seconds(std::clamp<std::int64_t>(ttl.int_or(0), 0, kSecondsMax));
    if (at <= now) {
        plan.remove_job = true;
    } else {
        plan.wake = at;
    }
}

// What of the spec this controller cannot do; "": all can be done.
std::string unsupported_field(const json::View& spec) {
    if (spec["completionMode"].string_or("NonIndexed") != "NonIndexed") {
        return "spec.completionMode " + std::string(spec["completionMode"].string_or(""));
    }
    for (const char* field :
         {"podFailurePolicy", "successPolicy", "backoffLimitPerIndex", "maxFailedIndexes"}) {
        if (spec[field].present()) {
            return std::string("spec.") + field;
        }
    }
    if (spec["parallelism"].int_or(1) > 1 && !spec["completions"].present()) {
        return "spec.parallelism without spec.completions";
    }
    const auto manager = spec["managedBy"].string_or("kubernetes.io/job-controller");
    return manager == "kubernetes.io/job-controller" ? std::string() : "spec.managedBy";
}

WallTime deadline_of(const json::Value& job, const json::Value& status, WallTime now) {
    const auto start = parse_rfc3339(json::View(status)["startTime"].string_or("")).value_or(now);
    const auto seconds = json::View(job)["spec"]["activeDeadlineSeconds"].int_or(kSecondsMax);
    return start + std::chrono::seconds(std::clamp<std::int64_t>(seconds, 0, kSecondsMax));
}

bool past_backoff_limit(const json::View& spec, const Counts& counts, int failed) {
    const auto limit = spec["backoffLimit"].int_or(6);
    if (failed > limit) {
        return true;
    }
    // Containers that restart inside their pod count as well; the limit itself is one too many.
    return spec["template"]["spec"]["restartPolicy"].string_or("") == "OnFailure" &&
           counts.restarts > 0 && counts.restarts >= limit;
}

std::optional<End> decide_end(const json::Value& job,
                              const JobPlan& plan,
                              const Counts& counts,
                              int succeeded,
                              int failed,
                              WallTime now) {
    const auto spec = json::View(job)["spec"];
    if (const auto field = unsupported_field(spec); !field.empty()) {
        return End{"Failed", "NotSupported", "local mode does not support " + field};
    }
    if (succeeded >= spec["completions"].int_or(1)) {
        return End{"Complete", "CompletionsReached", "Reached expected number of succeeded pods"};
    }
    if (past_backoff_limit(spec, counts, failed)) {
        return End{"Failed", "BackoffLimitExceeded", "Job has reached the specified backoff limit"};
    }
    if (spec["activeDeadlineSeconds"].present() && deadline_of(job, plan.status, now) <= now) {
        return End{"Failed", "DeadlineExceeded", "Job was active longer than specified deadline"};
    }
    return std::nullopt;
}

// The end that was decided in an earlier pass and waited for pods to end.
std::optional<End> decided_end(json::Value& status) {
    for (const std::string_view type : {"Complete", "Failed"}) {
        End end{type, {}, {}};
        if (const auto* found = true_condition(status, end.target())) {
            end.reason = json::View(*found)["reason"].string_or("");
            end.message = json::View(*found)["message"].string_or("");
            return end;
        }
    }
    return std::nullopt;
}

void finish(JobPlan& plan,
            const End& end,
            const std::vector<const json::Value*>& pods,
            const Counts& counts,
            WallTime now) {
    remove_active(plan, pods);
    set_condition(plan.status, end.target(), true, end.reason, end.message, now);
    if (counts.active + counts.terminating > 0) {
        return;
    }
    set_condition(plan.status, end.type, true, end.reason, end.message, now);
    if (end.type == "Complete") {
        plan.status.set("completionTime", to_rfc3339(now));
    }
}

void plan_pods(JobPlan& plan,
               const json::Value& job,
               const std::vector<const json::Value*>& pods,
               const Counts& counts,
               int succeeded,
               WallTime now) {
    const auto spec = json::View(job)["spec"];
    if (spec["activeDeadlineSeconds"].present()) {
        plan.wake = deadline_of(job, plan.status, now);
    }
    const auto wanted = static_cast<int>(
        std::min(spec["parallelism"].int_or(1), spec["completions"].int_or(1) - succeeded));
    if (counts.active > wanted) {
        return remove_active(plan, pods, wanted);
    }
    const bool replaced_when_ended = spec["podReplacementPolicy"].string_or("") == "Failed";
    if (counts.active + (replaced_when_ended ? counts.terminating : 0) >= wanted) {
        return;
    }
    const auto at = counts.last_failure + restart_delay(counts.failed_in_a_row);
    if (counts.failed_in_a_row > 0 && at > now) {
        plan.wake = plan.wake ? std::min(*plan.wake, at) : at;
    } else {
        plan.pod = build_pod(job);
    }
}

void suspend(JobPlan& plan, const std::vector<const json::Value*>& pods, WallTime now) {
    remove_active(plan, pods);
    plan.status.erase("startTime");
    set_condition(plan.status, "Suspended", true, "JobSuspended", "Job suspended", now);
}

void set_count(json::Value& status, std::string_view key, int value) {
    status.erase(key);
    if (value > 0) {
        status.set(key, value);
    }
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
    set_count(plan.status, "failed", failed);
    set_count(plan.status, "succeeded", succeeded);
    const auto* complete = true_condition(plan.status, "Complete");
    const auto* ended = complete != nullptr ? complete : true_condition(plan.status, "Failed");
    if (ended != nullptr) {
        plan_end_of_life(plan, job, *ended, now);
    } else if (const auto decided = decided_end(plan.status)) {
        finish(plan, *decided, pods, counts, now);
    } else if (view["spec"]["suspend"].bool_or(false)) {
        suspend(plan, pods, now);
    } else {
        if (find_condition(plan.status, "Suspended") != nullptr) {
            set_condition(plan.status, "Suspended", false, "JobResumed", "Job resumed", now);
        }
        if (!json::View(plan.status)["startTime"].present()) {
            plan.status.set("startTime", to_rfc3339(now));
        }
        if (const auto end = decide_end(job, plan, counts, succeeded, failed, now)) {
            finish(plan, *end, pods, counts, now);
        } else {
            plan_pods(plan, job, pods, counts, succeeded, now);
        }
    }
    const auto removed = static_cast<int>(plan.removals.size());
    set_count(plan.status, "active", counts.active - removed);
    plan.status.set("ready", removed > 0 ? 0 : counts.ready);
    plan.status.set("terminating", counts.terminating + removed);
    return plan;
}

}  // namespace capstan::local
