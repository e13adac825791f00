// A table for people: columns as wide as their widest cell, two spaces between, no trailing blanks.
#pragma once

#include <string>
#include <vector>

namespace capstan::cli {

std::string text_table(const std::vector<std::vector<std::string>>& rows);  // ends with a newline; "" without rows

}  // namespace capstan::cli
