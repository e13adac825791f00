#include "runtime/net/gunzip.hpp"

#include "runtime/net/http_client.hpp"
#include "runtime/net/test_gzip.hpp"
#include "runtime/net/test_peers.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <random>

namespace capstan::net {
namespace {

using testing::gzip;
using testing::kLimit;
using testing::RawConnection;
using testing::RawServer;

constexpr std::size_t kRoom = 64 * 1024;

std::string sample(std::size_t size) {
    std::mt19937 random(7);
    std::string text(size, '\0');
    for (char& c : text) {
        c = static_cast<char>('a' + random() % 16);
    }
    return text;
}

// Everything that comes of `packed` in pieces of `size` bytes; what is wrong with it at the end.
std::string decoded(std::string_view packed, std::size_t size, std::size_t room, std::string& out) {
    Gunzip gunzip;
    std::string in;
    while (!packed.empty()) {
        in += packed.substr(0, size);
        packed.remove_prefix(std::min(size, packed.size()));
        do {
            const std::size_t before = out.size();
            if (const auto done = gunzip.decode(in, room, out); !done) {
                return done.error().message;
            }
            EXPECT_LE(out.size() - before, room);
        } while (gunzip.has_more());
        EXPECT_EQ(in, "");
    }
    return gunzip.complete() ? "" : "cut short";
}

TEST(Gunzip, GivesTheSameTextForEveryChunkAndRoom) {
    const std::string text = sample(5'000);
    const std::string packed = gzip(text);
    for (const std::size_t size : {std::size_t{1}, std::size_t{7}, std::size_t{100'000}}) {
        for (const std::size_t room : {std::size_t{1}, std::size_t{1'000}, kRoom, SIZE_MAX}) {
            std::string out;
            EXPECT_EQ(decoded(packed, size, room, out), "");
            EXPECT_TRUE(out == text) << size << " " << room;
            out.clear();
            EXPECT_EQ(decoded(packed + gzip("") + gzip("!"), size, room, out), "");
            EXPECT_TRUE(out == text + "!") << "members in a row";
        }
    }
}

TEST(Gunzip, EveryTruncationIsNoticed) {
    const std::string packed = gzip(sample(300));
    for (std::size_t size = 1; size < packed.size(); ++size) {
        std::string out;
        EXPECT_EQ(decoded(std::string_view(packed).substr(0, size), 50, kRoom, out), "cut short");
    }
}

TEST(Gunzip, DamageIsAnError) {
    const std::string packed = gzip(sample(300));
    std::string out;
    EXPECT_EQ(decoded("{\"kind\":\"x\"}", 50, kRoom, out), "damaged gzip: incorrect header check");
    EXPECT_EQ(decoded(packed + "x", 1, kRoom, out), "cut short");
    EXPECT_EQ(decoded(packed + "xy", 500, kRoom, out), "damaged gzip: incorrect header check");
    std::string flipped = packed;
    flipped[packed.size() - 6] ^= 1;  // of the checksum
    EXPECT_EQ(decoded(flipped, 50, kRoom, out), "damaged gzip: incorrect data check");
}

TEST(Gunzip, ABombUnfoldsNoFurtherThanAsked) {
    Gunzip gunzip;
    std::string in = gzip(std::string(10u << 20, '\0'));
    EXPECT_LT(in.size(), 60'000u);
    std::string out;
    ASSERT_TRUE(gunzip.decode(in, kRoom, out));
    EXPECT_EQ(out.size(), kRoom);
    EXPECT_LE(out.capacity(), 2 * kRoom);
    EXPECT_TRUE(gunzip.has_more());
}

struct Answered : ::testing::Test {
    std::unique_ptr<IoLoop> loop{make_loop()};
    std::string seen;  // of the stream
    Headers stream_headers;
    std::size_t largest{0};

    static HttpRequest request(bool ask = true) {
        HttpRequest made;
        made.target = "/list";
        if (ask) {
            made.headers = {{"Accept-Encoding", "gzip"}};
        }
        return made;
    }
    static std::string answer(const std::string& body, const std::string& coding = "gzip") {
        return "HTTP/1.1 200 OK\r\nContent-Encoding: " + coding +
               "\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
    }
    Result<HttpResponse> get(const std::string& bytes, HttpRequest asked = request()) {
        RawServer server([&](RawConnection& peer, int) {
            peer.read_request();
            peer.send(bytes);
        });
        HttpClientOptions options;
        options.endpoint = server.endpoint();
        const auto client = make_http_client(*loop, options).value();
        std::optional<Result<HttpResponse>> result;
        const auto exchange = client->send(
            std::move(asked), [&](Result<HttpResponse> r) { result.emplace(std::move(r)); });
        return loop->run_until([&] { return result.has_value(); }, kLimit)
                   ? std::move(*result)
                   : fail(Code::internal, "the test hangs");
    }
    Result<void> stream(const std::string& bytes, bool byte_by_byte = false) {
        RawServer server([&](RawConnection& peer, int) {
            peer.read_request();
            if (byte_by_byte) {
                peer.send_byte_by_byte(bytes);
            } else {
                peer.send(bytes);
            }
        });
        HttpClientOptions options;
        options.endpoint = server.endpoint();
        const auto client = make_http_client(*loop, options).value();
        std::optional<Result<void>> result;
        std::unique_ptr<HttpStream> open;
        StreamHandler handler;
        handler.on_head = [&](int, const Headers& headers) {
            stream_headers = headers;
            open->read();
        };
        handler.on_data = [&](std::string_view piece) {
            largest = std::max(largest, piece.size());
            seen.append(piece.substr(0, 1u << 20));
            open->read();
        };
        handler.on_end = [&](Result<void> r) { result.emplace(std::move(r)); };
        open = client->stream(request(), {}, handler);
        return loop->run_until([&] { return result.has_value(); }, kLimit)
                   ? std::move(*result)
                   : fail(Code::internal, "the test hangs");
    }
};

TEST_F(Answered, PackedBodiesAreUnpacked) {
    const std::string text = sample(400'000);
    const auto got = get(answer(gzip(text)));
    ASSERT_TRUE(got) << got.error().message;
    EXPECT_TRUE(got.value().body == text);
    EXPECT_EQ(find_header(got.value().headers, "content-encoding"), "");
    EXPECT_EQ(find_header(got.value().headers, "content-length"), "");
    ASSERT_TRUE(stream(answer(gzip(text))));
    EXPECT_TRUE(seen == text);
    EXPECT_EQ(find_header(stream_headers, "content-encoding"), "");
    EXPECT_LE(largest, kRoom);
}

TEST_F(Answered, ChunksOfOneByteAreUnpacked) {
    const std::string text = sample(2'000);
    std::string chunks =
        "HTTP/1.1 200 OK\r\nContent-Encoding: GZIP\r\nTransfer-Encoding: chunked\r\n\r\n";
    for (const char c : gzip(text)) {
        chunks += "1\r\n" + std::string(1, c) + "\r\n";
    }
    const auto done = stream(chunks + "0\r\n\r\n", true);
    ASSERT_TRUE(done) << done.error().message;
    EXPECT_TRUE(seen == text);
}

TEST_F(Answered, OnlyWhatWasAskedForIsUnpacked) {
    const std::string packed = gzip("text");
    EXPECT_EQ(get(answer(packed), request(false)).value().body, packed);
    EXPECT_EQ(get(answer("text", "identity")).value().body, "text");
    EXPECT_EQ(get("HTTP/1.1 204 No Content\r\nContent-Encoding: gzip\r\n\r\n").value().status, 204);
    const auto other = get(answer("text", "br"));
    ASSERT_FALSE(other);
    EXPECT_TRUE(other.error().message.ends_with(
        "/list: the answer has the content coding \"br\", which was not asked for"));
}

TEST_F(Answered, TruncatedPackedBodiesAreErrors) {
    const std::string packed = gzip(sample(100'000));
    const std::string part = packed.substr(0, packed.size() - 1);
    const std::string until_close = "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n" + part;
    for (const std::string& bytes : {answer(part), until_close}) {
        const auto got = get(bytes);
        ASSERT_FALSE(got);
        EXPECT_EQ(got.error().code, Code::unavailable);
        EXPECT_TRUE(got.error().message.ends_with("malformed answer: its gzip is cut short"))
            << got.error().message;
        const auto streamed = stream(bytes);
        ASSERT_FALSE(streamed);
        EXPECT_TRUE(streamed.error().message.ends_with("malformed answer: its gzip is cut short"));
    }
    EXPECT_FALSE(get(answer(packed + "xyz")));
    EXPECT_FALSE(get(answer("{}")));
}

TEST_F(Answered, ABombEndsAtTheLimitOfTheBody) {
    const std::string bomb = answer(gzip(std::string(8u << 20, '\0')));
    HttpRequest asked = request();
    asked.body_bytes_max = 1u << 20;
    const auto got = get(bomb, asked);
    ASSERT_FALSE(got);
    EXPECT_EQ(got.error().code, Code::too_large);
    asked.body_bytes_max = 8u << 20;
    EXPECT_TRUE(get(bomb, asked)) << "exactly the limit";
    asked.body_bytes_max = SIZE_MAX;
    EXPECT_TRUE(get(bomb, asked));
    ASSERT_TRUE(stream(bomb));
    EXPECT_EQ(seen.size(), 8u << 20);
    EXPECT_LE(largest, kRoom) << "a slow reader holds it back";
}

}  // namespace
}  // namespace capstan::net
