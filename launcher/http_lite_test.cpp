#include "launcher/http_lite.hpp"

#include <gtest/gtest.h>

namespace capstan::launcher {
namespace {

struct AddressRow {
    const char* name;
    const char* text;
    bool good;
    const char* host;
    int port;
};
class Addresses : public testing::TestWithParam<AddressRow> {};
TEST_P(Addresses, AreNumericWithAPort) {
    Address address;
    ASSERT_EQ(parse_address(GetParam().text, address), GetParam().good);
    if (GetParam().good) {
        EXPECT_EQ(address.host, GetParam().host);
        EXPECT_EQ(address.port, GetParam().port);
    }
}
INSTANTIATE_TEST_SUITE_P(HttpLite,
                         Addresses,
                         testing::Values(AddressRow{"v4", "127.0.0.1:80", true, "127.0.0.1", 80},
                                         AddressRow{"v6", "[::1]:80", true, "::1", 80},
                                         AddressRow{"all", ":9095", true, "", 9095},
                                         AddressRow{"name", "localhost:80", false, "", 0},
                                         AddressRow{"no_port", "127.0.0.1", false, "", 0},
                                         AddressRow{"port_zero", "127.0.0.1:0", false, "", 0},
                                         AddressRow{"port_large", "127.0.0.1:65536", false, "", 0}),
                         [](const auto& row) { return row.param.name; });

struct ReplyRow {
    const char* name;
    const char* bytes;
    bool closed;
    int status;
    const char* body;
};
class Replies : public testing::TestWithParam<ReplyRow> {};
TEST_P(Replies, AreCompleteOrNothing) {
    const Reply reply = parse_reply(GetParam().bytes, GetParam().closed);
    EXPECT_EQ(reply.status, GetParam().status);
    EXPECT_EQ(reply.body, GetParam().body);
}
INSTANTIATE_TEST_SUITE_P(
    HttpLite,
    Replies,
    testing::Values(
        ReplyRow{"length", "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nNew", false, 200, "New"},
        ReplyRow{
            "length_case", "HTTP/1.1 200 OK\r\ncONTENT-lENGTH: 3\r\n\r\nNew", false, 200, "New"},
        ReplyRow{"short", "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nNew", true, 0, ""},
        ReplyRow{
            "chunked",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n0\r\n\r\n",
            false,
            200,
            "abc"},
        ReplyRow{"chunked_short",
                 "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n",
                 true,
                 0,
                 ""},
        ReplyRow{"until_close", "HTTP/1.0 503 No\r\n\r\nwhy", true, 503, "why"},
        ReplyRow{"until_close_open", "HTTP/1.0 503 No\r\n\r\nwhy", false, 0, ""},
        ReplyRow{
            "huge_length", "HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\nx", true, 0, ""},
        ReplyRow{"garbage", "SSH-2.0-x\r\n\r\n", true, 0, ""}),
    [](const auto& row) { return row.param.name; });

}  // namespace
}  // namespace capstan::launcher
