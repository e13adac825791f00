#include "runtime/local/node/pod_status.hpp"

#include <algorithm>

namespace capstan::local {
namespace {

json::Value terminated(const Termination& end, const std::string& id) {
    json::Value state = {
        {"exitCode", end.code.value_or(137)},  // as the kubelet says when it does not know
        {"reason", !end.code ? "ContainerStatusUnknown" : end.reason},
        {"startedAt", to_rfc3339(end.started)},
        {"finishedAt", to_rfc3339(end.finished)},
        {"containerID", id},
    };
    if (!end.message.empty()) {
        state.set("message", end.message);
    }
    return {{"terminated", std::move(state)}};
}

json::Value waiting(std::string_view reason, std::string_view message) {
    json::Value state = {{"reason", reason}};
    if (!message.empty()) {
        state.set("message", message);
    }
    return {{"waiting", std::move(state)}};
}

std::string id_of(const json::View& pod, std::string_view name, int attempt) {
    return "capstan://" + std::string(pod["metadata"]["uid"].string_or("")) + "/" +
           std::string(name) + "/" + std::to_string(attempt);
}

json::Value container_status(const ContainerView& view, const json::View& pod) {
    const json::View spec(*view.spec);
    const auto name = spec["name"].string_or("");
    const auto& record = *view.record;
    const bool ever = record.attempt >= 0;
    const bool done_init =
        view.init && (view.skipped || (record.ended && record.ended->succeeded()));
    json::Value status = {
        {"name", name},
        {"image", spec["image"].string_or("")},
        {"imageID", ""},
        {"restartCount", std::max(0, record.attempt)},
        {"ready", view.init ? done_init : view.running && view.ready},
        {"started", view.running && view.started},
    };
    if (ever) {
        status.set("containerID", id_of(pod, name, record.attempt));
    }
    json::Value last = json::object();
    if (view.skipped) {
        Termination end{0, "Completed", "not needed on this machine", {}, {}};
        const auto since =
            parse_rfc3339(pod["metadata"]["creationTimestamp"].string_or("")).value_or(WallTime{});
        end.started = end.finished = since;
        status.set("state", terminated(end, ""));
    } else if (view.running) {
        status.set("state", {{"running", {{"startedAt", to_rfc3339(record.started)}}}});
        if (record.previous) {
            last = terminated(*record.previous, id_of(pod, name, record.attempt - 1));
        }
    } else if (!view.waiting_reason.empty() || !record.ended) {
        const auto reason =
            view.waiting_reason.empty() ? std::string("PodInitializing") : view.waiting_reason;
        status.set("state", waiting(reason, view.waiting_message));
        if (record.ended) {
            last = terminated(*record.ended, id_of(pod, name, record.attempt));
        }
    } else {
        status.set("state", terminated(*record.ended, id_of(pod, name, record.attempt)));
        if (record.previous) {
            last = terminated(*record.previous, id_of(pod, name, record.attempt - 1));
        }
    }
    status.set("lastState", std::move(last));
    return status;
}

json::Value condition(const PodStatusInput& input,
                      std::string_view type,
                      bool value,
                      std::string_view reason,
                      std::string_view message) {
    const std::string_view status = value ? "True" : "False";
    auto since = to_rfc3339(input.now);
    const auto present = json::View(*input.pod)["status"]["conditions"];
    for (const auto& entry : present.array()) {
        const json::View view(entry);
        if (view["type"].string_or("") == type && view["status"].string_or("") == status) {
            since = std::string(view["lastTransitionTime"].string_or(since));
        }
    }
    // No null for lastProbeTime: the API server keeps none, and what we want must compare equal.
    json::Value out = {{"type", type}, {"status", status}, {"lastTransitionTime", since}};
    if (!reason.empty()) {
        out.set("reason", reason);
    }
    if (!message.empty()) {
        out.set("message", message);
    }
    return out;
}

}  // namespace

json::Value build_pod_status(const PodStatusInput& input) {
    const json::View pod(*input.pod);
    json::Value init_statuses = json::list();
    json::Value statuses = json::list();
    std::string unready;
    for (const auto& view : input.containers) {
        auto status = container_status(view, pod);
        if (view.init) {
            init_statuses.push_back(std::move(status));
            continue;
        }
        if (!view.running || !view.ready) {
            unready += (unready.empty() ? "" : " ") +
                       std::string(json::View(*view.spec)["name"].string_or(""));
        }
        statuses.push_back(std::move(status));
    }
    const bool ready = unready.empty() && input.phase == Phase::running;
    const bool succeeded = input.phase == Phase::succeeded;
    const std::string_view reason = ready ? "" : succeeded ? "PodCompleted" : "ContainersNotReady";
    const std::string message =
        ready || succeeded ? "" : "containers with unready status: [" + unready + "]";
    json::Value status = {
        {"phase", to_string(input.phase)},
        {"conditions",
         json::list({
             condition(input, "PodScheduled", true, "", ""),
             condition(input,
                       "Initialized",
                       input.initialized,
                       input.initialized ? "" : "ContainersNotInitialized",
                       ""),
             condition(input, "ContainersReady", ready, reason, message),
             condition(input, "Ready", ready, reason, message),
         })},
        {"hostIP", "127.0.0.1"},
        {"startTime", to_rfc3339(input.started)},
        {"qosClass", "BestEffort"},
    };
    if (!input.pod_ip.empty()) {
        status.set("podIP", input.pod_ip);
        status.set("podIPs", json::list({{{"ip", input.pod_ip}}}));
    }
    if (!init_statuses.if_array()->empty()) {
        status.set("initContainerStatuses", std::move(init_statuses));
    }
    status.set("containerStatuses", std::move(statuses));
    return status;
}

}  // namespace capstan::local
