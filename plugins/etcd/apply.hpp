// Carries a plan out: the only part of this plugin that sends anything.
//
// Thread: [worker]; blocks in the host's calls, never waits for the world.
#pragma once

#include "plugins/etcd/plan.hpp"

namespace capstan::etcd {

Outcome carry_out(Call& call, const World& world, const Plan& plan);

}  // namespace capstan::etcd
