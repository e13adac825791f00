#include "api/codec.hpp"

#include <gtest/gtest.h>

namespace capstan::api {
namespace {

struct QuantityRow {
    const char* name;
    const char* text;
    std::optional<std::int64_t> want;
};

class QuantityTest : public testing::TestWithParam<QuantityRow> {};

TEST_P(QuantityTest, IsReadInWholeUnitsRoundedUp) {
    auto got = quantity({GetParam().text, false});
    ASSERT_EQ(got.has_value(), GetParam().want.has_value()) << GetParam().text;
    if (got) {
        EXPECT_EQ(got.value(), *GetParam().want) << GetParam().text;
    }
}

INSTANTIATE_TEST_SUITE_P(Rows,
                         QuantityTest,
                         testing::Values(QuantityRow{"plain", "8589934592", 8589934592},
                                         QuantityRow{"gibi", "8Gi", 8589934592},
                                         QuantityRow{"giga", "8G", 8000000000},
                                         QuantityRow{"fraction", "1.5Ki", 1536},
                                         QuantityRow{"leading_point", ".5k", 500},
                                         QuantityRow{"milli_rounds_up", "1500m", 2},
                                         QuantityRow{"exact_tenth", "0.1k", 100},
                                         QuantityRow{"exponent", "1e3", 1000},
                                         QuantityRow{"exponent_plus", "2E+3", 2000},
                                         QuantityRow{"exa", "7E", 7000000000000000000},
                                         QuantityRow{"negative", "-3Ki", -3072},
                                         QuantityRow{"largest", "9223372036854775807", INT64_MAX},
                                         QuantityRow{"too_large", "8Ei", std::nullopt},
                                         QuantityRow{"unit_gb", "1GB", std::nullopt},
                                         QuantityRow{"empty", "", std::nullopt},
                                         QuantityRow{"only_suffix", "Gi", std::nullopt},
                                         QuantityRow{"two_points", "1.2.3", std::nullopt},
                                         QuantityRow{"blank", "1 Gi", std::nullopt}),
                         [](const auto& row) { return row.param.name; });

TEST(Codec, IntOrStringKeepsItsForm) {
    for (const json::Value& written : {json::Value(16), json::Value("16Gi")}) {
        IntOrString value;
        ASSERT_TRUE(decode(json::View(written), value));
        EXPECT_EQ(encode(value), written);
    }
}

TEST(Codec, NumberBeyond32BitsNamesItsField) {
    json::Value object = {{"port", 4294967296}};
    std::int32_t port = 0;
    auto got = decode(json::View(object)["port"], port);
    ASSERT_FALSE(got);
    EXPECT_EQ(got.error().message, "/port: outside 32 bits");
}

TEST(Codec, MapWithANumberNamesTheKey) {
    json::Value object = {{"labels", {{"a", "b"}, {"c/d", 1}}}};
    StringMap labels;
    auto got = decode(json::View(object)["labels"], labels);
    ASSERT_FALSE(got);
    EXPECT_EQ(got.error().code, Code::invalid);
    EXPECT_EQ(got.error().message.substr(0, 13), "/labels/c~1d:");
}

}  // namespace
}  // namespace capstan::api
