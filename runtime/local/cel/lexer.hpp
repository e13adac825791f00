// Words of an expression. Private to runtime/local/cel.
#pragma once

#include "capstan/error.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace capstan::local::cel {

enum class TokenKind : std::uint8_t { end, name, integer, real, string, sign };

struct Token {
    TokenKind kind{TokenKind::end};
    std::uint32_t offset{0};
    std::string_view word;  // as written; borrowed from the text
    std::string text;       // string: without quotes and escapes
};

// Ends with a token of kind end. Errors: invalid, with the offset.
Result<std::vector<Token>> read_tokens(std::string_view text);

}  // namespace capstan::local::cel
