#include "plugins/steward-bridge/heartbeat.hpp"

namespace capstan::steward {
namespace {

constexpr std::chrono::seconds kPeriod{10};
constexpr std::chrono::seconds kRetry{2};

}  // namespace

Result<void> Heartbeat::run(Call& call) {
    bool reported_problem = false;
    while (!call.cancelled()) {
        std::chrono::nanoseconds pause = kPeriod;
        if (const auto status = member_.status()) {
            const std::string holder = status->member_id + ":" + status->cluster_id + ":" +
                                       (status->leader ? "Leader" : "Member");
            const json::Value patch = {
                {"spec",
                 {{"holderIdentity", holder}, {"renewTime", to_rfc3339_micro(call.wall_now())}}},
            };
            const auto renewed = call.client().patch_merge(
                "coordination.k8s.io/v1/Lease", member_.identity().member_key(), patch);
            if (!renewed) {
                pause = kRetry;
                if (!reported_problem) {
                    call.log(LogLevel::warn,
                             "member lease cannot be renewed",
                             {{"error", renewed.error().message}});
                }
            }
            reported_problem = !renewed;
        }
        const Result<void> woken = call.wait(member_.beat(), call.now() + pause);
        if (!woken && woken.error().code != Code::timeout) {
            break;
        }
    }
    return ok();
}

}  // namespace capstan::steward
