// A table for people: columns as wide as their widest cell, two spaces between, no trailing blanks.
#pragma once

#include "capstan/json.hpp"

#include <cstddef>
#include <set>
#include <string>
#include <vector>

namespace capstan::cli {

// ends with a newline; "" without rows. `right`: columns that are aligned to the right: numbers.
std::string text_table(const std::vector<std::vector<std::string>>& rows,
                       const std::set<std::size_t>& right = {});
// "350ms", "3.2s", "42s", "5m3s", "2h5m", "3d4h"; below zero: "0s".
std::string duration_text(double seconds);

// The rows of a meta.k8s.io Table, header first in upper case. `wide`: columns of every priority.
// `with_namespace`: a first column with each row's namespace.
std::vector<std::vector<std::string>> table_rows(const json::Value& table,
                                                 bool wide,
                                                 bool with_namespace);

}  // namespace capstan::cli
