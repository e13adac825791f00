#include "runtime/cli/readiness.hpp"

#include <algorithm>
#include <array>
#include <string_view>

namespace capstan::cli {
namespace {

constexpr std::array<std::string_view, 4> kReadyTypes{
    "Ready", "AllMembersReady", "Available", "Complete"};
constexpr std::string_view kRefusedType = "SpecSupported";

bool means_readiness(std::string_view type) {
    return std::find(kReadyTypes.begin(), kReadyTypes.end(), type) != kReadyTypes.end();
}

}  // namespace

Readiness readiness_of(const json::Value& object, bool waits_for_status) {
    const json::View view(object);
    const json::View metadata = view["metadata"], status = view["status"];
    const std::string ns(metadata["namespace"].string_or(""));
    const std::string who = std::string(view["kind"].string_or("")) + " " +
                            (ns.empty() ? "" : ns + "/") +
                            std::string(metadata["name"].string_or(""));
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

}  // namespace capstan::cli
