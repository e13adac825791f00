#include "runtime/local/pattern/pattern.hpp"

#include <gtest/gtest.h>

namespace capstan::local {
namespace {

struct MatchRow {
    const char* name;
    const char* expression;
    const char* text;
    bool matches;
};

class PatternMatch : public testing::TestWithParam<MatchRow> {};

TEST_P(PatternMatch, AnswersAsGo) {
    const MatchRow& row = GetParam();
    auto pattern = Pattern::compile(row.expression);
    ASSERT_TRUE(pattern.has_value()) << pattern.error().message;
    EXPECT_EQ(pattern.value().match(row.text), row.matches) << row.expression << " on " << row.text;
}

INSTANTIATE_TEST_SUITE_P(
    Rows,
    PatternMatch,
    testing::Values(
        MatchRow{"empty_matches_all", "", "x", true},
        MatchRow{"unanchored", "b+", "abbc", true},
        MatchRow{"anchored_miss", "^b+$", "abb", false},
        MatchRow{"anchored_hit", "^ab+$", "abb", true},
        MatchRow{"alternation_binds_loosest", "^a|b$", "axx", true},
        MatchRow{"class_range", "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", "az-1", true},
        MatchRow{"class_trailing_dash", "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$", "az-", false},
        MatchRow{"negated_class", "^[^/]+$", "a/b", false},
        MatchRow{"literal_bracket_first", "^[]a]+$", "]a", true},
        MatchRow{"counted_low", "^a{2,3}$", "a", false},
        MatchRow{"counted_in", "^a{2,3}$", "aaa", true},
        MatchRow{"counted_high", "^a{2,3}$", "aaaa", false},
        MatchRow{"counted_open", "^a{2,}$", "aaaaa", true},
        MatchRow{"counted_zero", "^a{0}b$", "b", true},
        MatchRow{"brace_literal", "^a{,2}$", "a{,2}", true},
        MatchRow{"lazy", "^a+?b$", "aab", true},
        MatchRow{"nested_empty_loop", "^(a*)*$", "aaab", false},
        MatchRow{"dot_not_newline", "^a.b$", "a\nb", false},
        MatchRow{"dot_code_point", "^.$", "\xC2\xB5", true},
        MatchRow{
            "micro_sign", "^([0-9]+(\\.[0-9]+)?(ns|us|\xC2\xB5s|ms|s|m|h))+$", "5\xC2\xB5s", true},
        MatchRow{"escaped_slash", "^a\\/b$", "a/b", true},
        MatchRow{"space_class", "^a\\s+b$", "a \tb", true},
        MatchRow{"not_digit", "^\\D+$", "ab1", false},
        MatchRow{"class_in_class", "^[\\w.]+$", "a_1.", true},
        MatchRow{"posix", "^[[:alpha:]_]+$", "aB_", true},
        MatchRow{"word_edge", "\\bfoo\\b", "a foo b", true},
        MatchRow{"word_edge_miss", "\\bfoo\\b", "afoo", false},
        MatchRow{"fold_case", "(?i)^aBc$", "AbC", true},
        MatchRow{"fold_case_group_ends", "^(?i:a)b$", "AB", false},
        MatchRow{"hex", "^\\x41\\x{42}$", "AB", true},
        MatchRow{"end_is_end_of_text", "^a$", "a\n", false},
        MatchRow{"named_group", "^(?P<x>a)$", "a", true}),
    [](const auto& param) { return param.param.name; });

struct RefusedRow {
    const char* name;
    std::string expression;
    Code code;
};

class PatternRefused : public testing::TestWithParam<RefusedRow> {};

TEST_P(PatternRefused, SaysWhy) {
    auto pattern = Pattern::compile(GetParam().expression);
    ASSERT_FALSE(pattern.has_value());
    EXPECT_EQ(pattern.error().code, GetParam().code) << pattern.error().message;
}

INSTANTIATE_TEST_SUITE_P(
    Rows,
    PatternRefused,
    testing::Values(RefusedRow{"open_group", "(a", Code::invalid},
                    RefusedRow{"stray_group_end", "a)", Code::invalid},
                    RefusedRow{"open_class", "[a", Code::invalid},
                    RefusedRow{"reversed_range", "[z-a]", Code::invalid},
                    RefusedRow{"double_star", "a**", Code::invalid},
                    RefusedRow{"leading_star", "*a", Code::invalid},
                    RefusedRow{"look_ahead", "(?=a)", Code::invalid},
                    RefusedRow{"back_reference", "(a)\\1", Code::invalid},
                    RefusedRow{"count_reversed", "a{3,2}", Code::invalid},
                    RefusedRow{"count_huge", "a{2000}", Code::invalid},
                    RefusedRow{"trailing_backslash", "a\\", Code::invalid},
                    RefusedRow{"unicode_class", "\\pL", Code::unsupported},
                    RefusedRow{"program", "((a{100}){100}){100}", Code::too_large},
                    RefusedRow{
                        "depth", std::string(200, '(') + std::string(200, ')'), Code::too_large},
                    RefusedRow{"bytes", std::string(kPatternBytesMax + 1, 'a'), Code::too_large}),
    [](const auto& param) { return param.param.name; });

TEST(Pattern, TakesLinearTimeOnTextsThatKillBacktracking) {
    auto pattern = Pattern::compile("^(a+)+$");
    ASSERT_TRUE(pattern.has_value());
    EXPECT_FALSE(pattern.value().match(std::string(20'000, 'a') + "b"));
}

TEST(Pattern, DoesNotMatchTextOverTheLimit) {
    auto pattern = Pattern::compile("a");
    ASSERT_TRUE(pattern.has_value());
    EXPECT_TRUE(pattern.value().match(std::string(kPatternTextMax, 'a')));
    EXPECT_FALSE(pattern.value().match(std::string(kPatternTextMax + 1, 'a')));
}

TEST(Pattern, SurvivesBrokenUtf8) {
    auto pattern = Pattern::compile("^.{3}$");
    ASSERT_TRUE(pattern.has_value());
    EXPECT_TRUE(pattern.value().match("a\xFF\xE2"));
}

}  // namespace
}  // namespace capstan::local
