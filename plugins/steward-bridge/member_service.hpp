// The member's life: initialisation when its launcher asks, watching etcd while it runs,
// reporting to EtcdMember.
//
// One service on one thread; how a member starts is in member_start and start_plan, what it says of
// itself in member_status. Docs: docs/architecture.md.
#pragma once

#include "plugins/steward-bridge/member.hpp"
#include "plugins/steward-bridge/member_start.hpp"
#include "plugins/steward-bridge/member_status.hpp"
#include "plugins/steward-bridge/pod_map.hpp"

namespace capstan::steward {

inline constexpr std::chrono::milliseconds kProbeTimeout{2'000};
// until etcd answers for the first time
inline constexpr std::chrono::milliseconds kProbeStarting{250};
inline constexpr std::chrono::milliseconds kProbeRunning{2'000};
// between two tries to become a voting member; doubles
inline constexpr std::chrono::milliseconds kPromoteFirst{250};
inline constexpr std::chrono::milliseconds kPromoteMax{5'000};
// starts in a row after which etcd never answered; then it is said
inline constexpr int kSilentStartsMax = 3;

class MemberService final : public Service {
public:
    // borrowed; outlives *this
    explicit MemberService(Member& member)
        : member_(member), start_(member, status_, [this](Call& call) { report(call); }) {}
    Result<void> run(Call& call) override;

private:
    Result<Configuration> read_configuration(Call& call);
    void load_status(Call& call);
    void initialise(Call& call);
    void finish_start(Call& call,
                      const MemberStart::Ended& ended,
                      std::optional<Configuration> configuration);
    bool learner_mark(Call& call) const;
    std::string advertised(const PodMap& map) const;  // requires: active_
    void probe(Call& call);
    void promote(Call& call, const PodMap& map, const EtcdStatus& seen);
    void drop_learner_mark(Call& call);
    void tidy_up(Call& call, const PodMap& map);
    void follow_configuration(Call& call);
    void report(Call& call);
    MonotonicTime next_look(Call& call) const;

    Member& member_;
    MemberStatus status_;
    MemberStart start_;
    bool status_loaded_{false};
    bool pending_{false};                  // a start is under way, or waits for something
    std::optional<Configuration> active_;  // what etcd was started with
    std::string requested_hash_;           // a restart was asked for with it
    bool answered_since_start_{false};
    bool started_{false};   // by this steward: an answer is awaited
    int silent_starts_{0};  // in a row
    bool tidied_{false};    // since etcd answered
    std::chrono::milliseconds promote_pause_{kPromoteFirst};
    MonotonicTime promote_at_{};
    std::string last_problem_;
};

}  // namespace capstan::steward
