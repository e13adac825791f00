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

template <class T>
bool same_lists(const std::vector<T>& a, const std::vector<T>& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const T& x, const T& y) {
        return api::encode(x) == api::encode(y);
    });
}

// Their messages may hold times and counts that differ at every look.
bool same_reasons(const std::vector<api::MemberCondition>& a,
                  const std::vector<api::MemberCondition>& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const auto& x, const auto& y) {
        return x.type == y.type && x.status == y.status && x.reason == y.reason;
    });
}

bool same_restoration(const api::EtcdMemberStatus& a, const api::EtcdMemberStatus& b) {
    if (!a.last_restoration || !b.last_restoration) {
        return a.last_restoration.has_value() == b.last_restoration.has_value();
    }
    return api::encode(*a.last_restoration) == api::encode(*b.last_restoration);
}

// Why a member that answers as a voter is Started now.
const char* reason_to_start(std::optional<MemberState> state,
                            std::optional<MemberSubState> sub_state) {
    if (state == MemberState::starting) {
        return "PromotedAsVotingMember";
    }
    if (state != MemberState::initializing) {
        return "ClusterJoined";
    }
    return sub_state == MemberSubState::restoration ? "RestorationSucceeded"
                                                    : "DBValidationSucceeded";
}

// An object also when there is nothing to say any more: null is no status.
json::Value whole(const api::EtcdMemberStatus& status) {
    json::Value encoded = api::encode(status);
    return encoded.is_null() ? json::object() : encoded;
}

json::Value defragmentation_of(const api::EtcdMemberStatus& status) {
    return status.last_defragmentation ? api::encode(*status.last_defragmentation) : json::Value();
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
    known_.peer_tls_enabled = running.peer_tls;
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
        if (state() != MemberState::starting || sub_state() != MemberSubState::learner) {
            const bool restarted = state() == MemberState::initializing;
            enter(MemberState::starting,
                  MemberSubState::learner,
                  restarted ? "LearnerRestarted" : "JoinedAsLearner",
                  {},
                  now);
        }
        return;
    }
    if (!status.has_leader) {
        return;  // an election is going on; the last role stands until there is a new one
    }
    const MemberSubState role = status.leader ? MemberSubState::leader : MemberSubState::follower;
    if (state() != MemberState::started) {
        enter(MemberState::started, role, reason_to_start(state(), sub_state()), {}, now);
        restoration_ends(true, {}, now);
    } else if (sub_state() != role) {
        enter(MemberState::started,
              role,
              status.leader ? "GainedClusterLeadership" : "LostClusterLeadership",
              {},
              now);
    }
}

void MemberStatus::restoration_begins(api::RestorationType type, std::string reason, WallTime now) {
    if (restoring() && known_.last_restoration->type == type) {
        return;  // the same one, after a restart of the steward or of the member
    }
    api::Restoration begun;
    begun.reason = std::move(reason);
    begun.start_time = to_rfc3339(now);
    begun.status = api::TaskStatus::in_progress;
    begun.type = type;
    known_.last_restoration = std::move(begun);
}

void MemberStatus::restoration_ends(bool succeeded, std::string message, WallTime now) {
    if (!restoring()) {
        return;
    }
    api::Restoration& last = *known_.last_restoration;
    last.status = succeeded ? api::TaskStatus::succeeded : api::TaskStatus::failed;
    last.end_time = to_rfc3339(now);
    if (!message.empty()) {
        last.message = std::move(message);
    }
}

bool MemberStatus::restoring() const {
    return known_.last_restoration &&
           known_.last_restoration->status == api::TaskStatus::in_progress;
}

void MemberStatus::volume_mismatch(const std::string& volume_id,
                                   const std::string& run,
                                   WallTime now) {
    auto& all = known_.volume_mismatches;
    auto found = std::find_if(
        all.begin(), all.end(), [&](const auto& one) { return one.volume_id == volume_id; });
    if (found == all.end()) {
        if (all.size() >= kMismatchesMax) {
            all.erase(all.begin());
        }
        api::VolumeMismatch added;
        added.identified_at = to_rfc3339(now);
        added.num_restarts = 0;
        added.volume_id = volume_id;
        all.push_back(std::move(added));
        mismatch_run_ = run;
        return;
    }
    if (found->fixed_at) {  // it is back
        found->identified_at = to_rfc3339(now);
        found->fixed_at.reset();
    }
    if (mismatch_run_ != run) {
        mismatch_run_ = run;
        found->num_restarts = found->num_restarts.value_or(0) + 1;
    }
}

void MemberStatus::volume_matches(WallTime now) {
    for (api::VolumeMismatch& one : known_.volume_mismatches) {
        if (!one.fixed_at) {
            one.fixed_at = to_rfc3339(now);
        }
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

void MemberStatus::defragmentation(const std::optional<api::Defragmentation>& last, WallTime now) {
    if (last) {
        known_.last_defragmentation = last;
        return;
    }
    auto& known = known_.last_defragmentation;
    if (known && known->status == api::TaskStatus::in_progress) {
        known->status = api::TaskStatus::failed;
        known->reason = "Interrupted";
        known->message = "the steward ended while etcd was at it; etcd may have finished it";
        known->end_time = to_rfc3339(now);
    }
}

void MemberStatus::alarms(const std::vector<EtcdAlarm>& raised, WallTime now) {
    const auto own = [&](std::string_view alarm) {
        return known_.id && std::any_of(raised.begin(), raised.end(), [&](const EtcdAlarm& a) {
                   return a.alarm == alarm && a.member_id == *known_.id;
               });
    };
    const bool space = own("NOSPACE");
    condition("SpaceAvailable",
              space ? "NoSpaceAlarm" : "",
              space ? "etcd has raised NOSPACE: the database has reached its quota and the cluster "
                      "refuses writes; compact, defragment every member, then disarm the alarm"
                    : "",
              now);
    const bool corrupt = own("CORRUPT");
    condition("DataIntact",
              corrupt ? "CorruptAlarm" : "",
              corrupt ? "etcd has raised CORRUPT: this member's data differs from the others'; "
                        "replace the member, the others have the data"
                      : "",
              now);
}

bool MemberStatus::urgent() const {
    return defragmentation_of(known_) != defragmentation_of(written_) ||
           !same_lists(known_.transitions, written_.transitions) ||
           !same_reasons(known_.conditions, written_.conditions) ||
           !same_lists(known_.volume_mismatches, written_.volume_mismatches) ||
           !same_restoration(known_, written_) || known_.id != written_.id ||
           known_.cluster_id != written_.cluster_id || known_.config_hash != written_.config_hash;
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

std::optional<json::Value> MemberStatus::due(MonotonicTime now) const {
    if (now < not_before_) {
        return std::nullopt;
    }
    const bool first = !written_at_.has_value();
    const auto age = first ? MonotonicTime::max() : now - *written_at_;
    const bool changed = !(facts_of(known_) == facts_of(written_));
    if (urgent() || (changed && age >= kWriteGapMin)) {
        return whole(known_);
    }
    if (backups_confirmed() && age >= kWriteGapMin) {
        return whole(known_);
    }
    // Also after a restart of the steward: the times in the object may be old.
    const bool confirmed = known_.observed_at != written_.observed_at;
    if (confirmed && age >= kFactsAgeMax / 2) {
        return whole(known_);
    }
    return std::nullopt;
}

void MemberStatus::lost() {
    written_ = {};
    written_at_.reset();
}

void MemberStatus::written(MonotonicTime now) {
    written_ = known_;
    written_at_ = now;
    pause_ = {};
    not_before_ = {};
}

void MemberStatus::refused(MonotonicTime begun, MonotonicTime now) {
    pause_ = std::clamp<std::chrono::nanoseconds>(
        std::max<std::chrono::nanoseconds>(pause_ * 2, (now - begun) * 4),
        kRefusedFirst,
        kRefusedMax);
    not_before_ = now + pause_;
}

}  // namespace capstan::steward
