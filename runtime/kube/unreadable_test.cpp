#include "runtime/kube/unreadable.hpp"
#include "runtime/kube/client_fixture.hpp"
#include "runtime/kube/watch_event.hpp"

#include <gtest/gtest.h>

#include <optional>
#include <string>

namespace capstan::kube {
namespace {

const GroupVersionKind kThing{"g.io", "v1", "Thing"};

std::string nested(std::size_t depth) {
    std::string text;
    for (std::size_t i = 0; i < depth; ++i) {
        text += "{\"a\":";
    }
    return text + "1" + std::string(depth, '}');
}

std::string deep_thing(const std::string& metadata) {
    return R"({"apiVersion":"g.io/v1","kind":"Thing","metadata":{)" + metadata + R"(},"spec":)" +
           nested(200) + "}";
}

constexpr const char* kMetadata =
    R"("name":"a","namespace":"x","uid":"u1","resourceVersion":"7","labels":{"app":"db"})";

std::string line(const std::string& type, const std::string& object) {
    return R"({"type":")" + type + R"(","object":)" + object + "}";
}

TEST(Unreadable, ADeepObjectIsAnEventWithItsNameAndVersion) {
    for (const char* type : {"ADDED", "MODIFIED"}) {
        const auto event = decode_watch_line(line(type, deep_thing(kMetadata)), kThing, {});
        ASSERT_TRUE(event) << event.error().message;
        EXPECT_EQ(event.value().type, WatchEvent::Type::undecodable);
        EXPECT_EQ(event.value().resource_version, "7");
        EXPECT_EQ(event.value().error.message, "JSON is nested deeper than 128");
        ASSERT_TRUE(event.value().object);
        EXPECT_EQ(event.value().object->key().to_string(), "x/a");
        EXPECT_EQ(event.value().object->uid(), "u1");
        EXPECT_EQ(event.value().object->kind(), "Thing");
        EXPECT_EQ(event.value().object->label("app"), "db");
    }
}

TEST(Unreadable, ItsDeletionIsADeletion) {
    const auto event = decode_watch_line(line("DELETED", deep_thing(kMetadata)), kThing, {});
    ASSERT_TRUE(event) << event.error().message;
    EXPECT_EQ(event.value().type, WatchEvent::Type::deleted);
    EXPECT_EQ(event.value().object->uid(), "u1");
    EXPECT_EQ(event.value().resource_version, "7");
}

// ControllerRevisions, for example, keep what they are given byte for byte.
TEST(Unreadable, SoIsOneWithAMemberTwice) {
    const std::string twice = R"({"metadata":{)" + std::string(kMetadata) + R"(},"a":1,"a":2})";
    const auto event = decode_watch_line(line("ADDED", twice) + "\r", kThing, {});
    ASSERT_TRUE(event) << event.error().message;
    EXPECT_EQ(event.value().type, WatchEvent::Type::undecodable);
    EXPECT_EQ(event.value().object->key().to_string(), "x/a");
}

TEST(Unreadable, NamesWhatCannotBeReadOfItsMetadataEither) {
    const Unreadable found = unreadable(
        deep_thing(R"("name":"a","resourceVersion":"7","labels":)" + nested(150)), {}, kThing, "w");
    ASSERT_TRUE(found.head);
    EXPECT_EQ(found.head->name(), "a");
    EXPECT_EQ(found.text(), "a: w");
    EXPECT_EQ(unreadable(deep_thing(R"("name":"a\"b")"), {}, kThing, "w").text(), R"("a"b": w)");
    EXPECT_EQ(unreadable(deep_thing(R"("resourceVersion":"7")"), {}, kThing, "w").text(),
              "an object without a readable name: w");
    EXPECT_EQ(unreadable("{", {}, kThing, "w").head, nullptr);
}

TEST(Unreadable, WhatIsCutOrNoEventStillEndsTheStream) {
    const std::string whole = line("ADDED", deep_thing(kMetadata));
    for (const std::string& bad : {whole.substr(0, whole.size() - 1),
                                   whole + "x",
                                   line("BOOKMARK", deep_thing(kMetadata)),
                                   line("ERROR", deep_thing(kMetadata)),
                                   nested(200)}) {
        const auto event = decode_watch_line(bad, kThing, {});
        ASSERT_FALSE(event) << bad;
        EXPECT_EQ(event.error().code, Code::unavailable);
    }
}

struct UnreadableTest : ClientTest {};

TEST_F(UnreadableTest, OneDoesNotFailAList) {
    const std::string good = R"({"metadata":{"name":"b","namespace":"x"}})";
    script.answers["GET /apis/coordination.k8s.io/v1/leases?limit=500"] = {
        {200,
         R"({"metadata":{"resourceVersion":"9"},"items":[)" + deep_thing(kMetadata) + "," + good +
             "]}",
         {}}};
    std::optional<Result<ListPage>> got;
    call = client.list(kLease, {}, [&](Result<ListPage> page) { got = std::move(page); });
    loop.run_for(1s);
    ASSERT_TRUE(got && *got) << (got ? got->error().message : "no answer");
    ASSERT_EQ(got->value().items.size(), 1u);
    EXPECT_EQ(got->value().items[0]->name(), "b");
    ASSERT_EQ(got->value().unreadable.size(), 1u);
    EXPECT_EQ(got->value().unreadable[0].text(), "x/a: JSON is nested deeper than 128");
    EXPECT_EQ(got->value().unreadable[0].resource_version, "7");
}

}  // namespace
}  // namespace capstan::kube
