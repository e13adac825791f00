#include "plugins/steward-bridge/membership.hpp"

#include <algorithm>
#include <set>
#include <utility>

namespace capstan::steward {

const ListedMember* find_own(const MemberList& list,
                             const std::string& name,
                             const std::vector<std::string>& peer_urls) {
    const auto& members = list.members;
    auto found = std::find_if(
        members.begin(), members.end(), [&](const ListedMember& one) { return one.name == name; });
    if (found == members.end()) {
        found = std::find_if(members.begin(), members.end(), [&](const ListedMember& one) {
            return std::find_first_of(one.peer_urls.begin(),
                                      one.peer_urls.end(),
                                      peer_urls.begin(),
                                      peer_urls.end()) != one.peer_urls.end();
        });
    }
    return found == members.end() ? nullptr : &*found;
}

StartFacts::List standing_of(const ListedMember* own) {
    if (own == nullptr) {
        return StartFacts::List::not_member;
    }
    if (own->learner) {
        return StartFacts::List::learner;
    }
    return own->started ? StartFacts::List::member : StartFacts::List::member_never_started;
}

std::size_t answers_needed(const MemberList& list, const std::string& own_id) {
    std::size_t others = 0;
    for (const ListedMember& member : list.members) {
        others += !member.learner && member.id != own_id ? 1u : 0u;
    }
    return (others + 1) / 2 + 1;
}

std::string initial_cluster_of(const MemberList& list,
                               const std::string& own_id,
                               const std::string& name) {
    std::string text;
    for (const ListedMember& member : list.members) {
        const std::string& called = member.id == own_id   ? name
                                    : member.name.empty() ? member.id
                                                          : member.name;
        for (const std::string& url : member.peer_urls) {
            text += (text.empty() ? "" : ",") + called + "=" + url;
        }
    }
    return text;
}

RunningCluster::RunningCluster(Call& call,
                               const Configuration& configuration,
                               const PodMap& map,
                               HttpTls tls)
    : gateway_(call, std::move(tls)) {
    for (const std::string& endpoint : configuration.service_endpoints) {
        const auto urls = map.urls(endpoint);
        endpoints_.insert(endpoints_.end(), urls.begin(), urls.end());
    }
    // The Service leads to ready members only, and to any of them.
    for (const std::string& endpoint : configuration.peer_endpoints) {
        if (const auto url = map.url(endpoint)) {
            if (std::find(endpoints_.begin(), endpoints_.end(), url.value()) == endpoints_.end()) {
                endpoints_.push_back(url.value());
            }
        }
    }
    if (const auto own = map.url(configuration.own_client_url)) {
        std::erase(endpoints_, own.value());
    }
}

std::optional<MemberList> RunningCluster::find() {
    for (const std::string& endpoint : endpoints_) {
        auto list = gateway_.cluster(endpoint, kListTimeout);
        if (list) {
            chosen_ = endpoint;
            return std::move(list).value();
        }
    }
    return std::nullopt;
}

bool RunningCluster::quorum_without(const MemberList& list, const std::string& own_id) {
    std::set<std::string> voters, alive;
    for (const ListedMember& member : list.members) {
        if (!member.learner && member.id != own_id) {
            voters.insert(member.id);
        }
    }
    for (const ListedMember& member : list.members) {
        for (const std::string& url : member.client_urls) {
            if (!voters.contains(member.id) || alive.contains(member.id)) {
                break;
            }
            // Who answers counts, not who was asked: the URLs of several may lead to one of them.
            const auto status = gateway_.status(url, kListTimeout);
            if (status && status.value().has_leader &&
                status.value().cluster_id == list.cluster_id &&
                voters.contains(status.value().member_id)) {
                alive.insert(status.value().member_id);
            }
        }
    }
    return alive.size() >= answers_needed(list, own_id);
}

Result<MemberList> RunningCluster::add_learner(const std::vector<std::string>& peer_urls) {
    return gateway_.add_learner(chosen_, peer_urls, kMemberCallTimeout);
}

Result<MemberList> RunningCluster::remove(const std::string& id) {
    return gateway_.remove_member(chosen_, id, kMemberCallTimeout);
}

Result<MemberList> RunningCluster::promote(const std::string& id) {
    return gateway_.promote_member(chosen_, id, kMemberCallTimeout);
}

}  // namespace capstan::steward
