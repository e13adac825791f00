// Reads and follows the plain log files of containers. Thread: [io].
#pragma once

#include "capstan/error.hpp"
#include "runtime/local/node/node.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace capstan::local {

// of one unary answer: the end is kept
inline constexpr std::size_t kLogAnswerBytesMax = 32u * 1024 * 1024;
inline constexpr std::chrono::milliseconds kLogFollowPeriod{200};

struct LogPart {
    std::string text;
    std::uint64_t end{0};  // offset behind `text`
};
// The last `tail_lines` lines (all when absent). Errors: not_found, unavailable.
Result<LogPart> read_log_file(const std::string& path,
                              std::optional<std::int64_t> tail_lines,
                              std::optional<std::int64_t> limit_bytes);

// Gives what is appended after `from`; ends when `ended()` was true and nothing is left.
std::unique_ptr<LogFollow> follow_log_file(net::Loop& loop,
                                           std::string path,
                                           std::uint64_t from,
                                           std::function<bool()> ended,
                                           std::function<void(std::string_view)> on_data,
                                           std::function<void()> on_end);

}  // namespace capstan::local
