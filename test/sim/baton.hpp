// The threads in virtual time that `capstan render` runs on, under their old name for tests.
#pragma once

#include "runtime/offline/baton.hpp"
#include "test/fakes/virtual_loop.hpp"

namespace capstan::test {
using offline::Baton;
using offline::kStallMax;
}  // namespace capstan::test
