// The steward's HTTP API: what launchers and operators ask. Contract:
// plugins/etcd/README.md and README.md here.
#pragma once

#include "plugins/steward-bridge/member.hpp"

namespace capstan::steward {

void add_routes(Setup& setup, Member& member);  // member: borrowed; outlives the instance's routes

}  // namespace capstan::steward
