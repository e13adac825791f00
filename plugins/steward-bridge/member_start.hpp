// One start of the member, from the launcher's wish to a configuration etcd can be started with.
//
// Looks again and again, each look one pass over the start table (start_plan.hpp): it carries out
// what is decided, or waits and says for what. Every step can be repeated after a crash at any
// point. What it has done is in the status' transitions. Thread: the member service's.
#pragma once

#include "plugins/steward-bridge/configuration.hpp"
#include "plugins/steward-bridge/member.hpp"
#include "plugins/steward-bridge/member_status.hpp"
#include "plugins/steward-bridge/membership.hpp"
#include "plugins/steward-bridge/pod_map.hpp"
#include "plugins/steward-bridge/start_plan.hpp"
#include "plugins/steward-bridge/tls_files.hpp"

#include <functional>
#include <optional>
#include <string>

namespace capstan::steward {

inline constexpr std::string_view kInitialised = "Initialized";  // the condition's type
inline constexpr std::string_view kLearnerAnnotation = "druid.gardener.cloud/create-as-learner";

// While it is there the launcher says: not ready, no vote yet.
std::string learner_file(const std::string& run_dir);

class MemberStart {
public:
    // All borrowed; outlive *this. `publish` writes the status where it is due, before work that
    // takes long.
    MemberStart(Member& member, MemberStatus& status, std::function<void(Call&)> publish)
        : member_(member), status_(status), publish_(std::move(publish)), tls_(member) {}

    struct Ended {
        bool successful{false};
        std::string etcd_config;
    };

    void begin(const RunRequest& request);  // a new start: what an earlier one saw counts no more
    // A launcher that asks has no etcd any more: what was Started is not, whatever is found now.
    void leave_started(Call& call);
    // nullopt: waits.
    std::optional<Ended> look(Call& call,
                              const Configuration& configuration,
                              const PodMap& map,
                              bool learner_mark);
    // Without the API: only what is whole is started, as it was last time.
    std::optional<Ended> look_without_api(Call& call,
                                          const std::string& last_good,
                                          const Error& why);
    void wait_for(Call& call, const std::string& reason, const std::string& message);
    TlsFiles& tls() noexcept { return tls_; }
    // Until the next look: short at first, longer the longer it waits.
    std::chrono::milliseconds pause() const;

private:
    // What one look works with.
    struct Look {
        Call& call;
        const Configuration& configuration;
        const PodMap& map;
        RunningCluster cluster;
        StartFacts facts;
        std::optional<MemberList> list;
        std::string own_id;  // in the list
        std::vector<std::string> peer_urls;
        std::string data_dir;
    };

    const DataDirectory& inspect(Call& call, const std::string& path);
    void enter_validation(Call& call, const char* reason);
    const char* reason_to_validate() const;
    Result<bool> has_record(const Look& look) const;
    Result<std::string> other_that_ran(const Look& look) const;
    bool gather(Look& look, bool learner_mark);
    void find_self(Look& look);
    void judge(Look& look);
    std::optional<Ended> act(Look& look, const StartDecision& decision);
    std::optional<Ended> rejoin(Look& look, const StartDecision& decision);
    std::optional<Ended> add_as_learner(Look& look);
    std::optional<Ended> restore(Look& look, const StartDecision& decision);
    std::optional<Ended> prepare(Look& look, const char* how, bool existing);
    std::optional<Ended> give_up(Call& call, const std::string& reason, const std::string& message);
    void enter_new(Look& look, const char* reason, const std::string& message);
    Result<void> set_aside(Look& look);
    const char* why_unusable(const StartFacts& facts) const;

    Member& member_;
    MemberStatus& status_;
    std::function<void(Call&)> publish_;
    TlsFiles tls_;
    RunRequest request_;
    DataDirectory data_;
    std::string fingerprint_;  // of what data_ says
    bool inspected_{false};
    unsigned looks_{0};
    std::string last_problem_;
};

}  // namespace capstan::steward
