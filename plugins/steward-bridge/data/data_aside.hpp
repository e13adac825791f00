// Damaged data is moved aside, not deleted: /volume/member.damaged-20261130T184500Z beside the data
// directory. When the new data works, only the newest of them stays.
#pragma once

#include "capstan/clock.hpp"
#include "capstan/error.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace capstan::steward {

// Moves <data directory>/member away, durably; "" when there was none. Errors: unavailable.
Result<std::string> move_aside(const std::string& data_directory, WallTime now);

// Those that were moved aside, oldest first.
std::vector<std::string> list_aside(const std::string& data_directory);

// Deletes all but the newest `keep`. How many went.
std::size_t remove_aside(const std::string& data_directory, std::size_t keep);

// Free bytes of the volume for this process; 0 when it cannot be told.
std::uint64_t free_bytes(const std::string& data_directory);

}  // namespace capstan::steward
