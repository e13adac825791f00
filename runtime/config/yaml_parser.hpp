// yaml-cpp behind one function: the documents of a text, or everything that is wrong with it.
// For yaml.cpp, which checks size and encoding before.
#pragma once

#include "runtime/config/yaml.hpp"

namespace capstan::config {

struct Parsed {
    std::vector<Document> documents;    // not empty, in order; the last may be partial
    std::vector<std::string> problems;  // each with file and line
    bool too_large{false};
};
// What can be read of a text, and all that is wrong with it.
Parsed parse_all(std::string_view text, const std::string& file, const LoadOptions& options);

// Documents that are not empty, in order; `file` stands in front of every problem. Errors:
// invalid, too_large, all problems at once, one a line.
Result<std::vector<Document>> parse_documents(std::string_view text,
                                              const std::string& file,
                                              const LoadOptions& options);

}  // namespace capstan::config
