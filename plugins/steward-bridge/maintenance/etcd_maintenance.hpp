// The questions and orders of etcd's maintenance service that go beyond a status: alarms,
// defragmentation, the health of every member. Parsing is pure; the calls block. Thread: the
// caller's.
#pragma once

#include "plugins/steward-bridge/etcd_gateway.hpp"

#include "capstan/error.hpp"
#include "capstan/json.hpp"

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace capstan::steward {

// Errors: invalid.
Result<std::vector<EtcdAlarm>> parse_alarms(const json::Value& answer);

// One member as the others see it.
struct MemberHealth {
    ListedMember member;
    std::optional<EtcdStatus> status;  // of its own client URL; nullopt: no answer
    std::string problem;               // then why
};

struct ClusterHealth {
    std::vector<MemberHealth> members;
    std::vector<EtcdAlarm> alarms;
};

class EtcdMaintenance {
public:
    explicit EtcdMaintenance(Gateway& gateway) noexcept : gateway_(&gateway) {}
    Result<std::vector<EtcdAlarm>> alarms(const std::string& endpoint,
                                          std::chrono::milliseconds timeout);
    // Returns when it is done: the member answers nothing else meanwhile.
    Result<void> defragment(const std::string& endpoint, std::chrono::milliseconds timeout);
    // Asks `endpoint` for the list (so there is a quorum) and the alarms, then each member for its
    // status, by its first client URL that answers.
    Result<ClusterHealth> look(const std::string& endpoint, std::chrono::milliseconds timeout);

private:
    Gateway* gateway_;
};

// Why `self` (hex id) must not stop answering for a while: a member that does not answer, has no
// leader, has not started, or whose data is corrupt. Empty: it may.
std::string why_not_defragment(const ClusterHealth& cluster, const std::string& self);

}  // namespace capstan::steward
