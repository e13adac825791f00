#include "plugins/steward-bridge/member_status.hpp"

#include <algorithm>

namespace capstan::steward {
namespace {

using api::MemberState;
using api::MemberSubState;

// The status without the times of confirmation: what has to differ for a write
// before the refresh is due.
json::Value facts_of(const api::EtcdMemberStatus& status) {
    api::EtcdMemberStatus plain = status;
    plain.observed_at.reset();
    plain.db_size_observed_at.reset();
    if (plain.snapshots) {
        plain.snapshots->observed_at.reset();
    }
    return api::encode(plain);
}

bool same_transitions(const api::EtcdMemberStatus& a, const api::EtcdMemberStatus& b) {
    return std::equal(a.transitions.begin(),
                      a.transitions.end(),
                      b.transitions.begin(),
                      b.transitions.end(),
                      [](const api::Transition& x, const api::Transition& y) {
                          return api::encode(x) == api::encode(y);
                      });
}

bool same_conditions(const api::EtcdMemberStatus& a, const api::EtcdMemberStatus& b) {
    return std::equal(a.conditions.begin(),
                      a.conditions.end(),
                      b.conditions.begin(),
                      b.conditions.end(),
                      [](const api::MemberCondition& x, const api::MemberCondition& y) {
                          return api::encode(x) == api::encode(y);
                      });
}

}  // namespace

std::optional<MemberState> MemberStatus::state() const {
    return known_.transitions.empty() ? std::nullopt
                                      : std::optional(known_.transitions.back().state);
}

std::optional<MemberSubState> MemberStatus::sub_state() const {
    return known_.transitions.empty() ? std::nullopt : known_.transitions.back().sub_state;
}

void MemberStatus::enter(MemberState state,
                         std::optional<MemberSubState> sub_state,
                         std::string reason,
                         std::string message,
                         WallTime now) {
    auto& transitions = known_.transitions;
    if (!transitions.empty() && transitions.back().state == state &&
        transitions.back().sub_state == sub_state && transitions.back().reason == reason) {
        return;
    }
    api::Transition transition;
    if (!message.empty()) {
        transition.message = std::move(message);
    }
    transition.reason = std::move(reason);
    transition.state = state;
    transition.sub_state = sub_state;
    transition.transition_time = to_rfc3339(now);
    transitions.push_back(std::move(transition));
    if (transitions.size() > kTransitionsMax) {
        transitions.erase(transitions.begin(),
                          transitions.end() - static_cast<std::ptrdiff_t>(kTransitionsMax));
    }
}

void MemberStatus::observe(const EtcdStatus& status, const Running& running, WallTime now) {
    known_.id = status.member_id;
    known_.cluster_id = status.cluster_id;
    known_.etcd_version = status.version;
    known_.peer_tls_enabled = false;
    if (!running.config_hash.empty()) {
        known_.config_hash = running.config_hash;
    }
    if (!running.endpoint.empty()) {
        known_.endpoint = running.endpoint;
    }
    known_.db_size = api::IntOrString{std::to_string(status.db_size), true};
    known_.db_size_in_use = api::IntOrString{std::to_string(status.db_size_in_use), true};
    known_.observed_at = to_rfc3339(now);
    known_.db_size_observed_at = to_rfc3339(now);
    if (status.learner) {
        enter(MemberState::starting, MemberSubState::learner, "JoinedAsLearner", {}, now);
        return;
    }
    if (!status.has_leader) {
        return;  // an election is going on; the last role stands until there is a new one
    }
    const MemberSubState role = status.leader ? MemberSubState::leader : MemberSubState::follower;
    if (state() != MemberState::started) {
        const bool validated = state() == MemberState::initializing;
        enter(MemberState::started,
              role,
              validated ? "DBValidationSucceeded" : "ClusterJoined",
              {},
              now);
    } else if (sub_state() != role) {
        enter(MemberState::started,
              role,
              status.leader ? "GainedClusterLeadership" : "LostClusterLeadership",
              {},
              now);
    }
}

void MemberStatus::condition(std::string_view type,
                             std::string reason,
                             std::string message,
                             WallTime now) {
    auto& conditions = known_.conditions;
    const auto found = std::find_if(
        conditions.begin(), conditions.end(), [&](const auto& c) { return c.type == type; });
    if (reason.empty()) {
        if (found != conditions.end()) {
            conditions.erase(found);
        }
        return;
    }
    if (found != conditions.end()) {
        found->reason = std::move(reason);
        found->message = std::move(message);
        return;
    }
    api::MemberCondition added;
    added.type = type;
    added.status = api::ConditionStatus::false_;
    added.reason = std::move(reason);
    added.message = std::move(message);
    added.last_transition_time = to_rfc3339(now);
    conditions.push_back(std::move(added));
}

bool MemberStatus::urgent() const {
    return !same_transitions(known_, written_) || !same_conditions(known_, written_) ||
           known_.id != written_.id || known_.cluster_id != written_.cluster_id ||
           known_.config_hash != written_.config_hash;
}

void MemberStatus::backups(const std::optional<api::Snapshots>& snapshots) {
    if (snapshots) {
        known_.snapshots = snapshots;
    }
}

bool MemberStatus::backups_confirmed() const {
    return known_.snapshots && (!written_.snapshots ||
                                known_.snapshots->observed_at != written_.snapshots->observed_at);
}

std::optional<json::Value> MemberStatus::due(WallTime now) const {
    const bool first = !written_at_.has_value();
    const auto age = first ? WallTime::duration::max() : now - *written_at_;
    const bool changed = !(facts_of(known_) == facts_of(written_));
    if (urgent() || (changed && age >= kWriteGapMin)) {
        return api::encode(known_);
    }
    if (backups_confirmed() && age >= kWriteGapMin) {
        return api::encode(known_);
    }
    // Also after a restart of the steward: the times in the object may be old.
    const bool confirmed = known_.observed_at != written_.observed_at;
    if (confirmed && age >= kFactsAgeMax / 2) {
        return api::encode(known_);
    }
    return std::nullopt;
}

void MemberStatus::lost() {
    written_ = {};
    written_at_.reset();
}

void MemberStatus::written(WallTime now) {
    written_ = known_;
    written_at_ = now;
}

}  // namespace capstan::steward
