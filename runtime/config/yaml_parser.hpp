// yaml-cpp behind one function: the documents of a text, or everything that is wrong with it.
// For yaml.cpp, which checks size and encoding before.
#pragma once

#include "runtime/config/yaml.hpp"

namespace capstan::config {

// Documents that are not empty, in order; `file` stands in front of every problem. Errors:
// invalid, too_large, all problems at once, one a line.
Result<std::vector<Document>> parse_documents(std::string_view text,
                                              const std::string& file,
                                              const LoadOptions& options);

}  // namespace capstan::config
