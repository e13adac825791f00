#include "runtime/kube/compact_copy.hpp"

#include "capstan/json.hpp"
#include "runtime/kube/watch_event.hpp"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

namespace capstan::kube {
namespace {

const GroupVersionKind kGvk{"g.io", "v1", "Thing"};

// What the way through a tree gives; empty: refused.
std::string by_tree(std::string_view text, const Projection& projection = {}) {
    auto value = json::parse(text);
    if (!value) {
        return {};
    }
    const auto object = Object::make(std::move(value).value(), projection, &kGvk);
    return object ? std::string(object.value()->bytes()) : std::string();
}

std::optional<std::string> by_copy(std::string_view text, const Projection& projection = {}) {
    const ObjectPtr object = Object::decode_usual(text, projection, &kGvk);
    return object ? std::optional(std::string(object->bytes())) : std::nullopt;
}

std::string thing(std::string_view rest) {
    return R"({"apiVersion":"g.io/v1","kind":"Thing","metadata":{"name":"a"},)" +
           std::string(rest) + "}";
}

TEST(Kept, TheSameWayOrTheOther) {
    const std::string text = thing(
        R"("spec":{"size":3,"image":"a","deep":{"x":1,"y":[{"z":2}]}},"status":{"phase":"up"},"data":[1,2],"x":null)");
    struct Row {
        std::vector<std::string> keep;
        const char* rest;
        bool quick{true};
    };
    const Row rows[] = {
        {{"/metadata"}, ""},
        {{"/spec"}, R"(,"spec":{"size":3,"image":"a","deep":{"x":1,"y":[{"z":2}]}})"},
        {{"/spec/size"}, R"(,"spec":{"size":3})"},
        {{"/status", "/spec/size", "/spec/image"},
         R"(,"spec":{"size":3,"image":"a"},"status":{"phase":"up"})"},
        {{"/spec/size", "/spec"}, R"(,"spec":{"size":3,"image":"a","deep":{"x":1,"y":[{"z":2}]}})"},
        {{"/spec/none"}, R"(,"spec":{})"},
        {{"/data/0"}, R"(,"data":[1,2])"},
        {{"/x/y"}, R"(,"x":null)"},
        {{"/spec/deep/y"}, R"(,"spec":{"deep":{"y":[{"z":2}]}})", false},
    };
    for (const Row& row : rows) {
        const Projection projection{true, true, row.keep};
        const std::string wanted =
            R"({"apiVersion":"g.io/v1","kind":"Thing","metadata":{"name":"a"})" +
            std::string(row.rest) + "}";
        EXPECT_EQ(by_tree(text, projection), wanted) << row.rest;
        EXPECT_EQ(by_copy(text, projection), row.quick ? std::optional(wanted) : std::nullopt)
            << row.rest;
        EXPECT_TRUE(Object::decode(text, projection, &kGvk).value()->projected());
    }
}

// What a server sends of an object when it is asked for metadata alone.
TEST(Partial, IsOfTheKindThatIsWatched) {
    const std::string metadata = R"("metadata":{"name":"a","labels":{"x":"y"}})";
    const std::string wanted = "{" + metadata + R"(,"apiVersion":"g.io/v1","kind":"Thing"})";
    const Projection only_metadata{true, true, {"/metadata"}};
    const std::string head = R"("kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1")";
    for (const std::string& text :
         {"{" + head + "," + metadata + "}", "{ " + metadata + ", " + head + "}"}) {
        EXPECT_EQ(by_tree(text, only_metadata), wanted) << text;
        EXPECT_EQ(by_copy(text, only_metadata), wanted) << text;
        EXPECT_NE(by_tree(text, {}), wanted) << text;
        EXPECT_EQ(by_copy(text, {}), by_tree(text, {})) << text;
        const auto event =
            decode_watch_line(R"({"type":"ADDED","object":)" + text + "}", kGvk, only_metadata);
        ASSERT_TRUE(event && event.value().object) << text;
        EXPECT_EQ(event.value().object->kind(), "Thing");
    }
    const std::string other = R"({"kind":"Other","apiVersion":"meta.k8s.io/v1",)" + metadata + "}";
    EXPECT_EQ(decode_watch_line(R"({"type":"ADDED","object":)" + other + "}", kGvk, only_metadata)
                  .value()
                  .type,
              WatchEvent::Type::undecodable);
}

struct Usual {
    const char* name;
    std::string text;
};
class UsualText : public testing::TestWithParam<Usual> {};

TEST_P(UsualText, IsCopiedAsTheTreeWould) {
    const std::string& text = GetParam().text;
    ASSERT_FALSE(by_tree(text).empty()) << text;
    EXPECT_EQ(by_copy(text), by_tree(text));
    EXPECT_EQ(by_copy(text, Projection::none()), by_tree(text, Projection::none()));
}

INSTANTIATE_TEST_SUITE_P(
    All,
    UsualText,
    testing::Values(
        Usual{"numbers",
              thing(R"("n":[0,-1,123456789012345678,9223372036854775807,-9223372036854775807])")},
        Usual{"words", thing(R"("w":[true,false,null],"e":{},"l":[])")},
        Usual{"short_escapes", thing(R"("s":"a\"b\\c\b\f\n\r\t/d")")},
        Usual{"go_escapes", thing(R"("s":"\u003cb\u003e \u0026 c")")},
        Usual{"above_ascii", thing("\"s\":\"grün 漢字 \xf0\x9f\x98\x80\"")},
        Usual{"space",
              " {\n \"kind\" : \"Thing\" , \"apiVersion\":\"g.io/v1\",\t\"metadata\" : { "
              "\"name\" : \"a\" , \"labels\" : { } } , \"l\" : [ 1 , 2 ] } \n"},
        Usual{"kind_missing", R"({"metadata":{"name":"a"},"spec":{"x":1}})"},
        Usual{
            "managed_fields",
            R"({"kind":"Thing","apiVersion":"g.io/v1","metadata":{"managedFields":[{"a":"}]\\\""}],)"
            R"("name":"a","z":1},"spec":{"managedFields":1}})"},
        Usual{"managed_fields_last",
              R"({"kind":"Thing","apiVersion":"v","metadata":{"name":"a","managedFields":null}})"},
        Usual{
            "last_applied",
            R"({"kind":"Thing","apiVersion":"v","metadata":{"annotations":)"
            R"({"a":"1","kubectl.kubernetes.io/last-applied-configuration":"{\"x\":1}\n","b":"2"},)"
            R"("name":"a"}})"},
        Usual{"only_last_applied",
              R"({"kind":"Thing","apiVersion":"v","metadata":{"annotations":)"
              R"({"kubectl.kubernetes.io/last-applied-configuration":"{}"},"name":"a"}})"},
        Usual{"only_last_applied_last",
              R"({"kind":"Thing","apiVersion":"v","metadata":{"name":"a","annotations":)"
              R"({"kubectl.kubernetes.io/last-applied-configuration":"{}"}}})"},
        Usual{"empty_annotations",
              R"({"kind":"Thing","apiVersion":"v","metadata":{"name":"a","annotations":{ }}})"},
        Usual{"annotations_of_another_kind",
              R"({"kind":"Thing","apiVersion":"v","metadata":{"name":"a","annotations":[]}})"},
        Usual{"many_members",
              [] {
                  std::string members;
                  for (int i = 0; i < 40; ++i) {
                      members +=
                          (i == 0 ? "\"k" : ",\"k") + std::to_string(i) + "\":" + std::to_string(i);
                  }
                  return thing(members);
              }()}),
    [](const auto& row) { return row.param.name; });

struct Unusual {
    const char* name;
    std::string text;
};
class UnusualText : public testing::TestWithParam<Unusual> {};

TEST_P(UnusualText, IsLeftToTheParser) {
    EXPECT_EQ(by_copy(GetParam().text), std::nullopt);
}

INSTANTIATE_TEST_SUITE_P(
    All,
    UnusualText,
    testing::Values(
        Unusual{"empty", ""},
        Unusual{"no_object", "[]"},
        Unusual{"no_metadata", R"({"kind":"Thing"})"},
        Unusual{"metadata_of_another_kind", R"({"kind":"Thing","metadata":[]})"},
        Unusual{"real", thing(R"("n":1.5)")},
        Unusual{"exponent", thing(R"("n":1e3)")},
        Unusual{"long_integer", thing(R"("n":9223372036854775808)")},
        Unusual{"minus_zero", thing(R"("n":-0)")},
        Unusual{"leading_zero", thing(R"("n":01)")},
        Unusual{"no_digits", thing(R"("n":-)")},
        Unusual{"duplicate", thing(R"("a":1,"a":2)")},
        Unusual{"duplicate_inside", thing(R"("a":{"b":1,"b":2})")},
        Unusual{"duplicate_at_the_root", thing(R"("kind":"Other")")},
        Unusual{"other_escape", thing(R"("s":"\u00e9")")},
        Unusual{"slash_escape", thing(R"("s":"a\/b")")},
        Unusual{"cut_escape", thing(R"("s":"\u00)")},
        Unusual{"control", thing("\"s\":\"a\tb\"")},
        Unusual{"bad_utf8", thing("\"s\":\"\xc0\xaf\"")},
        Unusual{"escaped_key", thing(R"("\n":1)")},
        Unusual{"api_version_without_kind", R"({"apiVersion":"v","metadata":{"name":"a"}})"},
        Unusual{"trailing_comma", thing(R"("a":1,)")},
        Unusual{"trailing_comma_in_array", thing(R"("a":[1,])")},
        Unusual{"no_comma", thing(R"("a":1 "b":2)")},
        Unusual{"trailing_text", thing(R"("a":1)") + "x"},
        Unusual{"word", thing(R"("a":trua)")},
        Unusual{"too_deep", thing("\"a\":" + std::string(200, '[') + std::string(200, ']'))}),
    [](const auto& row) { return row.param.name; });

// Any change of a byte: both ways agree, or the copy leaves it to the tree.
TEST(CompactCopy, AgreesWithTheTreeOnDamagedText) {
    const std::string good =
        R"({"apiVersion":"g.io/v1","kind":"Thing","metadata":{"name":"a","annotations":{"n":"x\u003cy"},)"
        R"("labels":{"a":"b"}},)"
        R"("spec":{"list":[1,-2,true,null,{"k":"vé"}],"s":"a\"b"}})";
    const std::string bytes = "{}[]\",:\\ 019-.eEtnu\n\t\xc3\xa9\x80x";
    std::mt19937 random(1);
    for (int i = 0; i < 20'000; ++i) {
        std::string text = good;
        for (auto change = random() % 3; change < 3; ++change) {
            const std::size_t at = random() % text.size();
            const char byte = bytes[random() % bytes.size()];
            switch (random() % 3) {
                case 0: text[at] = byte; break;
                case 1: text.insert(at, 1, byte); break;
                default: text.erase(at, 1 + random() % 3); break;
            }
        }
        if (const auto copied = by_copy(text)) {
            ASSERT_EQ(*copied, by_tree(text)) << text;
        }
    }
}

// Cut anywhere, nothing is copied and nothing outside of the text is read.
TEST(CompactCopy, TakesNoHalfObject) {
    const std::string good = thing(R"("spec":{"a":"\u003c\n","b":[12,true]})");
    for (std::size_t length = 0; length < good.size(); ++length) {
        const std::vector<char> exact(good.begin(),
                                      good.begin() + static_cast<std::ptrdiff_t>(length));
        EXPECT_EQ(by_copy({exact.data(), exact.size()}), std::nullopt) << length;
    }
}

}  // namespace
}  // namespace capstan::kube
