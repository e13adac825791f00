// Writes lines to a descriptor that its reader may neglect: a full pipe must not cost whoever logs
// its time.
//
// What cannot be written at once waits in memory, at most kWaitingBytesMax; beyond it lines are
// dropped and counted, and the first line that fits again is preceded by one that tells how many.
// The descriptor's flags are left alone (a terminal is shared): it is asked before each piece, and
// a piece is what a pipe with room takes whole. What waits goes out with the next line, or with
// flush(). Thread: one at a time.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

namespace capstan::obs {

inline constexpr std::size_t kWaitingBytesMax = 256 * 1024;
// POSIX: what a pipe takes without blocking when it is writable (PIPE_BUF of Linux).
inline constexpr std::size_t kPieceBytesMax = 4096;

class LineWriter {
public:
    // The line, without the newline, that tells of `count` dropped ones.
    using Told = std::function<std::string(std::uint64_t count)>;

    // fd: borrowed, not closed.
    LineWriter(int fd, Told told) : fd_(fd), told_(std::move(told)) {}

    void write(std::string_view line);
    // Waits for the reader, at most so long.
    void flush(std::chrono::milliseconds limit);

private:
    void tell();
    // Until nothing waits, or the descriptor takes no more within `limit`.
    void drain(std::chrono::milliseconds limit);

    const int fd_;
    const Told told_;
    std::string waiting_;
    std::uint64_t dropped_{0};
};

}  // namespace capstan::obs
