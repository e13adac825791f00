// What is said of an object whose bytes are not what was written: one shape for every reader.
//
// Damage is Code::invalid: it stays until the object changes. Failures of the store keep the code
// they came with, so a caller tells the two apart by the code alone.
#pragma once

#include "capstan/error.hpp"

#include <string>
#include <string_view>

namespace capstan::steward {

// What a person can do about it; ends every damaged() message.
inline constexpr std::string_view kDamagedRemedy =
    "; `capstan backup verify` tells what can still be restored";

// "<object> is damaged: <what>" and the remedy.
Error damaged(std::string_view object, std::string_view what);

}  // namespace capstan::steward
