#include "runtime/config/yaml.hpp"

#include <gtest/gtest.h>

namespace capstan::config {
namespace {

std::string error_of(std::string_view text) {
    const auto document = load(text, "f");
    return document ? "accepted: " + json::dump(document.value().value) : document.error().message;
}

json::Value value_of(std::string_view text) {
    auto document = load(text, "f");
    EXPECT_TRUE(document) << document.error().message;
    return document ? std::move(document).value().value : json::Value();
}

struct ScalarRow {
    const char* name;
    const char* text;
    json::Value expected;
};

class PlainScalar : public ::testing::TestWithParam<ScalarRow> {};

TEST_P(PlainScalar, FollowsYaml12Core) {
    const auto& row = GetParam();
    const json::Value whole = value_of("k: " + std::string(row.text) + "\n");
    ASSERT_NE(whole.find("k"), nullptr);
    EXPECT_EQ(*whole.find("k"), row.expected) << json::dump(whole);
    EXPECT_EQ(whole.find("k")->kind(), row.expected.kind()) << json::dump(whole);
}

INSTANTIATE_TEST_SUITE_P(
    All,
    PlainScalar,
    ::testing::Values(ScalarRow{"yes", "yes", "yes"},
                      ScalarRow{"on", "on", "on"},
                      ScalarRow{"off", "Off", "Off"},
                      ScalarRow{"n", "n", "n"},
                      ScalarRow{"underscore", "1_000", "1_000"},
                      ScalarRow{"binary", "0b11", "0b11"},
                      ScalarRow{"sexagesimal", "12:30:45", "12:30:45"},
                      ScalarRow{"old_octal_text", "0o8", "0o8"},
                      ScalarRow{"octal", "0o17", 15},
                      ScalarRow{"hex", "0xfF", 255},
                      ScalarRow{"hex_text", "0xg", "0xg"},
                      ScalarRow{"hex_sign", "0x-1", "0x-1"},
                      ScalarRow{"true_lower", "true", true},
                      ScalarRow{"true_upper", "TRUE", true},
                      ScalarRow{"true_mixed", "tRue", "tRue"},
                      ScalarRow{"false_title", "False", false},
                      ScalarRow{"null_word", "null", nullptr},
                      ScalarRow{"tilde", "~", nullptr},
                      ScalarRow{"nothing", "", nullptr},
                      ScalarRow{"zero", "0", 0},
                      ScalarRow{"negative", "-12", -12},
                      ScalarRow{"plus", "+12", 12},
                      ScalarRow{"exponent", "1e3", 1000.0},
                      ScalarRow{"fraction", ".5", 0.5},
                      ScalarRow{"trailing_dot", "1.", 1.0},
                      ScalarRow{"dot_only", ".", "."},
                      ScalarRow{"leading_zero_real", "0.5", 0.5},
                      ScalarRow{"version", "1.2.3", "1.2.3"},
                      ScalarRow{
                          "int64_max", "9223372036854775807", std::int64_t{9223372036854775807}},
                      ScalarRow{"beyond_int64", "9223372036854775808", 9223372036854775808.0},
                      ScalarRow{"quoted_number", "\"1\"", "1"},
                      ScalarRow{"single_quoted", "'true'", "true"},
                      ScalarRow{"tagged_text", "!!str 5", "5"},
                      ScalarRow{"quoted_empty", "\"\"", ""},
                      ScalarRow{"date", "2026-01-02", "2026-01-02"}),
    [](const auto& row_info) { return row_info.param.name; });

TEST(Yaml, RefusesWhatYaml11And12ReadDifferently) {
    EXPECT_NE(error_of("a: 1\nb: 0123\n").find("f:2: /b: integer 0123 with a leading zero"),
              std::string::npos);
    EXPECT_NE(error_of("a: .inf\n").find("f:1: /a: .inf cannot be expressed"), std::string::npos);
    EXPECT_NE(error_of("a: .NaN\n").find(".NaN cannot"), std::string::npos);
}

TEST(Yaml, ReportsEveryProblemWithItsLine) {
    const std::string error = error_of(
        "a: &x 1\nb: *x\na: 2\nc:\n  d: 1\n  d: 2\ne: !foo 1\n? [1]\n: 2\nf: {g: 1, g: 2}\n");
    EXPECT_EQ(error,
              "f:1: /a: anchors (&name) are not supported; write the value out\n"
              "f:2: /b: aliases (*name) are not supported; write the value out\n"
              "f:3: duplicate key \"a\", first on line 1\n"
              "f:6: /c: duplicate key \"d\", first on line 5\n"
              "f:7: /e: tag !foo is not supported\n"
              "f:8: a key must be a single word or text\n"
              "f:10: /f: duplicate key \"g\", first on line 10");
}

TEST(Yaml, KeepsPositions) {
    const Document document =
        load("# head\na:\n  b: 1\n  c:\n  - x\n  - d: 2\n    e/f: 3\n", "f").value();
    EXPECT_EQ(document.position("/a"), "f:2");
    EXPECT_EQ(document.position("/a/b"), "f:3");
    EXPECT_EQ(document.position("/a/c/0"), "f:5");
    EXPECT_EQ(document.position("/a/c/1"), "f:6");
    EXPECT_EQ(document.position("/a/c/1/d"), "f:6");
    EXPECT_EQ(document.position("/a/c/1/e~1f"), "f:7");
    EXPECT_EQ(document.position("/a/missing/deep"), "f:2") << "nearest known ancestor";
}

TEST(Yaml, ReadsSeveralDocumentsAndSkipsEmptyOnes) {
    const auto documents =
        load_all("# only a comment\n---\na: 1\n---\n---\n# nothing\n---\nb: 2\n...\n", "f").value();
    ASSERT_EQ(documents.size(), 2u);
    EXPECT_EQ(*documents[0].value.find("a"), json::Value(1));
    EXPECT_EQ(documents[0].position("/a"), "f:3");
    EXPECT_EQ(documents[1].position("/b"), "f:8");
}

TEST(Yaml, WantsExactlyOneDocument) {
    EXPECT_EQ(error_of(""), "f: the file holds nothing");
    EXPECT_EQ(error_of("# x\n"), "f: the file holds nothing");
    EXPECT_NE(error_of("a: 1\n---\nb: 2\n").find("a second document"), std::string::npos);
    EXPECT_EQ(value_of("---\na: 1\n---\n"), json::Value({{"a", 1}}))
        << "an empty trailer is no document";
}

TEST(Yaml, TakesBomAndCrlf) {
    EXPECT_EQ(value_of("\xEF\xBB\xBF"
                       "a: 1\r\nb: x\r\n"),
              json::Value({{"a", 1}, {"b", "x"}}));
}

TEST(Yaml, ReadsBlockText) {
    EXPECT_EQ(value_of("a: |\n  1\n  2\nb: >-\n  x\n  y\n"),
              json::Value({{"a", "1\n2\n"}, {"b", "x y"}}));
}

TEST(Yaml, NamesTheLineOfASyntaxError) {
    for (const char* text : {"a: 1\nb:\n\tc: 1\n",
                             "a: 1\nb: [1, 2\n",
                             "a: 1\nb: \"open\n",
                             "a: 1\nb: 'it''s open\n",
                             "a: 1\n b: 2\n",
                             "a: 1\n]\n"}) {
        EXPECT_EQ(error_of(text).substr(0, 2), "f:") << text << error_of(text);
    }
    EXPECT_EQ(error_of("a: 1\nb: \xff\n"), "f:2: not UTF-8 text");
    EXPECT_EQ(error_of(std::string_view("a: \0b\n", 6)), "f:1: not UTF-8 text");
}

TEST(Yaml, HasLimits) {
    std::string deep;
    for (int i = 0; i < 101; ++i) {
        deep += "[";
    }
    for (int i = 0; i < 101; ++i) {
        deep += "]";
    }
    const auto too_deep = load(deep, "f");
    ASSERT_FALSE(too_deep);
    EXPECT_EQ(too_deep.error().code, Code::too_large);
    EXPECT_NE(too_deep.error().message.find("nested deeper than 100"), std::string::npos);
    EXPECT_TRUE(load(deep.substr(1, 200), "f")) << "100 levels are fine";
    const std::string very_deep(100'000, '[');
    EXPECT_FALSE(load(very_deep, "f"));
    EXPECT_EQ(load("a: 1", "f", {.bytes_max = 3}).error().code, Code::too_large);
    EXPECT_EQ(load("[1, 2, 3]", "f", {.nodes_max = 3}).error().code, Code::too_large);
    EXPECT_EQ(load_all("a: 1\n---\nb: 1\n", "f", {.documents_max = 1}).error().code,
              Code::too_large);
}

TEST(Yaml, WritesWhatItReads) {
    const json::Value value = {
        {"text", "plain"},
        {"yes", "yes"},
        {"number", "12"},
        {"empty", ""},
        {"int", 5},
        {"real", 1.5},
        {"none", nullptr},
        {"on", true},
        {"lines", "a\nb: c\n"},
        {"object", json::object()},
        {"list", json::list()},
        {"a/b: c", "# no comment"},
        {"items",
         json::list(
             {1,
              "x",
              json::Value({{"k", json::list({json::Value({{"deep", 1}, {"two", 2}})})}, {"l", 2}}),
              json::list({1, json::list({2})})})},
    };
    EXPECT_EQ(value_of(to_yaml(value)), value) << to_yaml(value);
}

TEST(Yaml, WritesKeysOfAnyLength) {
    for (const std::size_t length : {998u, 1022u, 1023u, 1024u, 5000u}) {
        json::Value inner = json::object();
        inner.set(std::string(length, 'k'), json::list({1, 2}));
        inner.set(std::string(length, ','), {{"a", "b"}});
        const json::Value value = {{"in", inner}, {"items", json::list({inner, inner})}};
        EXPECT_EQ(value_of(to_yaml(value)), value) << length;
    }
}

TEST(Yaml, SaysWhyAFileCannotBeRead) {
    EXPECT_EQ(load_file("/nonexistent/x.yaml").error().code, Code::not_found);
    EXPECT_FALSE(load_file("/"));
}

TEST(Nearest, FindsTyposOnly) {
    const std::vector<std::string_view> known{
        "logging", "limits", "listeners", "maxConcurrent", "port"};
    EXPECT_EQ(nearest("loging", known), "logging");
    EXPECT_EQ(nearest("lgoging", known), "logging");
    EXPECT_EQ(nearest("maxconcurrent", known), "maxConcurrent");
    EXPECT_EQ(nearest("prot", known), "port");
    EXPECT_EQ(nearest("kubeconfig", known), "");
    EXPECT_EQ(nearest("x", known), "");
}

}  // namespace
}  // namespace capstan::config
