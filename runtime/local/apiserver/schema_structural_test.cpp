#include "runtime/local/apiserver/schema_structural.hpp"

#include <gtest/gtest.h>

namespace capstan::local {
namespace {

json::Value parse(const std::string& text) {
    auto value = json::parse(text);
    EXPECT_TRUE(value.has_value()) << text << ": " << value.error().message;
    return value ? std::move(value).value() : json::Value();
}

// A schema whose spec is `spec`.
std::string with_spec(const std::string& spec) {
    return R"({"type":"object","properties":{"spec":)" + spec + "}}";
}

StructuralSchema compile(const std::string& text) {
    auto schema = StructuralSchema::compile(parse(text));
    EXPECT_TRUE(schema.has_value()) << schema.error().message;
    return std::move(schema).value();
}

struct ValidateRow {
    const char* name;
    const char* spec_schema;
    const char* spec;
    const char* errors;  // joined; "" for valid
};

class Validate : public testing::TestWithParam<ValidateRow> {};

TEST_P(Validate, SaysWhatTheApiServerSays) {
    const ValidateRow& row = GetParam();
    const StructuralSchema schema = compile(with_spec(row.spec_schema));
    const auto errors = schema.validate(parse(std::string(R"({"spec":)") + row.spec + "}"));
    EXPECT_EQ(errors.empty() ? "" : join_field_errors(errors), row.errors);
}

INSTANTIATE_TEST_SUITE_P(
    Bounds,
    Validate,
    testing::Values(
        ValidateRow{"minimum",
                    R"({"type":"integer","minimum":0})",
                    "-1",
                    "spec: Invalid value: -1: spec in body should be greater than or equal to 0"},
        ValidateRow{"minimum_equal", R"({"type":"integer","minimum":0})", "0", ""},
        ValidateRow{"exclusive_minimum",
                    R"({"type":"number","minimum":0,"exclusiveMinimum":true})",
                    "0",
                    "spec: Invalid value: 0: spec in body should be greater than 0"},
        ValidateRow{
            "maximum",
            R"({"type":"integer","maximum":1000000})",
            "1000001",
            "spec: Invalid value: 1000001: spec in body should be less than or equal to 1e+06"},
        ValidateRow{"exclusive_maximum",
                    R"({"type":"number","maximum":0.5,"exclusiveMaximum":true})",
                    "0.5",
                    "spec: Invalid value: 0.5: spec in body should be less than 0.5"},
        ValidateRow{"multiple_of",
                    R"({"type":"integer","multipleOf":5})",
                    "7",
                    "spec: Invalid value: 7: spec in body should be a multiple of 5"},
        ValidateRow{"integer_as_real", R"({"type":"integer"})", "3.0", ""},
        ValidateRow{
            "fraction_for_integer",
            R"({"type":"integer"})",
            "3.5",
            "spec: Invalid value: \"number\": spec in body must be of type integer: \"number\""},
        ValidateRow{"integer_for_number", R"({"type":"number"})", "3", ""},
        ValidateRow{"int32_range",
                    R"({"type":"integer","format":"int32"})",
                    "2147483648",
                    "spec: Invalid value: 2147483648: spec in body must be of type integer with "
                    "format int32"},
        ValidateRow{
            "min_length_counts_code_points",
            R"({"type":"string","minLength":2})",
            "\"\xC2\xB5\"",
            "spec: Invalid value: \"\xC2\xB5\": spec in body should be at least 2 chars long"},
        ValidateRow{"max_length",
                    R"({"type":"string","maxLength":1})",
                    R"("ab")",
                    "spec: Too long: may not be more than 1 bytes"},
        ValidateRow{"min_items",
                    R"({"type":"array","items":{"type":"string"},"minItems":1})",
                    "[]",
                    "spec: Invalid value: 0: spec in body should have at least 1 items"},
        ValidateRow{"max_items",
                    R"({"type":"array","items":{"type":"string"},"maxItems":1})",
                    R"(["a","b"])",
                    "spec: Too many: 2: must have at most 1 items"},
        ValidateRow{"min_properties",
                    R"({"type":"object","minProperties":1})",
                    "{}",
                    "spec: Invalid value: 0: spec in body should have at least 1 properties"},
        ValidateRow{"enum_integer",
                    R"({"type":"integer","enum":[1,2]})",
                    "3",
                    "spec: Unsupported value: 3: supported values: \"1\", \"2\""},
        ValidateRow{
            "required_in_item",
            R"({"type":"array","items":{"type":"object","required":["a"],"properties":{"a":{"type":"string"}}}})",
            "[{}]",
            "spec[0].a: Required value"},
        ValidateRow{"map_value_type",
                    R"({"type":"object","additionalProperties":{"type":"string"}})",
                    R"({"a":1})",
                    "spec.a: Invalid value: \"integer\": spec.a in body must be of type string: "
                    "\"integer\""}),
    [](const auto& param) { return param.param.name; });

INSTANTIATE_TEST_SUITE_P(
    TypesAndFormats,
    Validate,
    testing::Values(
        ValidateRow{"null_refused",
                    R"({"type":"string"})",
                    "null",
                    "spec: Invalid value: \"null\": spec in body must be of type string: \"null\""},
        ValidateRow{"null_allowed", R"({"type":"string","nullable":true})", "null", ""},
        ValidateRow{"int_or_string_int", R"({"x-kubernetes-int-or-string":true})", "1", ""},
        ValidateRow{"int_or_string_string", R"({"x-kubernetes-int-or-string":true})", R"("1")", ""},
        ValidateRow{"int_or_string_bool",
                    R"({"x-kubernetes-int-or-string":true})",
                    "true",
                    "spec: Invalid value: \"boolean\": spec in body must be of type "
                    "integer,string: \"boolean\""},
        ValidateRow{"anything", R"({"x-kubernetes-preserve-unknown-fields":true})", "[1,null]", ""},
        ValidateRow{"date_time",
                    R"({"type":"string","format":"date-time"})",
                    R"("2026-01-02T03:04:05Z")",
                    ""},
        ValidateRow{"date_time_wrong",
                    R"({"type":"string","format":"date-time"})",
                    R"("yesterday")",
                    "spec: Invalid value: \"yesterday\": spec in body must be of type date-time: "
                    "\"yesterday\""},
        ValidateRow{"date_time_integer",
                    R"({"type":"string","format":"date-time"})",
                    "5",
                    "spec: Invalid value: \"integer\": spec in body must be of type date-time: "
                    "\"integer\""},
        ValidateRow{"duration", R"({"type":"string","format":"duration"})", R"("1h30m")", ""},
        ValidateRow{"ipv4_wrong",
                    R"({"type":"string","format":"ipv4"})",
                    R"("1.2.3")",
                    "spec: Invalid value: \"1.2.3\": spec in body must be of type ipv4: \"1.2.3\""},
        ValidateRow{"byte_wrong",
                    R"({"type":"string","format":"byte"})",
                    R"("a")",
                    "spec: Invalid value: \"a\": spec in body must be of type byte: \"a\""},
        ValidateRow{"unknown_format", R"({"type":"string","format":"poem"})", R"("x")", ""},
        ValidateRow{"set_duplicate",
                    R"({"type":"array","x-kubernetes-list-type":"set","items":{"type":"string"}})",
                    R"(["a","b","a"])",
                    "spec[2]: Duplicate value: \"a\""},
        ValidateRow{
            "map_duplicate",
            R"({"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["n"],"items":{"type":"object","required":["n"],"properties":{"n":{"type":"string"},"v":{"type":"string"}}}})",
            R"([{"n":"a","v":"1"},{"n":"a","v":"2"}])",
            "spec[1]: Duplicate value: {\"n\":\"a\"}"},
        ValidateRow{
            "embedded_without_kind",
            R"({"type":"object","x-kubernetes-embedded-resource":true,"x-kubernetes-preserve-unknown-fields":true})",
            R"({"apiVersion":"v1"})",
            "spec.kind: Required value: must not be empty"}),
    [](const auto& param) { return param.param.name; });

INSTANTIATE_TEST_SUITE_P(
    Junctors,
    Validate,
    testing::Values(
        ValidateRow{"any_of_hit",
                    R"({"type":"string","anyOf":[{"pattern":"^a"},{"pattern":"^b"}]})",
                    R"("b")",
                    ""},
        ValidateRow{"any_of_miss",
                    R"({"type":"string","anyOf":[{"pattern":"^a"},{"pattern":"^b"}]})",
                    R"("c")",
                    "[<nil>: Invalid value: \"\": \"spec\" must validate at least one schema "
                    "(anyOf), spec: Invalid value: \"c\": spec in body should match '^a']"},
        ValidateRow{"one_of_two",
                    R"({"type":"string","oneOf":[{"pattern":"a"},{"pattern":"b"}]})",
                    R"("ab")",
                    "<nil>: Invalid value: \"\": \"spec\" must validate one and only one schema "
                    "(oneOf). Found 2 valid"},
        ValidateRow{"one_of_one",
                    R"({"type":"string","oneOf":[{"pattern":"a"},{"pattern":"b"}]})",
                    R"("a")",
                    ""},
        ValidateRow{"all_of_miss",
                    R"({"type":"string","allOf":[{"minLength":1},{"maxLength":2}]})",
                    R"("abc")",
                    "[<nil>: Invalid value: \"\": \"spec\" must validate all the schemas (allOf), "
                    "spec: Too long: may not be more than 2 bytes]"},
        ValidateRow{"not",
                    R"({"type":"string","not":{"pattern":"a"}})",
                    R"("a")",
                    "<nil>: Invalid value: \"\": \"spec\" must not validate the schema (not)"},
        ValidateRow{
            "one_of_required",
            R"({"type":"object","properties":{"a":{"type":"string"},"b":{"type":"string"}},"oneOf":[{"required":["a"]},{"required":["b"]}]})",
            R"({"a":"x"})",
            ""}),
    [](const auto& param) { return param.param.name; });

struct ChangeRow {
    const char* name;
    const char* schema;
    const char* before;
    const char* after;
};

class Defaults : public testing::TestWithParam<ChangeRow> {};
TEST_P(Defaults, FillWhatIsAbsent) {
    json::Value object = parse(GetParam().before);
    compile(GetParam().schema).apply_defaults(object);
    EXPECT_EQ(json::dump_sorted(object), GetParam().after);
}
INSTANTIATE_TEST_SUITE_P(
    Rows,
    Defaults,
    testing::Values(
        ChangeRow{"absent",
                  R"({"type":"object","properties":{"a":{"type":"integer","default":3}}})",
                  "{}",
                  R"({"a":3})"},
        ChangeRow{"present",
                  R"({"type":"object","properties":{"a":{"type":"integer","default":3}}})",
                  R"({"a":4})",
                  R"({"a":4})"},
        ChangeRow{"null_replaced",
                  R"({"type":"object","properties":{"a":{"type":"integer","default":3}}})",
                  R"({"a":null})",
                  R"({"a":3})"},
        ChangeRow{
            "null_kept",
            R"({"type":"object","properties":{"a":{"type":"integer","nullable":true,"default":3}}})",
            R"({"a":null})",
            R"({"a":null})"},
        ChangeRow{"null_dropped",
                  R"({"type":"object","properties":{"a":{"type":"integer"}}})",
                  R"({"a":null})",
                  "{}"},
        ChangeRow{
            "parent_absent",
            R"({"type":"object","properties":{"s":{"type":"object","properties":{"a":{"type":"integer","default":3}}}}})",
            "{}",
            "{}"},
        ChangeRow{
            "inside_default",
            R"({"type":"object","properties":{"s":{"type":"object","default":{},"properties":{"a":{"type":"integer","default":3}}}}})",
            "{}",
            R"({"s":{"a":3}})"},
        ChangeRow{
            "in_items",
            R"({"type":"object","properties":{"l":{"type":"array","items":{"type":"object","properties":{"a":{"type":"integer","default":3}}}}}})",
            R"({"l":[{}]})",
            R"({"l":[{"a":3}]})"},
        ChangeRow{
            "in_map",
            R"({"type":"object","properties":{"m":{"type":"object","additionalProperties":{"type":"object","properties":{"a":{"type":"integer","default":3}}}}}})",
            R"({"m":{"x":{}}})",
            R"({"m":{"x":{"a":3}}})"}),
    [](const auto& param) { return param.param.name; });

class Prune : public testing::TestWithParam<ChangeRow> {};
TEST_P(Prune, RemovesWhatNobodyNamed) {
    json::Value object = parse(GetParam().before);
    compile(GetParam().schema).prune(object);
    EXPECT_EQ(json::dump_sorted(object), GetParam().after);
}
INSTANTIATE_TEST_SUITE_P(
    Rows,
    Prune,
    testing::Values(
        ChangeRow{"root_keeps_metadata",
                  R"({"type":"object"})",
                  R"({"apiVersion":"v1","kind":"A","metadata":{"x":1},"z":1})",
                  R"({"apiVersion":"v1","kind":"A","metadata":{"x":1}})"},
        ChangeRow{
            "preserve",
            R"({"type":"object","properties":{"s":{"type":"object","x-kubernetes-preserve-unknown-fields":true,"properties":{"k":{"type":"object"}}}}})",
            R"({"s":{"u":{"v":1},"k":{"gone":1}}})",
            R"({"s":{"k":{},"u":{"v":1}}})"},
        ChangeRow{
            "map",
            R"({"type":"object","properties":{"m":{"type":"object","additionalProperties":{"type":"object"}}}})",
            R"({"m":{"a":{"gone":1}}})",
            R"({"m":{"a":{}}})"},
        ChangeRow{
            "items",
            R"({"type":"object","properties":{"l":{"type":"array","items":{"type":"object"}}}})",
            R"({"l":[{"gone":1}]})",
            R"({"l":[{}]})"},
        ChangeRow{
            "embedded",
            R"({"type":"object","properties":{"t":{"type":"object","x-kubernetes-embedded-resource":true}}})",
            R"({"t":{"apiVersion":"v1","kind":"A","metadata":{},"gone":1}})",
            R"({"t":{"apiVersion":"v1","kind":"A","metadata":{}}})"}),
    [](const auto& param) { return param.param.name; });

TEST(StructuralSchema, PruneReportsThePaths) {
    json::Value object = parse(R"({"spec":[{"a":"x","b":1}],"zz":1})");
    const auto schema = compile(with_spec(
        R"({"type":"array","items":{"type":"object","properties":{"a":{"type":"string"}}}})"));
    EXPECT_EQ(schema.prune(object), (std::vector<std::string>{"zz", "spec[0].b"}));
}

TEST(StructuralSchema, StopsAtTheErrorLimit) {
    json::Value object = parse(R"({"spec":[]})");
    for (int i = 0; i < 1000; ++i) {
        object.find("spec")->push_back(json::Value(i));
    }
    const auto schema = compile(with_spec(R"({"type":"array","items":{"type":"string"}})"));
    EXPECT_EQ(schema.validate(object).size(), kFieldErrorsMax);
}

struct RefuseRow {
    const char* name;
    std::string schema;
    const char* path;  // the message starts with it
    Code code;
};

class Refuse : public testing::TestWithParam<RefuseRow> {};
TEST_P(Refuse, NamesThePath) {
    auto schema = StructuralSchema::compile(parse(GetParam().schema));
    ASSERT_FALSE(schema.has_value());
    EXPECT_EQ(schema.error().code, GetParam().code);
    EXPECT_TRUE(schema.error().message.starts_with(GetParam().path)) << schema.error().message;
}

std::string nested(std::size_t depth) {
    std::string schema = R"({"type":"object"})";
    for (std::size_t i = 0; i < depth; ++i) {
        schema = R"({"type":"array","items":)" + schema + "}";
    }
    return with_spec(schema);
}

INSTANTIATE_TEST_SUITE_P(
    Rows,
    Refuse,
    testing::Values(
        RefuseRow{"root_type",
                  R"({"type":"array","items":{"type":"string"}})",
                  "openAPIV3Schema.type: Invalid",
                  Code::invalid},
        RefuseRow{"no_root_type", "{}", "openAPIV3Schema.type: Required value", Code::invalid},
        RefuseRow{"no_type",
                  with_spec("{}"),
                  "openAPIV3Schema.properties[spec].type: Required value",
                  Code::invalid},
        RefuseRow{"unknown_type",
                  with_spec(R"({"type":"file"})"),
                  "openAPIV3Schema.properties[spec].type: Unsupported",
                  Code::invalid},
        RefuseRow{"no_items",
                  with_spec(R"({"type":"array"})"),
                  "openAPIV3Schema.properties[spec].items: Required",
                  Code::invalid},
        RefuseRow{"reference",
                  with_spec(R"({"$ref":"#/x"})"),
                  "openAPIV3Schema.properties[spec].$ref: Forbidden",
                  Code::invalid},
        RefuseRow{"unique_items",
                  with_spec(R"({"type":"array","items":{"type":"string"},"uniqueItems":true})"),
                  "openAPIV3Schema.properties[spec].uniqueItems: Forbidden",
                  Code::invalid},
        RefuseRow{
            "both_property_kinds",
            with_spec(
                R"({"type":"object","properties":{"a":{"type":"string"}},"additionalProperties":{"type":"string"}})"),
            "openAPIV3Schema.properties[spec].additionalProperties: Forbidden",
            Code::invalid},
        RefuseRow{
            "map_without_keys",
            with_spec(
                R"({"type":"array","x-kubernetes-list-type":"map","items":{"type":"object"}})"),
            "openAPIV3Schema.properties[spec].x-kubernetes-list-map-keys: Required",
            Code::invalid},
        RefuseRow{
            "map_key_optional",
            with_spec(
                R"({"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["n"],"items":{"type":"object","properties":{"n":{"type":"string"}}}})"),
            "openAPIV3Schema.properties[spec].items.properties[n].default: Required",
            Code::invalid},
        RefuseRow{"junctor_type",
                  with_spec(R"({"type":"object","allOf":[{"type":"object","minProperties":1}]})"),
                  "openAPIV3Schema.properties[spec].allOf[0].type: Forbidden",
                  Code::invalid},
        RefuseRow{"junctor_field_unknown",
                  with_spec(R"({"type":"object","anyOf":[{"properties":{"a":{"minLength":1}}}]})"),
                  "openAPIV3Schema.properties[spec].properties[a]: Required",
                  Code::invalid},
        RefuseRow{"bad_default",
                  with_spec(R"({"type":"integer","default":"x"})"),
                  "openAPIV3Schema.properties[spec].default: Invalid",
                  Code::invalid},
        RefuseRow{"bad_pattern",
                  with_spec(R"({"type":"string","pattern":"("})"),
                  "openAPIV3Schema.properties[spec].pattern: pattern offset",
                  Code::invalid},
        RefuseRow{"too_deep",
                  nested(kSchemaDepthMax),
                  "openAPIV3Schema.properties[spec]",
                  Code::too_large}),
    [](const auto& param) { return param.param.name; });

}  // namespace
}  // namespace capstan::local
