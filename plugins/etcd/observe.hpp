// The world as one reconcile of an Etcd sees it: read once from the cache, then only looked at.
//
// Owner: the reconcile. Thread: [worker] for observe(), the rest are values.
#pragma once

#include "api/etcd.hpp"
#include "api/etcd_member.hpp"
#include "capstan/clock.hpp"
#include "capstan/plugin.hpp"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace capstan::etcd {

// A child that exists and is controlled by this Etcd.
struct Child {
    GroupVersionKind gvk;
    ObjectKey key;
    bool operator==(const Child&) const = default;
};

struct World {
    api::Etcd etcd;
    std::vector<api::EtcdMember> members;  // controlled by this Etcd, by name
    // EtcdMembers of an Etcd of this name before this one: their status tells of its cluster
    std::vector<ObjectKey> members_before;
    // spec.replicas of its StatefulSet; nullopt: there is none
    std::optional<std::int32_t> set_replicas;
    // the ConfigMap names the Secret of the stewards' token, which was made before it
    bool api_token_named{false};
    // filled only while the Etcd is being deleted; the StatefulSet first
    std::vector<Child> children;
    bool member_gate{false};
    WallTime now{};
    // Lower-case hex SHA-256 of a text. Pure; a member so that plans need no host.
    Result<std::string> (*sha256)(const void* context, std::string_view text){nullptr};
    const void* sha256_context{nullptr};
};

// The kinds of our children, in the order in which they are made.
struct ChildKind {
    std::string_view gvk;
    std::string_view code;  // as in status.lastErrors: ERR_SYNC_<code>
};
const std::vector<ChildKind>& child_kinds();

// nullopt: the Etcd is gone. Errors: those of the cache; invalid (an object that its own
// schema should have refused).
Result<std::optional<World>> observe(Call& call, const ObjectKey& key);

// `child` is controlled by an Etcd of the name of `etcd` that is not this one: it was before it and
// is gone, else the name were not free.
bool of_etcd_before(const api::ObjectMeta& child, const api::ObjectMeta& etcd);

// The last entry of the transitions; nullptr: none yet.
const api::Transition* present_state(const api::EtcdMember& member) noexcept;

}  // namespace capstan::etcd
