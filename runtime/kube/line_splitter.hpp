// Cuts a byte stream into lines: watch framing. Chunk borders and line borders are unrelated. Each
// byte is looked at once and copied at most once, whatever the chunk size. Thread: owning thread.
#pragma once

#include "capstan/error.hpp"

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

namespace capstan::kube {

// a 10 MiB event, three times over
inline constexpr std::size_t kWatchLineBytesMax = 32u * 1024 * 1024;

class LineSplitter {
public:
    explicit LineSplitter(std::size_t line_bytes_max = kWatchLineBytesMax)
        : line_bytes_max_(line_bytes_max) {}

    // Calls `line` with each complete line, without its end and never blank (blank lines are
    // skipped). The view dies when `line` returns; returning false stops: the rest of `bytes` is
    // dropped. Errors: too_large, after which the splitter is empty and must not be fed again.
    Result<void> feed(std::string_view bytes, const std::function<bool(std::string_view)>& line);
    // What is left at the end of the stream: empty or blank, a clean end; else text without its
    // line end.
    std::string_view rest() const noexcept { return buffer_; }

private:
    std::size_t line_bytes_max_;
    std::string buffer_;
};

}  // namespace capstan::kube
