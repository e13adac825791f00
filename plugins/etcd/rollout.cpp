#include "plugins/etcd/rollout.hpp"

#include "plugins/etcd/cluster.hpp"

#include <algorithm>
#include <optional>
#include <tuple>

namespace capstan::etcd {

namespace {

struct Standing {
    bool settled{false};  // started, and with the configuration it was told
    bool behind{false};   // reports another configuration than it was told
    bool leads{false};
    bool pending{false};  // not yet told its target
};

Standing standing_of(const api::EtcdMember* member, const std::string& target, std::string& told) {
    Standing standing;
    told = target;
    if (member == nullptr) {
        return standing;
    }
    auto annotation = member->metadata.annotations.find(std::string(kAnnotationConfigHash));
    if (annotation == member->metadata.annotations.end()) {
        return standing;  // never told: it starts with its target
    }
    told = annotation->second;
    standing.pending = told != target;
    standing.behind =
        member->status && member->status->config_hash && *member->status->config_hash != told;
    if (const api::Transition* state = present_state(*member)) {
        standing.settled =
            state->state == api::MemberState::started && member->status->config_hash == told;
        standing.leads = state->sub_state == api::MemberSubState::leader;
    }
    return standing;
}

// Position of the pending member whose turn it is: one that is not well first, the leader last.
std::optional<std::size_t> next_of(const std::vector<Standing>& standings) {
    std::optional<std::size_t> next;
    const auto rank = [&](std::size_t i) {
        return std::tuple(standings[i].settled, standings[i].leads, i);
    };
    for (std::size_t i = 0; i < standings.size(); ++i) {
        if (standings[i].pending && (!next || rank(i) < rank(*next))) {
            next = i;
        }
    }
    return next;
}

}  // namespace

Rollout plan_rollout(const std::vector<api::EtcdMember>& existing,
                     const std::vector<std::string>& names,
                     const std::vector<std::string>& targets) {
    Rollout rollout;
    rollout.hashes.resize(names.size());
    std::vector<Standing> standings;
    std::size_t settled = 0;
    for (std::size_t i = 0; i < names.size(); ++i) {
        auto found =
            std::find_if(existing.begin(), existing.end(), [&](const api::EtcdMember& member) {
                return member.metadata.name == names[i];
            });
        const api::EtcdMember* member = found == existing.end() ? nullptr : &*found;
        standings.push_back(standing_of(member, targets[i], rollout.hashes[i]));
        settled += standings[i].settled ? 1u : 0u;
    }
    const std::optional<std::size_t> next = next_of(standings);
    if (!next) {
        auto behind = std::find_if(
            standings.begin(), standings.end(), [](const Standing& s) { return s.behind; });
        if (behind != standings.end()) {
            rollout.waiting_for = names[static_cast<std::size_t>(behind - standings.begin())];
        }
        return rollout;
    }
    if (settled < names.size() / 2 + 1 && !standings[*next].settled) {
        // No quorum to lose, and one member alone could not become well: all
        // that are not well at once.
        for (std::size_t i = 0; i < names.size(); ++i) {
            rollout.hashes[i] = standings[i].settled ? rollout.hashes[i] : targets[i];
        }
        rollout.waiting_for = names[*next];
        return rollout;
    }
    for (std::size_t i = 0; i < names.size(); ++i) {
        if (!standings[i].settled && i != *next) {
            rollout.waiting_for = names[i];
            return rollout;
        }
    }
    rollout.hashes[*next] = targets[*next];
    rollout.waiting_for = names[*next];
    return rollout;
}

}  // namespace capstan::etcd
