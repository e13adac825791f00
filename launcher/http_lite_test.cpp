#include "launcher/http_lite.hpp"

#include <gtest/gtest.h>

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>

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

// A steward on a Unix socket, in a directory with a name of `length` letters.
class UnixSteward {
public:
    explicit UnixSteward(std::size_t length)
        : directory_(testing::TempDir() + std::to_string(::getpid()) + std::string(length, 'd')) {
        ::mkdir(directory_.c_str(), 0700);
        const int parent = ::open(directory_.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
        sockaddr_un address{};
        address.sun_family = AF_UNIX;
        const std::string path = "/proc/self/fd/" + std::to_string(parent) + "/s.sock";
        std::strncpy(address.sun_path, path.c_str(), sizeof address.sun_path - 1);
        fd_ = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        EXPECT_EQ(::bind(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
        EXPECT_EQ(::listen(fd_, 1), 0);
        ::close(parent);
    }
    ~UnixSteward() {
        ::close(fd_);
        ::unlink(path().c_str());
        ::rmdir(directory_.c_str());
    }
    std::string path() const { return directory_ + "/s.sock"; }
    // Takes one request and answers it.
    std::string serve(std::string_view answer) const {
        const int peer = ::accept(fd_, nullptr, nullptr);
        std::array<char, 1024> buffer;
        const ssize_t got = ::recv(peer, buffer.data(), buffer.size(), 0);
        EXPECT_EQ(::send(peer, answer.data(), answer.size(), 0),
                  static_cast<ssize_t>(answer.size()));
        ::close(peer);
        return std::string(buffer.data(), static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    }

private:
    const std::string directory_;
    int fd_{-1};
};

class UnixSockets : public testing::TestWithParam<std::size_t> {};
TEST_P(UnixSockets, AreReachedWhateverTheLengthOfTheirPath) {
    const UnixSteward steward(GetParam());
    Fetch fetch;
    fetch.start({{}, 0, steward.path()}, "/config", "secret", Time{});
    Reply reply;
    EXPECT_FALSE(fetch.step(POLLOUT, Time{}, reply));
    EXPECT_EQ(steward.serve("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx"),
              "GET /config HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
              "Authorization: Bearer secret\r\n\r\n");
    ASSERT_TRUE(fetch.step(POLLIN, Time{}, reply));
    EXPECT_EQ(reply.status, 200);
    EXPECT_EQ(reply.body, "x");
}
INSTANTIATE_TEST_SUITE_P(HttpLite, UnixSockets, testing::Values(1, 200));

TEST(HttpLite, SaysWhyAUnixSocketIsNotReached) {
    for (const std::string& directory : {std::string("nothing"), std::string(200, 'n')}) {
        Fetch fetch;
        fetch.start({{}, 0, testing::TempDir() + directory + "/s.sock"}, "/config", "", Time{});
        Reply reply;
        ASSERT_TRUE(fetch.step(POLLHUP, Time{}, reply));
        EXPECT_EQ(reply.status, 0);
        EXPECT_EQ(reply.body, "connect: No such file or directory");
    }
}

}  // namespace
}  // namespace capstan::launcher
