// The debug page as a text for a terminal. Pure.
#pragma once

#include "capstan/json.hpp"

#include <string>

namespace capstan::cli {

// `page`: as of Runtime::debug(), with the host's "client", "ready" and "version". What is missing
// is left out.
std::string debug_text(const json::Value& page);

}  // namespace capstan::cli
