#include "runtime/plugin/config_schema.hpp"

#include <gtest/gtest.h>

namespace capstan::plugin {
namespace {

using Texts = std::vector<std::string>;

json::Value parsed(const char* text) {
    return json::parse(text).value();
}

json::Value images() {
    return parsed(R"({
      "type": "object", "additionalProperties": false, "required": ["images"],
      "properties": {
        "images": {"type": "object", "additionalProperties": false,
                   "properties": {"etcd": {"type": "string"}, "a/b": {"type": "string"}}},
        "mode": {"enum": ["fast", "slow"]},
        "workers": {"type": "integer", "minimum": 1, "maximum": 8},
        "size": {"type": ["integer", "string"]},
        "share": {"type": "number"},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "names": {"type": "array", "items": {"type": "string"}}}})");
}

TEST(ConfigSchema, TakesWhatItSays) {
    EXPECT_EQ(schema_problems(images()), Texts{});
    EXPECT_EQ(config_problems(images(), parsed(R"({"images": {"etcd": "e"}, "mode": "slow",
        "workers": 8, "size": "1Gi", "share": 1, "labels": {"any": "x"}, "names": ["a", "b"]})")),
              Texts{});
    EXPECT_EQ(config_problems(images(), parsed(R"({"images": {}, "size": 5, "share": 0.5})")),
              Texts{});
}

TEST(ConfigSchema, NamesThePlaceAndWhatIsThere) {
    EXPECT_EQ(
        config_problems(images(), parsed(R"({"imagez": 1, "mode": "quick", "workers": 0,
        "size": true, "labels": {"a": 1}, "names": ["a", 2]})")),
        (Texts{"/imagez: unknown; there are images, mode, workers, size, share, labels, names",
               "/mode: \"quick\" is none of [\"fast\",\"slow\"]",
               "/workers: 0 is below 1",
               "/size: expected integer or string, found boolean",
               "/labels/a: expected string, found integer",
               "/names/1: expected string, found integer",
               ": \"images\" is missing"}));
    EXPECT_EQ(
        config_problems(images(), parsed(R"({"images": {"etcd": 5, "x/y": ""}, "workers": 9})")),
        (Texts{"/images/etcd: expected string, found integer",
               "/images/x~1y: unknown; there are etcd, a/b",
               "/workers: 9 is above 8"}));
    EXPECT_EQ(config_problems(images(), parsed("[]")), Texts{": expected object, found array"});
    EXPECT_EQ(config_problems(parsed(R"({"additionalProperties": false})"), parsed(R"({"a": 1})")),
              Texts{"/a: unknown; there is no key"});
}

TEST(ConfigSchema, RefusesSchemasItDoesNotKnow) {
    EXPECT_EQ(schema_problems(parsed(R"({"type": "text", "patern": "a", "properties": {"a": 1},
        "items": {"required": "a"}, "enum": 1, "minimum": "1"})")),
              (Texts{"/type: expected types of JSON",
                     "/patern: unknown keyword",
                     "/properties/a: expected a schema, which is an object",
                     "/items/required: expected a list of names",
                     "/enum: expected a list of values",
                     "/minimum: expected a number"}));
    std::string deep = "{}";
    for (int i = 0; i < 40; ++i) {
        deep = R"({"items":)" + deep + "}";
    }
    EXPECT_EQ(schema_problems(parsed(deep.c_str())).size(), 1U);
}

}  // namespace
}  // namespace capstan::plugin
