// "$(NAME)" in a manifest's text: an environment variable of the process, as in a pod's args.
// Pure. Thread: any.
#pragma once

#include "capstan/error.hpp"

#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace capstan::plugin {

// Every "$" of `text` begins a "$(NAME)"; NAME is letters, digits and underscores.
bool has_only_whole_variables(std::string_view text);

using VariableLookup = std::function<std::optional<std::string>(const std::string& name)>;
// `text` with each variable's value in its place. Requires: has_only_whole_variables(text).
// Errors: invalid, a variable that is not set or empty.
Result<std::string> expand_variables(std::string_view text, const VariableLookup& lookup);

}  // namespace capstan::plugin
