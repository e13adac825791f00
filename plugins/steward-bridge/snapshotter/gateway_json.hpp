// The JSON of etcd's gateway: its numbers, its errors, its lines.
#pragma once

#include "capstan/error.hpp"
#include "capstan/json.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace capstan::steward {

// A piece of a watch is about etcd's request limit (1.5 MiB by default) and 4/3 of it as base64.
inline constexpr std::size_t kGatewayLineBytesMax = std::size_t{64} * 1024 * 1024;

// 64-bit integers arrive as text, or as numbers from a kinder server; absent is 0. Errors: invalid.
Result<std::int64_t> read_int64(const json::View& view);

// Of {"code","message"}, also with "grpc_code" as streams of 3.5 have it.
Error gateway_error(const json::View& error);

// The blob of one line of a snapshot, appended to `out`, decoded; and what is still to come.
Result<void> read_snapshot_line(std::string_view line, std::string& out, std::uint64_t& remaining);

}  // namespace capstan::steward
