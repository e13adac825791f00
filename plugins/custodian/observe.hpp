// Everything the health of one Etcd is judged by, read once from the cache.
//
// Owner: the reconcile. Thread: [worker] for observe(), the rest are values.
#pragma once

#include "api/etcd.hpp"
#include "api/etcd_member.hpp"
#include "capstan/clock.hpp"
#include "capstan/plugin.hpp"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace capstan::custodian {

struct Lease {
    // of a member "<id>:<cluster id>:<role>", or "<id>:<role>"; empty: never held
    std::string holder;
    std::optional<WallTime> renewed;
    std::optional<WallTime> created;
};

struct Pod {
    bool ready{false};             // condition Ready, and not being deleted
    bool containers_ready{false};  // condition ContainersReady
    bool etcd_ready{false};  // its container etcd; where nothing is said of it: as the line above
};

struct StatefulSet {
    std::int64_t generation{0};
    std::int64_t observed_generation{0};
    std::int32_t replicas{0};          // spec
    std::int32_t current_replicas{0};  // status, as the next ones
    std::int32_t updated_replicas{0};
    std::string current_revision;
    std::string update_revision;
};

struct World {
    api::Etcd etcd;
    // by name, only those controlled by this Etcd, as the rest
    std::map<std::string, api::EtcdMember> members;
    std::map<std::string, Lease> leases;  // by name: the member's, or of the snapshots
    std::map<std::string, Pod> pods;      // by name
    std::optional<StatefulSet> set;
    WallTime now{};
};

// nullopt: the Etcd is gone. Errors: those of the cache; invalid (an object its own
// schema should have refused).
Result<std::optional<World>> observe(Call& call, const ObjectKey& key);

}  // namespace capstan::custodian
