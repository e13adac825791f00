// Certificates and token of this steward's own API: out of the Secrets that steward.yaml names,
// into the run directory, where the host's listener and access.hpp find them.
//
// Then it calls its own API as another steward would, and says on the EtcdMember (condition
// ApiServed) when that does not work. Nothing of it keeps the member from starting. What was
// written last stays while the API server cannot be reached. One service on one thread.
#pragma once

#include "plugins/steward-bridge/api/forward.hpp"
#include "plugins/steward-bridge/member.hpp"
#include "plugins/steward-bridge/pod_map.hpp"

#include <chrono>
#include <string>
#include <string_view>

namespace capstan::steward {

inline constexpr std::chrono::seconds kApiSecretsPeriod{30};  // how soon a renewed Secret counts
inline constexpr std::chrono::minutes kApiTokenPeriod{5};  // the same when there is only the token
// longer than the host keeps an idle connection: each check makes a new one
inline constexpr std::chrono::seconds kApiCheckPeriod{45};
inline constexpr std::chrono::seconds kApiRetry{5};
// The listener takes up a renewed pair within 10 s; a problem that outlives this is one.
inline constexpr std::chrono::seconds kApiPatience{20};

// The file of the token in the Etcd's Secret.
std::string cluster_token_file(const PodMap& map, const Identity& identity);

class ApiService final : public Service {
public:
    // `member` is borrowed and outlives *this.
    ApiService(Member& member, PeerTlsFiles configured)
        : member_(member), configured_(std::move(configured)) {}
    Result<void> run(Call& call) override;

private:
    void look(Call& call);
    void check(Call& call, const Configuration& configuration, const PodMap& map);
    Result<void> refresh(Call& call, const Configuration& configuration, const PodMap& map);
    Result<void> refresh_token(Call& call, const Configuration& configuration, const PodMap& map);
    Result<void> ask_itself(Call& call, const Configuration& configuration, const PodMap& map);
    void report(Call& call, std::string_view reason, const std::string& message);

    Member& member_;
    const PeerTlsFiles configured_;
    MonotonicTime refresh_at_{}, check_at_{};
    std::string configured_by_;  // Secrets of the last look
    MonotonicTime fails_since_{kNever};
};

}  // namespace capstan::steward
