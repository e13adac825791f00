// Small file helpers of the node: whole-file reads and writes that never leave half a file behind.
//
// Errors name the path and what the system said. Nothing is synced to disk: what is kept here
// describes processes, and after a power cut there are none (the boot id differs). Thread: any.
#pragma once

#include "capstan/error.hpp"

#include <sys/types.h>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace capstan::local {

inline constexpr std::size_t kStateFileBytesMax = 4u * 1024 * 1024;

// "<path>: No space left on device"
Error file_error(std::string_view action, const std::string& path, int system_error);

// Writes beside and renames. Errors: unavailable; the old content stays.
Result<void> write_file(const std::string& path, std::string_view bytes, mode_t mode);
// Errors: not_found, too_large, unavailable.
Result<std::string> read_file(const std::string& path, std::size_t bytes_max = kStateFileBytesMax);
// The directory and what is missing above it, mode 0700. Errors: unavailable.
Result<void> make_dirs(const std::string& path);
Result<void> remove_tree(const std::string& path);           // absent is fine
std::vector<std::string> list_dir(const std::string& path);  // names, sorted; empty when unreadable

}  // namespace capstan::local
