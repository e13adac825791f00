#include "runtime/net/proxy_talk.hpp"

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

namespace capstan::net {
namespace {

using namespace std::string_literals;

struct Turn {
    std::string said;    // by us
    std::string answer;  // by the proxy
};

struct TalkRow {
    const char* name;
    const char* proxy;
    const char* target;
    std::vector<Turn> turns;
    const char* problem;  // "": a tunnel
};

class ProxyTalks : public ::testing::TestWithParam<TalkRow> {};

struct Ended {
    std::string said;
    ProxyTalk::Step step;
};

// Feeds `answer` in pieces of `size` bytes; stops at the end of the talk or of the answer.
Ended feed(ProxyTalk& talk, std::string_view answer, std::size_t size) {
    Ended ended;
    while (!answer.empty() && !ended.step.open && ended.step.problem.empty()) {
        ended.step = talk.take(answer.substr(0, size));
        ended.said += ended.step.send;
        answer.remove_prefix(std::min(size, answer.size()));
    }
    return ended;
}

TEST_P(ProxyTalks, WholeAndByteByByte) {
    const Proxy proxy = parse_proxy(GetParam().proxy).value();
    const Endpoint target = parse_endpoint(GetParam().target).value();
    for (const std::size_t size : {std::size_t{1}, std::size_t{1} << 20}) {
        const auto talk = make_proxy_talk(proxy, target);
        Ended ended{talk->begin().send, {}};
        for (const Turn& turn : GetParam().turns) {
            EXPECT_EQ(ended.said, turn.said);
            ASSERT_TRUE(!ended.step.open && ended.step.problem.empty()) << ended.step.problem;
            ended = feed(*talk, turn.answer, size);
        }
        EXPECT_EQ(ended.said, "");
        EXPECT_EQ(ended.step.problem, GetParam().problem);
        EXPECT_EQ(ended.step.open, ended.step.problem.empty());
    }
}

const std::string kAsk = "\5\1\0\3\10api.test\x19\x2b"s;  // port 6443
const std::string kBound = "\0\1\0\0\0\0\0\0"s;

INSTANTIATE_TEST_SUITE_P(
    Socks5,
    ProxyTalks,
    ::testing::Values(
        TalkRow{"name",
                "socks5h://p",
                "https://api.test:6443",
                {{"\5\1\0"s, "\5\0"s}, {kAsk, "\5\0"s + kBound}},
                ""},
        TalkRow{"address",
                "socks5://p",
                "https://10.0.0.1",
                {{"\5\1\0"s, "\5\0"s}, {"\5\1\0\1\12\0\0\1\1\273"s, "\5\0\0\3\2ab\0\0"s}},
                ""},
        TalkRow{"v6",
                "socks5://p",
                "http://[fd00::1]",
                {{"\5\1\0"s, "\5\0"s},
                 {"\5\1\0\4\375\0"s + std::string(13, '\0') + "\1\0P"s,
                  "\5\0\0\4"s + std::string(18, 'x')}},
                ""},
        TalkRow{"password",
                "socks5://me:s%3Acret@p",
                "https://api.test:6443",
                {{"\5\2\0\2"s, "\5\2"s}, {"\1\2me\6s:cret"s, "\1\0"s}, {kAsk, "\5\0"s + kBound}},
                ""},
        TalkRow{"password_not_wanted",
                "socks5://me:secret@p",
                "https://api.test:6443",
                {{"\5\2\0\2"s, "\5\0"s}, {kAsk, "\5\0"s + kBound}},
                ""},
        TalkRow{"empty_password",
                "socks5://me@p",
                "https://api.test:6443",
                {{"\5\2\0\2"s, "\5\2"s}, {"\1\2me\0"s, "\1\0"s}, {kAsk, "\5\0"s + kBound}},
                ""},
        TalkRow{"wrong_password",
                "socks5://me:secret@p",
                "https://a",
                {{"\5\2\0\2"s, "\5\2"s}, {"\1\2me\6secret"s, "\1\1"s}},
                "the proxy refuses: wrong user or password"},
        TalkRow{"wants_password",
                "socks5://p",
                "https://a",
                {{"\5\1\0"s, "\5\377"s}},
                "the proxy refuses: it wants user:password@ in its URL"},
        TalkRow{"takes_no_password",
                "socks5://me:secret@p",
                "https://a",
                {{"\5\2\0\2"s, "\5\377"s}},
                "the proxy refuses: it takes no password"},
        TalkRow{"method_not_offered",
                "socks5://p",
                "https://a",
                {{"\5\1\0"s, "\5\2"s}},
                "does not answer as a SOCKS5 proxy"},
        TalkRow{"http",
                "socks5://p",
                "https://a",
                {{"\5\1\0"s, "HTTP/1.1 400 Bad"s}},
                "does not answer as a SOCKS5 proxy"},
        TalkRow{"no_login_answer",
                "socks5://me:secret@p",
                "https://a",
                {{"\5\2\0\2"s, "\5\2"s}, {"\1\2me\6secret"s, "\5\0"s}},
                "does not answer as a SOCKS5 proxy"},
        TalkRow{"target_down",
                "socks5://p",
                "https://api.test:6443",
                {{"\5\1\0"s, "\5\0"s}, {kAsk, "\5\5"s + kBound}},
                "the proxy refuses: api.test:6443: connection refused (5)"},
        TalkRow{"code_alone",
                "socks5://p",
                "https://api.test:6443",
                {{"\5\1\0"s, "\5\0"s}, {kAsk, "\5\2"s}},
                "the proxy refuses: api.test:6443: not allowed by its rules (2)"},
        TalkRow{"unknown_code",
                "socks5://p",
                "https://api.test:6443",
                {{"\5\1\0"s, "\5\0"s}, {kAsk, "\5\311"s}},
                "the proxy refuses: api.test:6443: unknown reason (201)"},
        TalkRow{"no_reply",
                "socks5://p",
                "https://api.test:6443",
                {{"\5\1\0"s, "\5\0"s}, {kAsk, "HTTP"s}},
                "does not answer as a SOCKS5 proxy"},
        TalkRow{"no_address",
                "socks5://p",
                "https://api.test:6443",
                {{"\5\1\0"s, "\5\0"s}, {kAsk, "\5\0\0\2xxxx"s}},
                "does not answer as a SOCKS5 proxy"}),
    [](const auto& row_info) { return row_info.param.name; });

INSTANTIATE_TEST_SUITE_P(
    Connect,
    ProxyTalks,
    ::testing::Values(TalkRow{"tunnel",
                              "http://p",
                              "https://api.test:6443",
                              {{"CONNECT api.test:6443 HTTP/1.1\r\nHost: api.test:6443\r\n\r\n",
                                "HTTP/1.0 200 OK\r\nVia: x\r\n\r\n"}},
                              ""},
                      TalkRow{"password",
                              "https://me:p%40ss@p",
                              "https://[fd00::1]:6443",
                              {{"CONNECT [fd00::1]:6443 HTTP/1.1\r\nHost: [fd00::1]:6443\r\n"
                                "Proxy-Authorization: Basic bWU6cEBzcw==\r\n\r\n",
                                "HTTP/1.1 407 No\r\n\r\n"}},
                              "the proxy refuses: 407 No"}),
    [](const auto& row_info) { return row_info.param.name; });

TEST(ProxyTalks, BytesBehindTheAnswerAreRefused) {
    const Endpoint target = parse_endpoint("https://a").value();
    for (const auto& [url, answers] : std::vector<std::pair<const char*, std::vector<std::string>>>{
             {"socks5://p", {"\5\0\5"s}},
             {"socks5://p", {"\5\0"s, "\5\0\0\1aaaappx"s}},
             {"socks5://u@p", {"\5\2"s, "\1\0\5"s}},
             {"http://p", {"HTTP/1.1 200 OK\r\n\r\nhello"s}}}) {
        const auto talk = make_proxy_talk(parse_proxy(url).value(), target);
        ProxyTalk::Step step = talk->begin();
        for (const std::string& answer : answers) {
            ASSERT_TRUE(!step.open && step.problem.empty()) << url;
            step = talk->take(answer);
        }
        EXPECT_EQ(step.problem, "sends more than its answer") << url;
    }
}

TEST(ProxyTalks, AreBounded) {
    const auto talk =
        make_proxy_talk(parse_proxy("http://p").value(), parse_endpoint("https://a").value());
    ProxyTalk::Step step = talk->begin();
    std::size_t taken = 0;
    for (; step.problem.empty() && taken < 2 * kProxyHeadBytesMax; taken += 512) {
        step = talk->take(std::string(512, 'x'));
    }
    EXPECT_EQ(step.problem, "does not answer as an HTTP proxy");
    EXPECT_EQ(taken, kProxyHeadBytesMax);
    Endpoint far;
    far.host = std::string(256, 'a');
    EXPECT_EQ(make_proxy_talk(parse_proxy("socks5://p").value(), far)->begin().problem,
              "the name of the server has more than the 255 bytes SOCKS5 allows");
}

}  // namespace
}  // namespace capstan::net
