// READY, STATUS and RESTARTS of a pod, as kubectl's printer derives them.
#include "runtime/local/apiserver/table_columns.hpp"

namespace capstan::local {

namespace {

bool condition_is_true(const json::View& pod, std::string_view type) {
    for (const json::Value& condition : pod["status"]["conditions"].array()) {
        const json::View view(condition);
        if (view["type"].string_or("") == type) {
            return view["status"].string_or("") == "True";
        }
    }
    return false;
}

std::string exit_text(const json::View& terminated) {
    if (const std::int64_t signal = terminated["signal"].int_or(0); signal != 0) {
        return "Signal:" + std::to_string(signal);
    }
    return "ExitCode:" + std::to_string(terminated["exitCode"].int_or(0));
}

// "Init:0/1", "Init:Error"; empty when initialisation is over.
std::string init_status(const json::View& pod) {
    const json::Array& statuses = pod["status"]["initContainerStatuses"].array();
    const std::size_t total = pod["spec"]["initContainers"].array().size();
    for (std::size_t i = 0; i < statuses.size(); ++i) {
        const json::View status(statuses[i]);
        const json::View terminated = status["state"]["terminated"];
        if (terminated.present() && terminated["exitCode"].int_or(0) == 0) {
            continue;
        }
        if (terminated.present()) {
            const std::string_view reason = terminated["reason"].string_or("");
            return "Init:" + (reason.empty() ? exit_text(terminated) : std::string(reason));
        }
        const std::string_view reason = status["state"]["waiting"]["reason"].string_or("");
        if (!reason.empty() && reason != "PodInitializing") {
            return "Init:" + std::string(reason);
        }
        return "Init:" + std::to_string(i) + "/" + std::to_string(total);
    }
    return "";
}

}  // namespace

json::Value pod_ready(const json::View& pod, WallTime) {
    std::size_t ready = 0;
    for (const json::Value& status : pod["status"]["containerStatuses"].array()) {
        const json::View view(status);
        ready += view["ready"].bool_or(false) && view["state"]["running"].present() ? 1u : 0u;
    }
    return std::to_string(ready) + "/" + std::to_string(pod["spec"]["containers"].array().size());
}

json::Value pod_status(const json::View& pod, WallTime) {
    std::string reason(
        pod["status"]["reason"].string_or(pod["status"]["phase"].string_or("Unknown")));
    const std::string init = init_status(pod);
    bool running = false;
    if (!init.empty()) {
        reason = init;
    } else {
        const json::Array& statuses = pod["status"]["containerStatuses"].array();
        for (auto status = statuses.rbegin(); status != statuses.rend(); ++status) {
            const json::View view(*status);
            const json::View terminated = view["state"]["terminated"];
            if (const auto waiting = view["state"]["waiting"]["reason"].string_or("");
                !waiting.empty()) {
                reason = std::string(waiting);
            } else if (terminated.present()) {
                const std::string_view why = terminated["reason"].string_or("");
                reason = why.empty() ? exit_text(terminated) : std::string(why);
            } else if (view["ready"].bool_or(false) && view["state"]["running"].present()) {
                running = true;
            }
        }
        if (reason == "Completed" && running) {
            reason = condition_is_true(pod, "Ready") ? "Running" : "NotReady";
        }
    }
    if (pod["metadata"]["deletionTimestamp"].present()) {
        const std::string_view phase = pod["status"]["phase"].string_or("");
        reason = reason == "NodeLost"                        ? "Unknown"
                 : phase == "Succeeded" || phase == "Failed" ? reason
                                                             : "Terminating";
    }
    return reason;
}

json::Value pod_restarts(const json::View& pod, WallTime now) {
    std::int64_t count = 0;
    std::string last;
    for (const char* list : {"initContainerStatuses", "containerStatuses"}) {
        for (const json::Value& status : pod["status"][std::string_view(list)].array()) {
            const json::View view(status);
            count += view["restartCount"].int_or(0);
            const std::string_view finished =
                view["lastState"]["terminated"]["finishedAt"].string_or("");
            last = std::max(last, std::string(finished));  // RFC 3339 in UTC sorts as text
        }
    }
    std::string text = std::to_string(count);
    if (count != 0 && !last.empty()) {
        text += " (" + since(last, now) + " ago)";
    }
    return text;
}

}  // namespace capstan::local
