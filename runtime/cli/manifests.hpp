// Files of objects that a person hands to a command. Thread: [startup].
#pragma once

#include "capstan/error.hpp"
#include "runtime/config/document.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace capstan::cli {

inline constexpr std::string_view kStandardInput = "-";

// Every document of every file, checked as far as that is possible without a server: each must be
// an object with apiVersion, kind and metadata.name, or a List of such, whose items come instead of
// it. Errors: invalid, all problems at once, one a line: "a.yaml:7: document 2: /kind: missing".
Result<std::vector<config::Document>> load_manifests(const std::vector<std::string>& files);

}  // namespace capstan::cli
