#include "plugins/custodian/members.hpp"

#include <algorithm>
#include <set>
#include <string_view>

namespace capstan::custodian {

namespace {

// a late renewal wakes nobody, so a stale member is looked at again
constexpr std::chrono::seconds kStaleLook{10};

struct Holder {
    std::string id, cluster_id, role;
};

std::optional<Holder> parse_holder(std::string_view text) {
    std::vector<std::string> parts;
    for (std::size_t at = 0; at <= text.size();) {
        const std::size_t end = std::min(text.find(':', at), text.size());
        parts.emplace_back(text.substr(at, end - at));
        at = end + 1;
    }
    if (parts.size() == 2) {
        return Holder{parts[0], "", parts[1]};
    }
    if (parts.size() == 3) {
        return Holder{parts[0], parts[1], parts[2]};
    }
    return std::nullopt;
}

struct Standing {
    std::string_view status, reason;
};

// Whether the EtcdMember says outright that etcd does not serve as a voter
// now. Silence says nothing.
bool says_not_started(const World& world, const std::string& name) {
    auto member = world.members.find(name);
    if (member == world.members.end() || !member->second.status ||
        member->second.status->transitions.empty()) {
        return false;
    }
    return member->second.status->transitions.back().state != api::MemberState::started;
}

Standing standing_of(const World& world,
                     const std::string& name,
                     const std::string& pod_name,
                     std::chrono::nanoseconds age,
                     const Thresholds& thresholds) {
    if (age > thresholds.unknown + thresholds.not_ready) {
        return {"NotReady", "UnknownGracePeriodExceeded"};
    }
    const auto found = world.pods.find(pod_name);
    const Pod pod = found != world.pods.end() ? found->second : Pod();
    if (age > thresholds.unknown) {
        return pod.containers_ready ? Standing{"Unknown", "LeaseExpired"}
                                    : Standing{"NotReady", "ContainersNotReady"};
    }
    if (says_not_started(world, name)) {
        return {"NotReady", "MemberNotStarted"};
    }
    // The lease of a member that is lost is fresh for a while; its pod tells at once. Without a
    // StatefulSet nobody knows whose pods there are.
    if (world.set && !pod.etcd_ready) {
        return {"NotReady", "ContainersNotReady"};
    }
    return {"Ready", "LeaseSucceeded"};
}

std::string transition_time(const api::Etcd& etcd,
                            const api::MemberSummary& made,
                            const std::string& now) {
    if (etcd.status) {
        for (const api::MemberSummary& old : etcd.status->members) {
            if (old.name == made.name && old.status == made.status) {
                return old.last_transition_time;
            }
        }
    }
    return now;
}

}  // namespace

Result<Thresholds> read_thresholds(const json::Value& config) {
    Thresholds thresholds;
    const json::View block = json::View(config)["etcdMember"];
    const auto duration = [](const json::View& field,
                             std::chrono::nanoseconds& out) -> Result<void> {
        if (!field.present()) {
            return ok();
        }
        CAPSTAN_TRY(auto text, field.as_string());
        auto value = parse_duration(text);
        if (!value || value->count() <= 0) {
            return fail(field.error("expected a positive duration such as 1m"));
        }
        out = *value;
        return ok();
    };
    CAPSTAN_TRY(duration(block["unknownThreshold"], thresholds.unknown));
    CAPSTAN_TRY(duration(block["notReadyThreshold"], thresholds.not_ready));
    return thresholds;
}

std::vector<std::string> member_names(const api::Etcd& etcd) {
    const std::string prefix = etcd.spec.member_name_prefix.value_or("");
    std::vector<std::string> names;
    for (std::int32_t i = 0; i < etcd.spec.replicas; ++i) {
        names.push_back((prefix.empty() ? "" : prefix + "-") + etcd.metadata.name + "-" +
                        std::to_string(i));
    }
    return names;
}

Assessment assess_members(const World& world, const Thresholds& thresholds) {
    Assessment result;
    std::set<std::string> cluster_ids;
    const std::string now = to_rfc3339(world.now);
    const std::vector<std::string> names = member_names(world.etcd);
    for (std::size_t i = 0; i < names.size(); ++i) {
        auto lease = world.leases.find(names[i]);
        if (lease == world.leases.end() || !lease->second.renewed) {
            continue;
        }
        const auto holder = parse_holder(lease->second.holder);
        if (!holder) {
            continue;
        }
        const std::string pod_name = world.etcd.metadata.name + "-" + std::to_string(i);
        const std::chrono::nanoseconds age = world.now - *lease->second.renewed;
        const Standing standing = standing_of(world, names[i], pod_name, age, thresholds);
        api::MemberSummary summary;
        summary.name = names[i];
        summary.id = holder->id;
        if (holder->role == "Leader" || holder->role == "Member") {
            summary.role = holder->role;
        }
        summary.status = standing.status;
        summary.reason = standing.reason;
        summary.last_transition_time = transition_time(world.etcd, summary, now);
        result.members.push_back(std::move(summary));
        if (!holder->cluster_id.empty() && standing.status != "Unknown") {
            cluster_ids.insert(holder->cluster_id);
        }
        const std::chrono::nanoseconds fresh_for =
            thresholds.unknown - age + std::chrono::milliseconds{1};
        const std::chrono::nanoseconds look = age > thresholds.unknown ? kStaleLook : fresh_for;
        result.next_look = std::min(
            result.next_look, std::max<std::chrono::nanoseconds>(look, std::chrono::seconds{1}));
    }
    std::sort(
        result.members.begin(),
        result.members.end(),
        [](const api::MemberSummary& a, const api::MemberSummary& b) { return a.name < b.name; });
    result.cluster_ids.assign(cluster_ids.begin(), cluster_ids.end());
    return result;
}

}  // namespace capstan::custodian
