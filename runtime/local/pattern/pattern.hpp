// Regular expressions as the API server understands them (Go's RE2 syntax), matched in linear time.
//
// A pattern comes from a CRD and the text from a client, so neither may cost more than a bounded
// amount: the expression is compiled to a limited program and simulated without backtracking.
// Supported: literals, ".", classes (ranges, negation, \d \w \s and POSIX names), groups (plain,
// (?:, (?i:, named), alternation, greedy and lazy repetition with {m,n}, anchors ^ $ \A \z and \b
// \B. Not supported: \p{…}, multi-line and dot-all flags.
// Thread: any once compiled; match() keeps no state.
#pragma once

#include "capstan/error.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace capstan::local {

inline constexpr std::size_t kPatternBytesMax = 8 * 1024;
// instructions; x{1000} inside y{1000} does not fit
inline constexpr std::size_t kPatternProgramMax = 20'000;
inline constexpr std::size_t kPatternRepeatMax = 1000;  // as Go
inline constexpr std::size_t kPatternDepthMax = 100;    // nested groups
// bytes of text; longer text does not match
inline constexpr std::size_t kPatternTextMax = 64 * 1024;

class Pattern {
public:
    // Errors: invalid (syntax, with the offset), unsupported, too_large.
    static Result<Pattern> compile(std::string_view expression);

    // Whether the expression matches anywhere in `text` (UTF-8), as Go's MatchString.
    bool match(std::string_view text) const;

    const std::string& expression() const noexcept { return expression_; }
    // Instructions: with the length of a text, what a match may cost.
    std::size_t size() const noexcept { return program_.size(); }

    struct Range {
        char32_t first;
        char32_t last;
    };
    enum class Op : std::uint8_t {
        character,
        any,
        one_of,
        split,
        begin,
        end,
        word_edge,
        not_word_edge,
        accept
    };
    struct Instruction {
        Op op{Op::accept};
        bool negated{false};  // one_of
        std::uint32_t next{0};
        std::uint32_t other{0};  // split: second target; one_of: index into sets
        char32_t character{0};
    };

private:
    std::string expression_;
    std::vector<Instruction> program_;
    std::vector<std::vector<Range>> sets_;
};

}  // namespace capstan::local
