// JSON text: what parse() takes and refuses, byte by byte where UTF-8 is concerned.
#include "capstan/json.hpp"

#include <gtest/gtest.h>

namespace capstan::json {
namespace {

bool accepted(const std::string& inside_a_string) {
    return parse("\"" + inside_a_string + "\"").has_value();
}

std::string bytes(std::initializer_list<unsigned> values) {
    std::string out;
    for (const unsigned value : values) {
        out += static_cast<char>(value);
    }
    return out;
}

// RFC 3629, section 4, written down again from its grammar.
bool is_sequence_of_two(unsigned a, unsigned b) {
    return a >= 0xc2 && a <= 0xdf && b >= 0x80 && b <= 0xbf;
}
bool is_sequence_of_three(unsigned a, unsigned b, unsigned c) {
    const bool tail = c >= 0x80 && c <= 0xbf;
    return tail &&
           ((a == 0xe0 && b >= 0xa0 && b <= 0xbf) || (a == 0xed && b >= 0x80 && b <= 0x9f) ||
            (((a >= 0xe1 && a <= 0xec) || a == 0xee || a == 0xef) && b >= 0x80 && b <= 0xbf));
}
bool is_sequence_of_four(unsigned a, unsigned b) {
    return (a == 0xf0 && b >= 0x90 && b <= 0xbf) ||
           (a >= 0xf1 && a <= 0xf3 && b >= 0x80 && b <= 0xbf) ||
           (a == 0xf4 && b >= 0x80 && b <= 0x8f);
}

TEST(JsonParse, EveryPairOfBytesIsTakenAsUtf8Says) {
    for (unsigned a = 0x80; a <= 0xff; ++a) {
        EXPECT_FALSE(accepted(bytes({a}))) << a;
        for (unsigned b = 0x20; b <= 0xff; ++b) {
            if (b == '"' || b == '\\') {
                continue;
            }
            EXPECT_EQ(accepted(bytes({a, b})), is_sequence_of_two(a, b)) << a << " " << b;
        }
    }
}

TEST(JsonParse, LongerSequencesAreTakenAsUtf8Says) {
    for (unsigned a = 0xe0; a <= 0xff; ++a) {
        for (unsigned b = 0x7f; b <= 0xc0; ++b) {
            for (const unsigned c : {0x7fu, 0x80u, 0xbfu, 0xc0u}) {
                EXPECT_EQ(accepted(bytes({a, b, c})), is_sequence_of_three(a, b, c));
            }
            EXPECT_EQ(accepted(bytes({a, b, 0x80, 0xbf})), is_sequence_of_four(a, b));
            EXPECT_FALSE(accepted(bytes({a, b, 0x80, 0x7f})) && a >= 0xf0);
        }
    }
}

// The check goes eight bytes at a time: a bad byte must be seen at each place of a word and at the
// end of the text, where no whole word is left.
TEST(JsonParse, ABadByteIsSeenAtEveryPlace) {
    for (std::size_t length = 0; length <= 24; ++length) {
        for (std::size_t at = 0; at <= length; ++at) {
            std::string text(length, 'a');
            EXPECT_TRUE(accepted(text));
            text.insert(at, "\xc3\xa9");
            EXPECT_TRUE(accepted(text)) << length << " " << at;
            text[at + 1] = 'a';
            const auto parsed = parse("\"" + text + "\"");
            ASSERT_FALSE(parsed.has_value()) << length << " " << at;
            EXPECT_EQ(parsed.error().code, Code::invalid);
        }
    }
    EXPECT_FALSE(parse("{\"a\":1}\x80").has_value());
    EXPECT_FALSE(parse("\"cut \xe2\x82").has_value());
}

// RapidJSON takes a low surrogate alone and writes bytes that nobody can read again.
TEST(JsonParse, ASurrogateStandsInAPair) {
    EXPECT_EQ(parse(R"("a\ud83d\ude00")").value(), Value("a\xf0\x9f\x98\x80"));
    EXPECT_TRUE(parse("\"\xed\x9f\xbf\\u00e9\"").has_value());
    for (const char* text : {R"("\ude00")", R"(["x\udc00y"])", R"({"\udfff":1})", R"("\ud83d")"}) {
        const auto parsed = parse(text);
        ASSERT_FALSE(parsed.has_value()) << text;
        EXPECT_EQ(parsed.error().code, Code::invalid);
    }
}

TEST(JsonParse, ANumberFitsOrIsRefused) {
    EXPECT_TRUE(parse("1.7976931348623157e308").has_value());
    for (const char* text : {"1.8e308", "[-4.9e308]", "1e309", "1e99999"}) {
        ASSERT_FALSE(parse(text).has_value()) << text;
        EXPECT_EQ(parse(text).error().code, Code::invalid);
    }
}

TEST(JsonParse, ANumberOfManyDigitsIsTheNearestOne) {
    const auto printed = [](std::string_view text) { return dump(parse(text).value()); };
    EXPECT_EQ(printed("3999991999991999999999999999999"), "3.999991999992e30");
    EXPECT_EQ(printed("3999991999992000000000000000000.0"), "3.999991999992e30");
    EXPECT_EQ(parse("0.1000000000000000055511151231257827").value(), Value(0.1));
    EXPECT_EQ(printed("2.2250738585072014e-308"), "2.2250738585072014e-308");
    EXPECT_EQ(printed("123456789012345678901234567890e-10"), "12345678901234568000.0");
}

TEST(JsonParse, AnErrorSaysWhere) {
    const auto message = [](std::string_view text) { return parse(text).error().message; };
    EXPECT_EQ(message(R"({"a":1,"a":2})"), "offset 10: duplicate key \"a\"");
    EXPECT_EQ(message("[1,]").substr(0, 8), "offset 3");
    EXPECT_EQ(message("\"abc\xff\"").substr(0, 8), "offset 4");
    EXPECT_NE(message("").find("empty"), std::string::npos);
    EXPECT_EQ(message("1 2").substr(0, 8), "offset 2");
    EXPECT_EQ(message(std::string_view("{}\0{\"a\":1}", 10)), "offset 2: a zero byte");
    EXPECT_EQ(message(std::string_view("[1]\0", 4)), "offset 3: a zero byte");
    EXPECT_EQ(message("\xef\xbb [1]").substr(0, 8), "offset 0");
    EXPECT_EQ(message("\xbf[1]").substr(0, 8), "offset 0");
    EXPECT_TRUE(parse("\xef\xbb\xbf[1]").has_value());
}

TEST(JsonParse, DuplicatesAreRefusedInLargeObjectsToo) {
    std::string text = "{";
    for (int i = 0; i < 40; ++i) {
        text += "\"k" + std::to_string(i) + "\":{\"a\":[" + std::to_string(i) + "]},";
    }
    EXPECT_TRUE(parse(text + "\"last\":1}").has_value());
    EXPECT_FALSE(parse(text + "\"k7\":1}").has_value());
}

TEST(JsonParse, OrderNestingAndKindsAreKept) {
    const std::string text =
        R"({"b":[],"a":{},"c":[[1,-2,[null]],{"x":{"y":true}}],"d":1.5,"e":"\u00e9\n","f":""})";
    const auto parsed = parse(text);
    ASSERT_TRUE(parsed.has_value()) << parsed.error().message;
    const std::string same =
        R"({"b":[],"a":{},"c":[[1,-2,[null]],{"x":{"y":true}}],"d":1.5,"e":"é\n","f":""})";
    EXPECT_EQ(dump(parsed.value()), same);
    EXPECT_EQ(dump_sorted(parsed.value()).substr(0, 14), R"({"a":{},"b":[])");
}

TEST(JsonParse, DepthIsLimited) {
    const auto nested = [](std::size_t depth) {
        return std::string(depth, '[') + std::string(depth, ']');
    };
    EXPECT_TRUE(parse(nested(kDepthMax)).has_value());
    EXPECT_EQ(parse(nested(kDepthMax + 1)).error().code, Code::too_large);
}

}  // namespace
}  // namespace capstan::json
