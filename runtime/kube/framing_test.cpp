#include "runtime/kube/line_splitter.hpp"
#include "runtime/kube/list_splitter.hpp"
#include "runtime/kube/server_version.hpp"
#include "runtime/kube/watch_event.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <random>
#include <string>
#include <vector>

namespace capstan::kube {
namespace {

std::vector<std::string> split(LineSplitter& splitter, std::string_view text, std::size_t chunk) {
    std::vector<std::string> lines;
    const std::function<bool(std::string_view)> take = [&](std::string_view line) {
        lines.emplace_back(line);
        return true;
    };
    bool fine = true;
    for (std::size_t at = 0; at < text.size(); at += chunk) {
        fine = splitter.feed(text.substr(at, chunk), take).has_value() && fine;
    }
    EXPECT_TRUE(fine);
    return lines;
}

TEST(LineSplitter, GivesTheSameLinesForEveryChunkSize) {
    const std::string text = "{\"a\":1}\n\n \r\n{\"b\":\"x\\ny\"}\r\n{\"c\":3}\nrest";
    for (std::size_t chunk = 1; chunk <= text.size(); ++chunk) {
        LineSplitter splitter;
        EXPECT_EQ(split(splitter, text, chunk),
                  (std::vector<std::string>{"{\"a\":1}", "{\"b\":\"x\\ny\"}\r", "{\"c\":3}"}))
            << chunk;
        EXPECT_EQ(splitter.rest(), "rest");
    }
}

TEST(LineSplitter, TakesTenMebibytesInBytesAndInChunks) {
    const std::string line(10u * 1024 * 1024, 'x');
    for (const std::size_t chunk : {std::size_t{1}, std::size_t{64 * 1024}}) {
        LineSplitter splitter;
        const auto lines = split(splitter, line + "\n", chunk);
        ASSERT_EQ(lines.size(), 1u);
        EXPECT_EQ(lines[0].size(), line.size());
    }
}

TEST(LineSplitter, RefusesALineOverTheLimit) {
    LineSplitter splitter(10);
    const auto any = [](std::string_view) { return true; };
    EXPECT_TRUE(splitter.feed("0123456789\n01234", any));
    const auto fed = splitter.feed("567890", any);
    ASSERT_FALSE(fed);
    EXPECT_EQ(fed.error().code, Code::too_large);
    EXPECT_EQ(LineSplitter(10).feed("01234567890\n", any).error().code, Code::too_large);
}

TEST(ListSplitter, GivesTheSameItemsForEveryChunkSize) {
    const std::string first = R"({"items":[{"a":[1]}],"t":"\\\"]}{é","n":{"items":["x"]}})";
    const std::string text =
        R"( {"kind":"L","x":{"items":[{"no":1}]},"y\"items":[{"no":2}],"items" : [ )" + first +
        " , {} ] ,\n\"metadata\":{\"resourceVersion\":\"9\"}} ";
    for (std::size_t chunk = 1; chunk <= text.size(); ++chunk) {
        ListSplitter splitter;
        std::vector<std::string> items;
        for (std::size_t at = 0; at < text.size(); at += chunk) {
            ASSERT_TRUE(
                splitter.feed(std::string_view(text).substr(at, chunk), [&](std::string_view item) {
                    items.emplace_back(item);
                    return true;
                }));
        }
        EXPECT_EQ(items, (std::vector<std::string>{first, "{}"})) << chunk;
        const auto head = splitter.finish();
        ASSERT_TRUE(head) << head.error().message;
        EXPECT_EQ(json::View(head.value())["metadata"]["resourceVersion"].string_or(""), "9");
        EXPECT_EQ(json::View(head.value())["items"].array().size(), 0u);
    }
}

TEST(ListSplitter, RefusesWhatIsNoList) {
    const auto any = [](std::string_view) { return true; };
    const auto all = [&](std::string_view text) {
        ListSplitter splitter;
        const auto fed = splitter.feed(text, any);
        const auto list = fed ? splitter.finish() : Result<json::Value>(fail(fed.error()));
        return list ? "good" : std::string(to_string(list.error().code));
    };
    EXPECT_EQ(all(R"({"items":[]})"), "good");
    EXPECT_EQ(all(R"({"items":[{}]})"), "good");
    EXPECT_EQ(all(""), "unavailable");
    EXPECT_EQ(all(R"({"items":[{})"), "unavailable");
    EXPECT_EQ(all(R"({"items":[{"a")"), "unavailable");
    EXPECT_EQ(all(R"({"items":[1]})"), "invalid");
    EXPECT_EQ(all(R"({"items":["a"]})"), "invalid");
    EXPECT_EQ(all("}"), "invalid");
    EXPECT_EQ(all(R"({"items":[{}]}x)"), "invalid");
    EXPECT_EQ(all(R"({"\u0069tems":[{}]})"), "invalid");
    EXPECT_EQ(all(R"({"\u0069tems":[]})"), "good");
    EXPECT_EQ(all("\"" + std::string(kListHeadBytesMax, 'x')), "too_large");
    EXPECT_EQ(all(R"({"items":[{"a":")" + std::string(kListItemBytesMax, 'x')), "too_large");
}

TEST(ServerVersion, KnowsWhoStreamsLists) {
    EXPECT_FALSE(parse_server_version(R"({"major":"1","minor":"32"})").value().streams_lists());
    EXPECT_TRUE(parse_server_version(R"({"major":"1","minor":"33+"})").value().streams_lists());
    EXPECT_TRUE(parse_server_version(R"({"major":"2","minor":"0"})").value().streams_lists());
    EXPECT_FALSE(parse_server_version(R"({"minor":"33"})"));
    EXPECT_FALSE(parse_server_version("ok"));
}

TEST(LineSplitter, StopsWhenTold) {
    LineSplitter splitter;
    int seen = 0;
    EXPECT_TRUE(splitter.feed("a\nb\nc\n", [&](std::string_view) { return ++seen < 2; }));
    EXPECT_EQ(seen, 2);
}

const GroupVersionKind kPodKind{"", "v1", "Pod"};

struct EventRow {
    const char* name;
    const char* line;
    WatchEvent::Type type;
    const char* version;
};

class WatchLines : public testing::TestWithParam<EventRow> {};

TEST_P(WatchLines, Decode) {
    const auto event = decode_watch_line(GetParam().line, kPodKind, {});
    ASSERT_TRUE(event) << event.error().message;
    EXPECT_EQ(event.value().type, GetParam().type);
    EXPECT_EQ(event.value().resource_version, GetParam().version);
}

using Type = WatchEvent::Type;
INSTANTIATE_TEST_SUITE_P(
    Rows,
    WatchLines,
    testing::Values(
        EventRow{
            "added",
            R"({"type":"ADDED","object":{"kind":"Pod","apiVersion":"v1","metadata":{"name":"a","resourceVersion":"5"}}})",
            Type::added,
            "5"},
        EventRow{"without_kind",
                 R"({"type":"MODIFIED","object":{"metadata":{"name":"a","resourceVersion":"6"}}})",
                 Type::modified,
                 "6"},
        EventRow{"deleted",
                 R"({"object":{"metadata":{"name":"a","resourceVersion":"7"}},"type":"DELETED"})",
                 Type::deleted,
                 "7"},
        EventRow{
            "bookmark",
            R"({"type":"BOOKMARK","object":{"kind":"Pod","metadata":{"resourceVersion":"8"}}})",
            Type::bookmark,
            "8"},
        EventRow{"unknown_type", R"({"type":"NEW","object":{}})", Type::undecodable, ""},
        EventRow{"no_object", R"({"type":"ADDED"})", Type::undecodable, ""},
        EventRow{
            "other_kind",
            R"({"type":"ADDED","object":{"kind":"Node","metadata":{"name":"a","resourceVersion":"9"}}})",
            Type::undecodable,
            ""},
        EventRow{"no_name",
                 R"({"type":"ADDED","object":{"kind":"Pod","metadata":{"resourceVersion":"9"}}})",
                 Type::undecodable,
                 "9"}),
    [](const auto& row) { return row.param.name; });

TEST(WatchEvent, KnowsTheEndOfInitialEvents) {
    const auto event = decode_watch_line(
        R"({"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"8","annotations":{"k8s.io/initial-events-end":"true"}}}})",
        kPodKind,
        {});
    EXPECT_TRUE(event.value().initial_events_end);
}

TEST(WatchEvent, EndsTheStreamOnErrorsAndGarbage) {
    const auto gone = decode_watch_line(
        R"j({"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired","message":"too old resource version: 1 (9)"}})j",
        kPodKind,
        {});
    ASSERT_FALSE(gone);
    EXPECT_EQ(gone.error().code, Code::expired);
    EXPECT_EQ(gone.error().message, "410 Expired: \"too old resource version: 1 (9)\"");
    const auto garbage = decode_watch_line("<html>", kPodKind, {});
    ASSERT_FALSE(garbage);
    EXPECT_EQ(garbage.error().code, Code::unavailable);
}

// Random bytes and random damage to a good line: an event, an error, never a crash.
TEST(WatchEvent, SurvivesDamage) {
    const std::string good =
        R"({"type":"ADDED","object":{"kind":"Pod","metadata":{"name":"a","labels":{"x":"y"},"resourceVersion":"5"}}})";
    constexpr std::uint64_t kSeed = 20260101;
    std::mt19937_64 random(kSeed);
    SCOPED_TRACE("seed " + std::to_string(kSeed));
    for (int i = 0; i < 20'000; ++i) {
        std::string line = good;
        for (std::uint64_t n = random() % 4; n-- > 0;) {
            line[random() % line.size()] = static_cast<char>(random());
        }
        line.resize(line.size() - random() % 3);
        const auto event = decode_watch_line(line, kPodKind, {});
        if (event && event.value().object) {
            EXPECT_FALSE(event.value().object->name().empty());
        }
    }
}

}  // namespace
}  // namespace capstan::kube
