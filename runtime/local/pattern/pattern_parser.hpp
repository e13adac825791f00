// The syntax tree of a Pattern. Private to pattern*.cpp.
#pragma once

#include "runtime/local/pattern/pattern.hpp"

#include <memory>

namespace capstan::local::pattern {

using Ranges = std::vector<Pattern::Range>;

inline constexpr char32_t kCodePointMax = 0x10FFFF;

enum class NodeKind : std::uint8_t {
    empty,
    character,
    any,
    one_of,
    begin,
    end,
    word_edge,
    not_word_edge,
    concat,
    alternate,
    repeat
};

inline constexpr int kUnbounded = -1;

struct Node {
    NodeKind kind{NodeKind::empty};
    bool negated{false};
    char32_t character{0};
    std::vector<Pattern::Range> ranges;           // one_of
    std::vector<std::unique_ptr<Node>> children;  // concat, alternate; repeat: exactly one
    int repeat_min{0};
    int repeat_max{kUnbounded};
};

// Errors: as Pattern::compile.
Result<std::unique_ptr<Node>> parse(std::string_view expression);

// Decodes one code point at `offset` and moves it on. Broken UTF-8 gives U+FFFD
// for one byte, as Go does.
char32_t next_code_point(std::string_view text, std::size_t& offset);

bool is_letter(char32_t c);  // ASCII
bool is_word(char32_t c);    // \w

// 'd' and 'D' give the ranges of \d; nullptr: no class
const Ranges* perl_class(char c);
const Ranges* posix_class(std::string_view name);  // "alpha"; nullptr: unknown
// all other code points; `ranges` sorted, disjoint
Ranges complement(const Ranges& ranges);

}  // namespace capstan::local::pattern
