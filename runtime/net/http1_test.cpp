#include "runtime/net/http1.hpp"

#include <gtest/gtest.h>

namespace capstan::net {
namespace {

struct Outcome {
    bool done{false};
    Http1Parser::Problem problem{Http1Parser::Problem::none};
    std::string body;
    Head head;
    std::string rest;
};

// Feeds `text` in pieces of `size`, as a peer would.
Outcome feed(Role role, std::string_view text, std::size_t size, bool no_body = false) {
    Http1Parser parser(role, 4096, no_body);
    Outcome outcome;
    std::string pending;
    std::size_t at = 0;
    while (at < text.size() && !parser.done()) {
        const std::string_view piece = text.substr(at, size);
        at += piece.size();
        pending += piece;
        const auto step = parser.parse(pending);
        pending.erase(0, step.consumed);
        outcome.problem = step.problem;
        if (step.problem != Http1Parser::Problem::none) {
            return outcome;
        }
    }
    outcome.done = parser.done() || parser.finish();
    outcome.body = parser.body();
    if (parser.head_done()) {
        outcome.head = parser.head();
    }
    outcome.rest = pending + std::string(text.substr(at));
    return outcome;
}

struct MessageRow {
    const char* name;
    Role role;
    const char* text;
    bool done;
    const char* body;
    const char* rest;
    bool keep_alive;
};

class Message : public ::testing::TestWithParam<MessageRow> {};

TEST_P(Message, ParsesTheSameInAnyPieces) {
    const auto& row = GetParam();
    for (const std::size_t size :
         {std::size_t{1}, std::size_t{2}, std::size_t{7}, std::size_t{10'000}}) {
        const Outcome outcome = feed(row.role, row.text, size);
        EXPECT_EQ(outcome.problem, Http1Parser::Problem::none) << size;
        EXPECT_EQ(outcome.done, row.done) << size;
        EXPECT_EQ(outcome.body, row.body) << size;
        EXPECT_EQ(outcome.rest, row.rest) << size;
        EXPECT_EQ(outcome.head.keep_alive, row.keep_alive) << size;
    }
}

INSTANTIATE_TEST_SUITE_P(
    All,
    Message,
    ::testing::Values(
        MessageRow{"length",
                   Role::response,
                   "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabcNEXT",
                   true,
                   "abc",
                   "NEXT",
                   true},
        MessageRow{"chunked",
                   Role::response,
                   "HTTP/1.1 200 OK\r\nTransfer-Encoding: "
                   "chunked\r\n\r\n3\r\nabc\r\nA;x=y\r\n0123456789\r\n0\r\nT: 1\r\n\r\nX",
                   true,
                   "abc0123456789",
                   "X",
                   true},
        MessageRow{
            "until_close", Role::response, "HTTP/1.1 200 OK\r\n\r\nabc", true, "abc", "", false},
        MessageRow{"close",
                   Role::response,
                   "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
                   true,
                   "",
                   "",
                   false},
        MessageRow{"http10",
                   Role::response,
                   "HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\na",
                   true,
                   "a",
                   "",
                   false},
        MessageRow{
            "no_content", Role::response, "HTTP/1.1 204 No Content\r\n\r\nX", true, "", "X", true},
        MessageRow{"cut_length",
                   Role::response,
                   "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nabc",
                   false,
                   "abc",
                   "",
                   true},
        MessageRow{"cut_chunked",
                   Role::response,
                   "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabc",
                   false,
                   "abc",
                   "",
                   true},
        MessageRow{"empty_chunked",
                   Role::response,
                   "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nX",
                   true,
                   "",
                   "X",
                   true},
        MessageRow{"empty_chunked_in_two_digits",
                   Role::response,
                   "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n00\r\n\r\nX",
                   true,
                   "",
                   "X",
                   true},
        MessageRow{"empty_chunked_with_trailer",
                   Role::response,
                   "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nT: 1\r\n\r\nX",
                   true,
                   "",
                   "X",
                   true},
        MessageRow{"chunked_of_one",
                   Role::response,
                   "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\nX",
                   true,
                   "a",
                   "X",
                   true},
        MessageRow{"request_empty_chunked",
                   Role::request,
                   "POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nX",
                   true,
                   "",
                   "X",
                   true},
        MessageRow{"request",
                   Role::request,
                   "PUT /a?b=c HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\n\r\nhiGET",
                   true,
                   "hi",
                   "GET",
                   true},
        MessageRow{
            "bare_get", Role::request, "GET / HTTP/1.1\r\nHost: h\r\n\r\n", true, "", "", true}),
    [](const auto& row_info) { return row_info.param.name; });

TEST(Http1Parser, RefusesSmugglingAndGarbage) {
    for (const char* text :
         {"GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
          "GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nTransfer-Encoding: "
          "chunked\r\n\r\n0\r\n\r\n",
          "GET / HTTP/1.1\r\nHost: h\r\nContent-Length: -1\r\n\r\n",
          "GET / HTTP/9.9\r\n\r\n",
          "\x16\x03\x01\x02\x00\x01",
          "GET / HTTP/1.1\r\nBad Name: x\r\n\r\n"}) {
        EXPECT_EQ(feed(Role::request, text, 1000).problem, Http1Parser::Problem::malformed) << text;
    }
    EXPECT_EQ(
        feed(Role::response, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 1000)
            .problem,
        Http1Parser::Problem::malformed);
}

TEST(Http1Parser, LimitsTheHead) {
    const std::string bomb = "GET / HTTP/1.1\r\nX: " + std::string(5000, 'a');
    EXPECT_EQ(feed(Role::request, bomb, 100).problem, Http1Parser::Problem::head_too_large);
    EXPECT_EQ(feed(Role::request, bomb, 100'000).problem, Http1Parser::Problem::head_too_large);
}

TEST(Http1Parser, AnswersToHeadHaveNoBody) {
    const Outcome outcome =
        feed(Role::response, "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n", 1000, true);
    EXPECT_TRUE(outcome.done);
}

TEST(Http1Text, CannotBeSplitByValues) {
    std::string out;
    append_header(out, "A", "x\r\nEvil: 1");
    EXPECT_EQ(out, "A: x  Evil: 1\r\n");
    EXPECT_EQ(chunk("0123456789abcdefX"), "11\r\n0123456789abcdefX\r\n");
    EXPECT_TRUE(has_token("Upgrade, keep-ALIVE", "keep-alive"));
    EXPECT_FALSE(has_token("keep-alives", "keep-alive"));
}

}  // namespace
}  // namespace capstan::net
