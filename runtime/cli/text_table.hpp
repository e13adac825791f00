// A table for people: columns as wide as their widest cell, two spaces between, no trailing blanks.
#pragma once

#include "capstan/json.hpp"

#include <string>
#include <vector>

namespace capstan::cli {

// ends with a newline; "" without rows
std::string text_table(const std::vector<std::vector<std::string>>& rows);

// The rows of a meta.k8s.io Table, header first in upper case. `wide`: columns of every priority.
// `with_namespace`: a first column with each row's namespace.
std::vector<std::vector<std::string>> table_rows(const json::Value& table,
                                                 bool wide,
                                                 bool with_namespace);

}  // namespace capstan::cli
