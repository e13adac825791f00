// The part of Etcd.status that this plugin owns: what it is now, and what it shall be.
//
// The other parts belong to custodian and compaction. Server-side apply drops what an intent leaves
// out, so an intent always carries all of ours. Pure. Thread: any.
#pragma once

#include "api/etcd.hpp"
#include "capstan/clock.hpp"
#include "plugins/etcd/cluster.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace capstan::etcd {

inline constexpr std::string_view kConditionSpecSupported = "SpecSupported";
inline constexpr std::size_t kDescriptionBytesMax = 1024;

// What one pass found out.
struct Report {
    std::string type{"Reconcile"};  // or "Delete"
    std::string state;              // Processing, Succeeded, Error
    std::string description;
    struct Problem {
        std::string code;
        std::string description;
    };
    std::vector<Problem> problems;   // lastErrors
    std::optional<Refusal> refused;  // condition SpecSupported=False; nullopt: none
    std::optional<std::int64_t> observed_generation;  // nullopt: keep
    // true: status.etcd and selector name our objects; nullopt: keep
    std::optional<bool> references;
};

// Our part of the present status, as an object with only fields of ours.
json::Value owned_status(const api::Etcd& etcd);
// Our part as `report` wants it. Times and the run id are kept where nothing else changes, so that
// an unchanged report gives owned_status() again.
json::Value wanted_status(const api::Etcd& etcd,
                          const Report& report,
                          WallTime now,
                          const std::string& run_id);

}  // namespace capstan::etcd
