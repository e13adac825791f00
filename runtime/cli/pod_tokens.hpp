// Bearer tokens of local mode: who a pod is, signed with a key of this directory.
// Nothing is stored per token.
//
// Form: "capstan.<hex of {"ns","sa","pod","uid"}>.<hex HMAC-SHA256>". Thread: any.
#pragma once

#include "capstan/error.hpp"

#include <optional>
#include <string>
#include <string_view>

namespace capstan::cli {

struct PodIdentity {
    std::string ns, service_account, pod, uid;
};

class PodTokens {
public:
    explicit PodTokens(std::string key) noexcept : key_(std::move(key)) {}
    std::string issue(const PodIdentity& identity) const;
    std::optional<PodIdentity> verify(std::string_view token) const;  // nullopt: not one of ours

private:
    std::string key_;
};

}  // namespace capstan::cli
