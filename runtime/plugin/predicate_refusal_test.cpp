// Predicates that are refused, with the place and the reason; and the limits.
#include "runtime/plugin/predicate.hpp"

#include <gtest/gtest.h>

#include <ostream>
#include <string>

namespace capstan::plugin {
namespace {

json::Value parsed(std::string_view text) {
    auto value = json::parse(text);
    EXPECT_TRUE(value) << text << ": " << (value ? "" : value.error().message);
    return value ? std::move(value).value() : json::Value();
}

struct BadRow {
    const char* name;
    const char* predicate;
    const char* problem;
};
std::ostream& operator<<(std::ostream& out, const BadRow& row) {
    return out << row.name;
}

class RefusedPredicate : public testing::TestWithParam<BadRow> {};

TEST_P(RefusedPredicate, NamesThePlace) {
    const json::Value named = parsed(R"({"a": {"use": "b"}, "b": {"not": {"use": "a"}}})");
    PredicateContext context;
    context.named = &named;
    Problems problems;
    Predicate::compile(parsed(GetParam().predicate), context, "/p", problems);
    ASSERT_FALSE(problems.empty());
    EXPECT_EQ(problems.lines().front(), GetParam().problem);
}

INSTANTIATE_TEST_SUITE_P(
    Grammar,
    RefusedPredicate,
    testing::Values(
        BadRow{"text", R"("yes")", "/p: expected true, false, or an object with one predicate"},
        BadRow{"unknown", R"({"chnaged":"/a"})", "/p/chnaged: unknown predicate"},
        BadRow{"two",
               R"({"exists":"/a","absent":"/b"})",
               "/p: holds two predicates, \"exists\" and \"absent\"; join them with \"all\" or "
               "\"any\""},
        BadRow{"stray_option",
               R"({"exists":"/a","of":"new"})",
               "/p/of: unknown member beside \"exists\""},
        BadRow{"case_without_else", R"({"case":{"create":true}})", "/p/case: needs \"else\""},
        BadRow{"case_unknown_event",
               R"({"case":{"modify":true,"else":false}})",
               "/p/case/modify: expected create, update, delete, resync, external or else"},
        BadRow{"bad_pointer",
               R"({"all":[true,{"changed":"spec"}]})",
               "/p/all/1/changed: expected a JSON pointer like \"/spec/replicas\" (RFC 6901)"},
        BadRow{"bad_escape",
               R"({"exists":"/a~2"})",
               "/p/exists: expected a JSON pointer like \"/spec/replicas\" (RFC 6901)"},
        BadRow{"false_flag",
               R"({"deleting":false})",
               "/p/deleting: is written with true (negate it with \"not\")"},
        BadRow{"circle", R"({"use":"a"})", "/p/use/use/not/use: uses itself"},
        BadRow{
            "unknown_use", R"({"use":"c"})", "/p/use: no predicate of that name in \"predicates\""},
        BadRow{"bad_selector",
               R"({"labels":"a in x"})",
               "/p/labels: label selector, offset 5: expected '('"},
        BadRow{"null_literal",
               R"({"eq":[{"new":"/a"},null]})",
               "/p/eq/1: expected a string, number or boolean (absence is tested by \"exists\" and "
               "\"absent\")"},
        BadRow{"mixed_types",
               R"({"eq":[{"new":"/a","as":"int"},{"old":"/a","as":"time"}]})",
               "/p/eq: compares int with time"},
        BadRow{"bad_literal",
               R"({"lt":[{"new":"/a","as":"duration"},"soon"]})",
               "/p: the literal \"soon\" is no duration"},
        BadRow{"item_outside",
               R"({"eq":[{"item":"/a"},1]})",
               "/p/eq/0/item: \"item\" stands only inside \"where\" of \"anyItem\""},
        BadRow{"nested_any_item",
               R"({"anyItem":{"at":"/a","where":{"anyItem":{"at":"/b","where":true}}}})",
               "/p/anyItem/where: only comparisons (eq ne lt le gt ge in prefix suffix), joined by "
               "all, any and not"},
        BadRow{"ignore_outside",
               R"({"changed":"/spec","ignore":["/status/x"]})",
               "/p/ignore: \"/status/x\" lies below none of the pointers in \"changed\""},
        BadRow{"two_sources",
               R"({"eq":[{"new":"/a","old":"/a"},1]})",
               "/p/eq/0: an operand has one source, not both \"new\" and \"old\""}));

TEST(Predicate, RefusesMoreThanItsLimits) {
    std::string deep = "true";
    for (std::size_t i = 0; i < kPredicateDepthMax; ++i) {
        deep = R"({"not":)" + deep + "}";
    }
    Problems problems;
    Predicate::compile(parsed(deep), {}, "/p", problems);
    ASSERT_EQ(problems.lines().size(), 1U);
    EXPECT_NE(problems.lines().front().find("nest at most 8 deep"), std::string::npos);

    const auto wide = [](std::size_t children) {
        std::string text = R"({"all":[{"any":[true)";
        for (std::size_t i = 1; i < children; ++i) {
            text += i == 40 ? "]},{\"any\":[true" : ",true";
        }
        return text + "]}]}";
    };
    Problems wide_problems;
    EXPECT_EQ(Predicate::compile(parsed(wide(61)), {}, "/p", wide_problems).node_count(),
              kPredicateNodesMax);
    EXPECT_TRUE(wide_problems.empty());
    Predicate::compile(parsed(wide(62)), {}, "/p", wide_problems);
    ASSERT_FALSE(wide_problems.empty());
    EXPECT_NE(wide_problems.lines().front().find("at most 64 nodes"), std::string::npos);
}

}  // namespace
}  // namespace capstan::plugin
