// Mapping a library once in a child process: what its static initialisation does to a process is
// seen there first.
//
// An exception out of a constructor, a crash or an endless loop at load cannot be stopped in this
// process: the dynamic loader holds its lock meanwhile. The child costs a few milliseconds.
// Thread: [startup]; the process should have no other threads.
#pragma once

#include "capstan/error.hpp"

#include <chrono>
#include <cstddef>
#include <string>

namespace capstan::plugin {

inline constexpr std::chrono::seconds kTrialMax{10};
inline constexpr std::size_t kTrialOutputBytesMax = 512;  // of what it said, the last part

// Errors: invalid, with how the child ended and the last it wrote to stderr. ok also when no child
// can be made: mapping then tells.
Result<void> try_mapping(const std::string& path, std::chrono::milliseconds limit = kTrialMax);

}  // namespace capstan::plugin
