// The few file operations of the steward. Errors: not_found, unavailable (with path
// and reason), too_large, overloaded (nothing more fits on the disk).
#pragma once

#include "capstan/error.hpp"

#include <cstddef>
#include <string>
#include <string_view>

namespace capstan::steward {

inline constexpr std::size_t kFileBytesMax = 4 * 1024 * 1024;

Result<std::string> read_file(const std::string& path);
// Temporary file, fsync, rename, fsync of the directory; mode 0600.
Result<void> write_file(const std::string& path, std::string_view text);

}  // namespace capstan::steward
