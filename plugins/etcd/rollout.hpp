// Which member gets a new configuration next.
//
// A configuration reaches a running etcd only when its EtcdMember's annotation names it. One member
// after the other, the leader last, each only while the others are well: a configuration that etcd
// cannot run with stops at one member. Pure. Thread: any.
#pragma once

#include "plugins/etcd/observe.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace capstan::etcd {

struct Rollout {
    std::vector<std::string> hashes;  // the annotation of each member, in the order of `names`
    std::string waiting_for;          // name of the member that is awaited; empty: none
};

// `targets`: the hash each member shall come to. A member without an EtcdMember
// starts with its target.
Rollout plan_rollout(const std::vector<api::EtcdMember>& existing,
                     const std::vector<std::string>& names,
                     const std::vector<std::string>& targets);

}  // namespace capstan::etcd
