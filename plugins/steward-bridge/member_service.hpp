// The member's life: initialisation when its launcher asks, watching etcd while it runs,
// reporting to EtcdMember.
//
// One service on one thread; decisions are in start_plan, member_status and render.
// Docs: docs/architecture.md.
#pragma once

#include "plugins/steward-bridge/member.hpp"
#include "plugins/steward-bridge/member_status.hpp"
#include "plugins/steward-bridge/pod_map.hpp"
#include "plugins/steward-bridge/start_plan.hpp"

namespace capstan::steward {

inline constexpr std::chrono::milliseconds kProbeTimeout{2'000};
// until etcd answers for the first time
inline constexpr std::chrono::milliseconds kProbeStarting{250};
inline constexpr std::chrono::milliseconds kProbeRunning{2'000};
// an initialisation that waits looks again
inline constexpr std::chrono::milliseconds kRetryWait{500};

class MemberService final : public Service {
public:
    // borrowed; outlives *this
    explicit MemberService(Member& member) noexcept : member_(member) {}
    Result<void> run(Call& call) override;

private:
    Result<Configuration> read_configuration(Call& call);
    void load_status(Call& call);
    void initialise(Call& call, const RunRequest& request);
    StartFacts gather(Call& call, const Configuration& configuration, const PodMap& map);
    StartFacts::List find_self(Call& call, const Configuration& configuration, const PodMap& map);
    void prepare(Call& call,
                 const Configuration& configuration,
                 const PodMap& map,
                 const StartDecision& decision);
    std::string advertised(const PodMap& map) const;  // requires: active_
    void probe(Call& call);
    void follow_configuration(Call& call);
    void report(Call& call);
    MonotonicTime next_look(Call& call) const;

    Member& member_;
    MemberStatus status_;
    bool status_loaded_{false};
    std::optional<RunRequest> pending_;    // an initialisation that waits for something
    std::optional<Configuration> active_;  // what etcd was started with
    std::string requested_hash_;           // a restart was asked for with it
    bool answered_since_start_{false};
    std::string last_problem_;
};

}  // namespace capstan::steward
