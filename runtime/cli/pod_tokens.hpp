// Bearer tokens of local mode: who a pod is, signed with a key of this directory.
// Nothing is stored per token.
//
// Form: a JSON Web Token, HS256, with the claims Kubernetes puts into those of service accounts.
// Thread: any.
#pragma once

#include "capstan/clock.hpp"
#include "capstan/error.hpp"

#include <optional>
#include <string>
#include <string_view>

namespace capstan::cli {

struct PodIdentity {
    std::string ns, service_account, pod, uid;  // pod and uid may be empty
};

class PodTokens {
public:
    explicit PodTokens(std::string key) noexcept : key_(std::move(key)) {}
    // Without `expires` it is good for ever: the node's tokens last as long as their pods.
    std::string issue(const PodIdentity& identity,
                      WallTime issued,
                      std::optional<WallTime> expires = {}) const;
    // nullopt: not one of ours, or expired
    std::optional<PodIdentity> verify(std::string_view token, WallTime now) const;

private:
    std::string key_;
};

}  // namespace capstan::cli
