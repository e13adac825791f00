// Parts of the runtime that need no world: digests, intents, plugin metrics, handles, threads.
#include "capstan/capstan.h"
#include "runtime/control/call.hpp"
#include "runtime/control/digest.hpp"
#include "runtime/control/handles.hpp"
#include "runtime/control/plugin_metrics.hpp"
#include "runtime/control/threads.hpp"
#include "runtime/control/writes.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cmath>

namespace capstan::control {
namespace {

std::string hex(std::string_view raw) {
    static constexpr char kDigits[] = "0123456789abcdef";
    std::string out;
    for (const char c : raw) {
        out += kDigits[static_cast<unsigned char>(c) >> 4];
        out += kDigits[static_cast<unsigned char>(c) & 15];
    }
    return out;
}

struct DigestRow {
    const char* name;
    std::int32_t algorithm;
    const char* key;
    const char* text;
    const char* expected;
};
class DigestVectors : public ::testing::TestWithParam<DigestRow> {};

TEST_P(DigestVectors, GivesThePublishedValue) {
    const DigestRow& row = GetParam();
    auto digest = Digest::open(row.algorithm, row.key);
    ASSERT_TRUE(digest.has_value());
    for (const char c : std::string_view(row.text)) {
        ASSERT_TRUE(digest.value()->update(std::string_view(&c, 1)));
    }
    EXPECT_EQ(hex(digest.value()->finish().value()), row.expected);
}

INSTANTIATE_TEST_SUITE_P(
    Digest,
    DigestVectors,
    ::testing::Values(
        DigestRow{"sha256_abc",
                  CAPSTAN_DIGEST_SHA256,
                  "",
                  "abc",
                  "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
        DigestRow{"sha256_empty",
                  CAPSTAN_DIGEST_SHA256,
                  "",
                  "",
                  "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
        DigestRow{"md5_abc", CAPSTAN_DIGEST_MD5, "", "abc", "900150983cd24fb0d6963f7d28e17f72"},
        DigestRow{"hmac_rfc4231_2",
                  CAPSTAN_DIGEST_HMAC_SHA256,
                  "Jefe",
                  "what do ya want for nothing?",
                  "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"},
        DigestRow{"hmac_empty_key",
                  CAPSTAN_DIGEST_HMAC_SHA256,
                  "",
                  "",
                  "b613679a0814d9ec772f95d778c35fc5ff1697c493715653c6c712144292c5ad"},
        DigestRow{"crc32c_rfc3720", CAPSTAN_DIGEST_CRC32C, "", "123456789", "e3069283"}),
    [](const auto& row) { return row.param.name; });

TEST(Digest, RefusesUnknownAlgorithms) {
    EXPECT_EQ(Digest::open(99, "").error().code, Code::invalid);
}

json::Value parsed(std::string_view text) {
    return json::parse(text).value();
}

struct ProjectRow {
    const char* name;
    const char* object;
    const char* intent;
    const char* expected;
};
class Project : public ::testing::TestWithParam<ProjectRow> {};

TEST_P(Project, KeepsWhatTheIntentNames) {
    const ProjectRow& row = GetParam();
    EXPECT_EQ(json::dump(project(parsed(row.object), parsed(row.intent))), row.expected);
}

INSTANTIATE_TEST_SUITE_P(
    Intents,
    Project,
    ::testing::Values(ProjectRow{"members", R"({"a":1,"b":2})", R"({"a":9})", R"({"a":1})"},
                      ProjectRow{"absent", R"({"b":2})", R"({"a":9})", R"({"a":null})"},
                      ProjectRow{"defaults",
                                 R"({"l":[{"n":1,"d":2}]})",
                                 R"({"l":[{"n":1}]})",
                                 R"({"l":[{"n":1}]})"},
                      ProjectRow{"longer_list", R"({"l":[1,2]})", R"({"l":[1]})", R"({"l":[1,2]})"},
                      ProjectRow{"other_kind", R"({"a":"x"})", R"({"a":{"b":1}})", R"({"a":"x"})"}),
    [](const auto& row) { return row.param.name; });

kube::ObjectPtr object(std::string_view text) {
    return kube::Object::decode(text).value();
}

TEST(IntentBook, LeavesOutOnlyWhatChangesNothing) {
    IntentBook book;
    const IntentBook::Id id{{"", "v1", "Secret"}, {"ns", "a"}, "", "demo"};
    const json::Value intent = parsed(R"({"metadata":{"name":"a"},"spec":{"cpu":"1000m"}})");
    const auto v5 = object(
        R"({"metadata":{"name":"a","uid":"u","resourceVersion":"5"},"spec":{"cpu":"1","other":1}})");
    EXPECT_FALSE(book.would_change_nothing(id, intent, v5)) << "first apply of a process";
    book.remember(id, intent, v5);
    EXPECT_TRUE(book.would_change_nothing(id, intent, v5));
    EXPECT_FALSE(book.would_change_nothing(id, intent, nullptr)) << "it is gone";
    const auto other_field = object(
        R"({"metadata":{"name":"a","uid":"u","resourceVersion":"6"},"spec":{"cpu":"1","other":2}})");
    EXPECT_TRUE(book.would_change_nothing(id, intent, other_field))
        << "normalised quantity still as the server made it";
    const auto drifted =
        object(R"({"metadata":{"name":"a","uid":"u","resourceVersion":"7"},"spec":{"cpu":"2"}})");
    EXPECT_FALSE(book.would_change_nothing(id, intent, drifted));
    const auto recreated =
        object(R"({"metadata":{"name":"a","uid":"new","resourceVersion":"5"},"spec":{"cpu":"1"}})");
    EXPECT_FALSE(book.would_change_nothing(id, intent, recreated));
    EXPECT_FALSE(book.would_change_nothing(id, parsed(R"({"metadata":{"name":"a"}})"), v5))
        << "a field is given up";
    book.forget(id);
    EXPECT_FALSE(book.would_change_nothing(id, intent, v5));
}

TEST(PluginMetrics, ChecksNamesAndShapes) {
    obs::Metrics metrics;
    PluginMetrics plugin(metrics);
    const auto first =
        plugin.add("a", CAPSTAN_METRIC_COUNTER, "etcddruid_runs_total", "Runs.", {"kind"}, {});
    ASSERT_TRUE(first.has_value());
    EXPECT_EQ(plugin.add("a", CAPSTAN_METRIC_COUNTER, "etcddruid_runs_total", "Runs.", {"kind"}, {})
                  .value(),
              first.value());
    EXPECT_EQ(plugin.add("a", CAPSTAN_METRIC_GAUGE, "etcddruid_runs_total", "Runs.", {"kind"}, {})
                  .error()
                  .code,
              Code::invalid);
    EXPECT_EQ(plugin.add("a", CAPSTAN_METRIC_COUNTER, "workqueue_mine", "", {}, {}).error().code,
              Code::invalid);
    EXPECT_EQ(plugin.add("a", CAPSTAN_METRIC_COUNTER, "bad name", "", {}, {}).error().code,
              Code::invalid);
    EXPECT_EQ(plugin.add("a", CAPSTAN_METRIC_HISTOGRAM, "x_seconds", "", {}, {}).error().code,
              Code::invalid);
    const double falling[] = {2, 1};
    EXPECT_EQ(plugin.add("a", CAPSTAN_METRIC_HISTOGRAM, "x_seconds", "", {}, falling).error().code,
              Code::invalid);
    const std::string_view values[] = {"a\"b"};
    plugin.update(first.value(), values, 2);
    plugin.update(first.value(), values, -1);
    plugin.update(first.value(), {}, 1);
    plugin.update(12345, values, 1);
    EXPECT_NE(metrics.render().find("etcddruid_runs_total{kind=\"a\\\"b\"} 2\n"), std::string::npos)
        << metrics.render();
}

TEST(PluginMetrics, RendersWhatOnePluginRegistered) {
    obs::Metrics metrics;
    PluginMetrics plugins(metrics);
    const double bounds[] = {1};
    const auto shared = plugins.add("a", CAPSTAN_METRIC_GAUGE, "shared", "", {}, {}).value();
    EXPECT_EQ(plugins.add("b", CAPSTAN_METRIC_GAUGE, "shared", "", {}, {}).value(), shared);
    plugins.update(plugins.add("b", CAPSTAN_METRIC_GAUGE, "other", "", {}, {}).value(), {}, 1);
    const auto seconds =
        plugins.add("a", CAPSTAN_METRIC_HISTOGRAM, "x_seconds", "Time.", {"ok"}, bounds).value();
    const std::string_view values[] = {"true"};
    plugins.update(seconds, values, std::nan(""));
    plugins.update(shared, {}, 7);
    const std::string text = plugins.render("a");
    EXPECT_NE(text.find("shared 7\n"), std::string::npos) << text;
    EXPECT_NE(text.find("x_seconds_count{ok=\"true\"} 0\n"), std::string::npos) << text;
    EXPECT_EQ(text.find("other"), std::string::npos) << text;
    EXPECT_EQ(plugins.render("c"), "");
}

TEST(Handles, StaleForeignAndWildOnesAreNotFound) {
    HandleTable<int, 9> table;
    HandleTable<int, 8> other;
    void* first = table.insert(std::make_shared<int>(1));
    EXPECT_EQ(*table.find(first), 1);
    EXPECT_EQ(other.find(first), nullptr);
    EXPECT_EQ(*table.take(first), 1);
    EXPECT_EQ(table.find(first), nullptr);
    EXPECT_EQ(table.take(first), nullptr);
    void* second = table.insert(std::make_shared<int>(2));
    EXPECT_NE(first, second) << "a slot used again has another handle";
    EXPECT_EQ(table.find(first), nullptr);
    EXPECT_EQ(table.find(nullptr), nullptr);
    int local = 0;
    EXPECT_EQ(table.find(&local), nullptr);
}

TEST(Threads, SignalKeepsOneNoticeAndTimesOut) {
    const auto threads = make_threads();
    const auto signal = threads->make_signal();
    signal->notify();
    signal->notify();
    EXPECT_TRUE(signal->wait_until(kNever));
    EXPECT_FALSE(signal->wait_until(MonotonicTime{0}));
}

TEST(Threads, ThreadRunsIsJoinedAndCanBeWoken) {
    const auto threads = make_threads();
    const auto there = threads->make_signal();
    const auto back = threads->make_signal();
    auto thread = threads->start("capstan/a-long-name/1", [&] {
        there->wait_until(kNever);
        back->notify();
    });
    ASSERT_TRUE(thread.has_value());
    EXPECT_FALSE(thread.value()->ended());
    there->notify();
    EXPECT_TRUE(back->wait_until(kNever));
    thread.value().reset();
}

}  // namespace
}  // namespace capstan::control
