// UTF-8 checking, one character at a time.
#pragma once

#include <cstddef>
#include <string_view>

namespace capstan::obs {

// Bytes of the character at `at`; 0 when malformed there (overlong, surrogate, cut
// short). Requires: at < size.
std::size_t utf8_length(std::string_view text, std::size_t at) noexcept;

}  // namespace capstan::obs
