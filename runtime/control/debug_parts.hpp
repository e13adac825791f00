// Pieces of the debug page. Internal to runtime/control.
#pragma once

#include "capstan/json.hpp"
#include "runtime/cache/cache.hpp"

#include <chrono>

namespace capstan::control {

double seconds(std::chrono::nanoseconds value);  // to the millisecond
json::Value debug_of(const cache::WatchSpec& spec,
                     const cache::WatchState& state,
                     MonotonicTime now);

}  // namespace capstan::control
