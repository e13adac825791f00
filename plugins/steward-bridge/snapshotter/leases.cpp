#include "plugins/steward-bridge/snapshotter/leases.hpp"

#include <algorithm>
#include <charconv>
#include <utility>

namespace capstan::steward {
namespace {

constexpr std::string_view kLeaseGvk = "coordination.k8s.io/v1/Lease";

// Revisions only rise, unless the cluster was set back.
bool of_earlier_history(std::int64_t held, const SnapshotFacts& facts) {
    return facts.set_back && held > facts.reached;
}

}  // namespace

Result<std::int64_t> held_revision(const json::Value& lease) {
    const json::View holder = json::View(lease)["spec"]["holderIdentity"];
    const std::string_view text = holder.string_or("");
    std::int64_t revision = 0;
    if (text.empty()) {
        return revision;
    }
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), revision);
    if (error != std::errc{} || end != text.data() + text.size()) {
        return fail(holder.error("is not a revision; clear it, so that it is written anew"));
    }
    return revision;
}

Result<void> SnapshotLeases::renew_full(Call& call,
                                        const ObjectKey& key,
                                        const SnapshotFacts& facts) {
    const SnapshotRecord& full = *facts.full;
    CAPSTAN_TRY(const json::Value lease, call.client().get_value(kLeaseGvk, key));
    CAPSTAN_TRY(const std::int64_t held, held_revision(lease));
    if (held > full.last_revision && !of_earlier_history(held, facts)) {
        return ok();
    }
    const std::string_view version = json::View(lease)["metadata"]["resourceVersion"].string_or("");
    return call.client().patch_merge(kLeaseGvk,
                                     key,
                                     {{"metadata", {{"resourceVersion", version}}},
                                      {"spec",
                                       {{"holderIdentity", std::to_string(full.last_revision)},
                                        {"renewTime", to_rfc3339_micro(full.created)}}}});
}

Result<void> SnapshotLeases::renew_delta(Call& call,
                                         const ObjectKey& key,
                                         const SnapshotFacts& facts) {
    CAPSTAN_TRY(const json::Value lease, call.client().get_value(kLeaseGvk, key));
    CAPSTAN_TRY(std::int64_t held, held_revision(lease));
    held = of_earlier_history(held, facts) ? 0 : held;
    const std::int64_t newest = facts.deltas.empty() ? 0 : facts.deltas.back().last_revision;
    return call.client().patch_merge(kLeaseGvk,
                                     key,
                                     {{"spec",
                                       {{"holderIdentity", std::to_string(std::max(held, newest))},
                                        {"renewTime", to_rfc3339_micro(call.wall_now())}}}});
}

void SnapshotLeases::renew(Call& call,
                           const std::string& ns,
                           const SnapshotterConfig& config,
                           const SnapshotFacts& facts) {
    if (!config.renew_leases) {
        return;
    }
    Result<void> renewed = ok();
    if (facts.full && facts.full->name != full_done_) {
        renewed = renew_full(call, {ns, config.full_lease}, facts);
        full_done_ = renewed ? facts.full->name : full_done_;
    }
    const Result<void> delta = renew_delta(call, {ns, config.delta_lease}, facts);
    const std::string problem = !renewed ? renewed.error().message
                                : !delta ? delta.error().message
                                         : "";
    if (!problem.empty() && problem != problem_) {
        call.log(LogLevel::warn, "a snapshot lease cannot be renewed", {{"error", problem}});
    }
    problem_ = problem;
}

}  // namespace capstan::steward
