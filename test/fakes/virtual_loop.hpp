// The loop in virtual time that `capstan render` runs on, under its old name for tests.
#pragma once

#include "runtime/offline/virtual_loop.hpp"

namespace capstan::test {
using offline::VirtualLoop;
}  // namespace capstan::test
