// The condition BackupReady: are backups as young as the Etcd asks for?
//
// Judged by what was stored last, as the EtcdMembers or the two snapshot leases of etcd-druid tell
// it, whichever is newer. Pure. Source: etcd-druid's check of the same name.
#pragma once

#include "plugins/custodian/observe.hpp"

#include <optional>
#include <string>

namespace capstan::custodian {

inline constexpr std::string_view kBackupReady = "BackupReady";

// the steward's own, where the Etcd says nothing
inline constexpr std::chrono::seconds kDeltaPeriodDefault{20};
inline constexpr std::chrono::hours kFullPeriodDefault{24};
inline constexpr std::chrono::minutes kSnapshotTimeoutDefault{15};

struct BackupVerdict {
    std::string_view status, reason;
    std::string message;              // the same as long as the facts are
    MonotonicTime next_look{kNever};  // from now until it may change by age alone
};

// nullopt: the Etcd asks for no backups. `before`: the condition as it is, or nullptr.
std::optional<BackupVerdict> judge_backups(const World& world, const api::Condition* before);

}  // namespace capstan::custodian
