#include "plugins/steward-bridge/store/encoding.hpp"

#include <gtest/gtest.h>

namespace capstan::steward {
namespace {

TEST(Encoding, Base64IsThatOfRfc4648) {
    struct Row {
        std::string plain, coded;
    };
    for (const Row& row : {Row{"", ""},
                           {"f", "Zg=="},
                           {"fo", "Zm8="},
                           {"foo", "Zm9v"},
                           {"foobar", "Zm9vYmFy"},
                           {"\xFB\xFF", "+/8="}}) {
        EXPECT_EQ(to_base64(row.plain), row.coded);
        EXPECT_EQ(from_base64(row.coded), row.plain);
    }
    for (const char* bad : {"Zg", "Zg=", "Zg===", "Z===", "Zh==", "Zm9v=", "Zm 9v", "=", "Zm9-"}) {
        EXPECT_EQ(from_base64(bad), std::nullopt) << bad;
    }
}

TEST(Encoding, UrisEscapeAllButThePlain) {
    EXPECT_EQ(uri_encode("aZ0-._~/ +%\xC3\xA9", true), "aZ0-._~/%20%2B%25%C3%A9");
    EXPECT_EQ(uri_encode("a/b=", false), "a%2Fb%3D");
    EXPECT_EQ(uri_decode("a%2Fb+%c3%A9"), "a/b+\xC3\xA9");
    for (const char* bad : {"%", "%4", "%4x", "a%"}) {
        EXPECT_EQ(uri_decode(bad), std::nullopt) << bad;
    }
}

TEST(Encoding, DatesOfHttpAndOfAws) {
    const auto time = parse_http_date("Fri, 24 May 2013 01:02:03 GMT");
    ASSERT_TRUE(time);
    EXPECT_EQ(to_amz_date(*time), "20130524T010203Z");
    for (const char* bad :
         {"", "Fri, 24 Mai 2013 01:02:03 GMT", "Friday, 24-May-13 01:02:03 GMT"}) {
        EXPECT_FALSE(parse_http_date(bad)) << bad;
    }
}

TEST(Encoding, ForeignTextIsCutAndQuoted) {
    EXPECT_EQ(quote_foreign("a\nb\x7F"), "\"a?b?\"");
    EXPECT_EQ(quote_foreign(std::string(600, 'x')).size(), 514u);
}

}  // namespace
}  // namespace capstan::steward
