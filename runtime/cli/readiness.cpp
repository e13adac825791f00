#include "runtime/cli/readiness.hpp"

#include <algorithm>
#include <array>
#include <initializer_list>
#include <string_view>

namespace capstan::cli {
namespace {

constexpr std::array<std::string_view, 4> kReadyTypes{
    "Ready", "AllMembersReady", "Available", "Complete"};
constexpr std::string_view kRefusedType = "SpecSupported";

bool means_readiness(std::string_view type) {
    return std::find(kReadyTypes.begin(), kReadyTypes.end(), type) != kReadyTypes.end();
}

// "Etcd default/main"
std::string name_of(const json::View& object) {
    const json::View metadata = object["metadata"];
    const std::string ns(metadata["namespace"].string_or(""));
    return std::string(object["kind"].string_or("")) + " " + (ns.empty() ? "" : ns + "/") +
           std::string(metadata["name"].string_or(""));
}

// The parts that are there, after `who`.
std::string line_of(const std::string& who, std::initializer_list<std::string_view> parts) {
    std::string line = who;
    for (const std::string_view part : parts) {
        if (!part.empty()) {
            line += ": " + std::string(part);
        }
    }
    std::replace(line.begin(), line.end(), '\n', ' ');
    return line;
}

}  // namespace

Readiness readiness_of(const json::Value& object, bool waits_for_status) {
    const json::View view(object);
    const json::View metadata = view["metadata"], status = view["status"];
    const std::string who = name_of(view);
    Readiness out;
    if (status.object().empty()) {
        if (waits_for_status) {
            out.awaits.push_back(who + ": to be taken up by its controller");
        }
        out.ready = out.awaits.empty();
        return out;
    }
    const std::int64_t generation = metadata["generation"].int_or(0);
    if (status["observedGeneration"].int_or(generation) < generation) {
        out.awaits.push_back(who + ": its newest change to be taken up");
    }
    bool any = false;
    for (std::size_t i = 0; i < status["conditions"].array().size(); ++i) {
        const json::View condition = status["conditions"][i];
        const std::string type(condition["type"].string_or(""));
        const bool holds = condition["status"].string_or("") == "True";
        const std::string said =
            who + ": " + type + ": " +
            std::string(condition["message"].string_or(condition["reason"].string_or("not yet")));
        if (type == kRefusedType && !holds) {
            out.refused = true;
            out.awaits.insert(out.awaits.begin(), said);
        } else if (means_readiness(type)) {
            any = any || holds;
            if (!holds) {
                out.awaits.push_back(said);
            }
        }
    }
    const std::int64_t wanted = view["spec"]["replicas"].int_or(0);
    const std::int64_t ready = status["readyReplicas"].int_or(any ? wanted : 0);
    if (ready < wanted) {
        out.awaits.push_back(who + ": " + std::to_string(ready) + " of " + std::to_string(wanted) +
                             " replicas ready");
    }
    if (!any && out.awaits.empty() && waits_for_status) {
        out.awaits.push_back(who + ": a first report of its health");
    }
    out.ready = out.awaits.empty();
    return out;
}

std::vector<std::string> hindrances_of(const json::Value& object) {
    const json::View view(object);
    const json::View status = view["status"];
    const std::string who = name_of(view);
    std::vector<std::string> lines;
    for (const json::Value& error : status["lastErrors"].array()) {
        const json::View said(error);
        lines.push_back(
            line_of(who, {said["code"].string_or(""), said["description"].string_or("")}));
    }
    for (const json::Value& condition : status["conditions"].array()) {
        const json::View said(condition);
        const std::string_view type = said["type"].string_or("");
        const std::string_view message = said["message"].string_or("");
        if (said["status"].string_or("") == "False" && !message.empty() && type != kRefusedType &&
            !means_readiness(type)) {
            lines.push_back(line_of(who, {type, said["reason"].string_or(""), message}));
        }
    }
    const json::View transitions = status["transitions"];
    if (const std::size_t count = transitions.array().size(); count > 0) {
        const json::View last = transitions[count - 1];
        std::string state(last["state"].string_or(""));
        if (const auto part = last["subState"].string_or(""); !part.empty()) {
            state += "/" + std::string(part);
        }
        if (last["state"].string_or("") != "Started") {
            lines.push_back(
                line_of(who, {state, last["reason"].string_or(""), last["message"].string_or("")}));
        }
    }
    return lines;
}

}  // namespace capstan::cli
