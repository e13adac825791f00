// x-kubernetes-validations in schemas: where rules are asked, with which old values, and in which
// words they refuse.
#include "runtime/local/apiserver/schema_structural.hpp"

#include <gtest/gtest.h>

namespace capstan::local {
namespace {

json::Value parse(const std::string& text) {
    auto value = json::parse(text);
    EXPECT_TRUE(value.has_value()) << text;
    return value ? std::move(value).value() : json::Value();
}

Result<StructuralSchema> compile(const std::string& spec) {
    return StructuralSchema::compile(
        parse(R"({"type": "object", "properties": {"spec": )" + spec + "}}"));
}

std::string rules(const std::string& rule) {
    return R"("x-kubernetes-validations": [)" + rule + "]";
}

// The errors of {"spec": now} after {"spec": before}; "" for none, and before may be "".
std::string answer(const std::string& spec, const std::string& now, const std::string& before) {
    const auto schema = compile(spec);
    if (!schema) {
        ADD_FAILURE() << schema.error().message;
        return "";
    }
    const json::Value object = parse(R"({"spec": )" + now + "}");
    const json::Value old = parse(R"({"spec": )" + (before.empty() ? "null" : before) + "}");
    const auto errors = schema.value().validate(object, before.empty() ? nullptr : &old);
    return errors.empty() ? "" : join_field_errors(errors);
}

struct Row {
    const char* name;
    std::string spec;
    const char* now;
    const char* before;
    const char* errors;
};

class SchemaCel : public testing::TestWithParam<Row> {};

TEST_P(SchemaCel, Answers) {
    const Row& row = GetParam();
    EXPECT_EQ(answer(row.spec, row.now, row.before), row.errors);
}

const std::string kGrows = rules(R"~({"rule": "self >= oldSelf", "message": " may grow "})~");
const std::string kInteger = R"("type": "integer", )";
const std::string kPorts =
    R"({"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
        "items": {"type": "object", "required": ["name"], "properties": {
            "name": {"type": "string"}, "port": {)" +
    kInteger + kGrows + "}}}}";
const std::string kTwo =
    R"({"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}, )";

INSTANTIATE_TEST_SUITE_P(
    Rows,
    SchemaCel,
    testing::Values(
        Row{"passes", "{" + kInteger + rules(R"~({"rule": "self > 1"})~") + "}", "2", "", ""},
        Row{"default_message",
            "{" + kInteger + rules(R"~({"rule": " self > 1 "})~") + "}",
            "1",
            "",
            "spec: Invalid value: \"integer\": failed rule: self > 1"},
        Row{"transition_without_old_value", "{" + kInteger + kGrows + "}", "1", "", ""},
        Row{"transition",
            "{" + kInteger + kGrows + "}",
            "1",
            "2",
            "spec: Invalid value: \"integer\": may grow"},
        Row{"items_of_a_map_are_correlated",
            kPorts,
            R"([{"name": "b", "port": 1}, {"name": "a", "port": 5}, {"name": "new", "port": 0}])",
            R"([{"name": "a", "port": 4}, {"name": "b", "port": 2}])",
            "spec[0].port: Invalid value: \"integer\": may grow"},
        Row{"values_of_a_map_are_correlated",
            R"({"type": "object", "additionalProperties": {)" + kInteger + kGrows + "}}",
            R"({"a": 1, "b": 1})",
            R"({"a": 2})",
            "spec[a]: Invalid value: \"integer\": may grow"},
        Row{"null_is_not_asked",
            R"({"type": "string", "nullable": true, )" + rules(R"~({"rule": "false"})~") + "}",
            "null",
            "",
            ""},
        Row{"reason_and_path",
            kTwo + rules(R"~({"rule": "has(self.b)", "message": "b too",
                             "reason": "FieldValueRequired", "fieldPath": ".b"})~") +
                "}",
            R"({"a": 1})",
            "",
            "spec.b: Required value: b too"},
        Row{"message_expression",
            kTwo + rules(R"~({"rule": "self.a < self.b", "message": "plain",
                             "messageExpression": "'a is %d, b is %d'.format([self.a, self.b])"})~") +
                "}",
            R"({"a": 2, "b": 1})",
            "",
            "spec: Invalid value: \"object\": a is 2, b is 1"},
        Row{"message_expression_that_fails",
            kTwo + rules(R"~({"rule": "false", "message": "plain",
                             "messageExpression": "string(self.b)"})~") +
                "}",
            R"({"a": 2})",
            "",
            "spec: Invalid value: \"object\": plain"},
        Row{"error",
            kTwo + rules(R"~({"rule": "self.b > 0", "message": "b"})~") + "}",
            R"({"a": 2})",
            "",
            "spec: Invalid value: \"object\": no such key: b evaluating rule: b"},
        Row{"no_overload_at_run_time",
            R"({"x-kubernetes-int-or-string": true, )" + rules(R"~({"rule": "self > 0"})~") + "}",
            "\"x\"",
            "",
            "spec: Invalid value: \"\": 'no such overload': call arguments did not match a "
            "supported operator, function or macro signature for rule: self > 0"},
        Row{"optional_old_self",
            "{" + kInteger +
                rules(R"~({"rule": "oldSelf.orValue(0) + 1 == self", "optionalOldSelf": true})~") +
                "}",
            "2",
            "",
            "spec: Invalid value: \"integer\": failed rule: oldSelf.orValue(0) + 1 == self"},
        Row{"wrong_types_come_first",
            kTwo + rules(R"~({"rule": "self.a > 0"})~") + "}",
            R"({"a": "x"})",
            "",
            "[spec.a: Invalid value: \"string\": spec.a in body must be of type integer: "
            "\"string\", <nil>: Invalid value: null: some validation rules were not checked "
            "because the object was invalid; correct the existing errors to complete validation]"},
        Row{"cost_of_a_rule",
            R"({"type": "array", "items": {"type": "integer"}, )" +
                rules(R"~({"rule": "self.all(a, self.all(b, self.all(c, self.all(d, true))))"},
                         {"rule": "false"})~") +
                "}",
            "[1,2,3,4,5,6,7,8,9,1,2,3,4,5,6,7,8,9,1,2,3,4,5,6,7,8,9,1,2,3,4,5,6,7,8,9,1,2,3,4]",
            "",
            "spec: Invalid value: \"array\": 'operation cancelled: actual cost limit exceeded': no "
            "further validation rules will be run due to call cost exceeds limit for rule: "
            "self.all(a, self.all(b, self.all(c, self.all(d, true))))"}),
    [](const testing::TestParamInfo<Row>& row) { return std::string(row.param.name); });

TEST(SchemaCelCost, AllRulesOfAnObjectTogetherAreBounded) {
    std::string items = "1";
    for (int i = 1; i < 40; ++i) {
        items += ",1";
    }
    std::string lists = "[" + items + "]";
    for (int i = 1; i < 200; ++i) {
        lists += ",[" + items + "]";
    }
    const std::string rule = R"~({"rule": "self.all(a, self.all(b, self.all(c, c > 0)))"})~";
    const std::string spec =
        R"({"type": "array", "items": {"type": "array", "items": {"type": "integer"}, )" +
        rules(rule) + "}}";
    const std::string errors = answer(spec, "[" + lists + "]", "");
    EXPECT_NE(errors.find("validation failed due to running out of cost budget, no further "
                          "validation rules will be run"),
              std::string::npos)
        << errors;
}

struct Refusal {
    std::string spec;
    const char* error;
};

TEST(SchemaCelCompile, RefusesWhatTheServerRefuses) {
    const auto one = [](const std::string& rule) {
        return R"({"type": "object", "properties": {"a": {"type": "integer"}}, )" +
               rules("{\"rule\": \"" + rule + "\"}") + "}";
    };
    const std::string where = "openAPIV3Schema.properties[spec].x-kubernetes-validations[0]";
    const std::string integer = R"({"type": "integer", )";
    const Refusal rows[] = {
        {one("self.b > 0"),
         ".rule: Invalid value: \"self.b > 0\": compilation failed: offset 5: undefined field 'b'"},
        {one("self.a >"),
         ".rule: Invalid value: \"self.a >\": compilation failed: offset 8: unexpected end of the "
         "expression"},
        {one("self.a"),
         ".rule: Invalid value: \"self.a\": compilation failed: offset 0: must evaluate to a bool"},
        {one("quantity('1') == self.a"),
         ".rule: Invalid value: \"quantity('1') == self.a\": compilation failed: offset 0: "
         "undeclared reference to 'quantity'"},
        {one(" "), ".rule: Required value: rule is not specified"},
        {integer + rules(R"~({"rule": "true", "reason": "No"})~") + "}",
         ".reason: Unsupported value: \"No\""},
        {integer + rules(R"~({"rule": "true", "fieldPath": ".x"})~") + "}",
         ".fieldPath: Invalid value: \".x\": fieldPath must be a valid path"},
        {integer + rules(R"~({"rule": "true", "messageExpression": "1"})~") + "}",
         ".messageExpression: Invalid value: \"1\": compilation failed: offset 0: must evaluate to "
         "a string"},
    };
    for (const Refusal& row : rows) {
        const auto schema = compile(row.spec);
        ASSERT_FALSE(schema.has_value()) << row.error;
        EXPECT_TRUE(schema.error().message.starts_with(where + row.error))
            << schema.error().message;
    }
    const auto list = compile(R"({"type": "array", "items": )" + integer +
                              rules(R"~({"rule": "self == oldSelf"})~") + "}}");
    ASSERT_FALSE(list.has_value());
    EXPECT_NE(list.error().message.find("oldSelf cannot be used on the uncorrelatable portion of "
                                        "the schema within openAPIV3Schema.properties[spec]"),
              std::string::npos)
        << list.error().message;
}

TEST(SchemaCelCompile, RulesOfTheRootSeeTheName) {
    const auto schema = StructuralSchema::compile(parse(
        R"({"type": "object", "properties": {"spec": {"type": "object", "properties": {
            "a-b": {"type": "string"}, "at": {"type": "string", "format": "date-time"},
            "ratio": {"type": "number"}}}}, )" +
        rules(R"~({"rule": "self.spec.a__dash__b == self.metadata.name", "message": "name"},
                 {"rule": "self.spec.ratio / 2.0 == 1.0", "message": "ratio"},
                 {"rule": "self.spec.at.getFullYear() == 2026", "message": "year"})~") +
        "}"));
    ASSERT_TRUE(schema.has_value()) << schema.error().message;
    const json::Value good = parse(R"({"metadata": {"name": "x"}, "spec":
        {"a-b": "x", "ratio": 2, "at": "2026-01-02T03:04:05Z"}})");
    EXPECT_EQ(schema.value().validate(good).size(), 0u);
    const json::Value bad = parse(R"({"metadata": {"name": "x"}, "spec":
        {"a-b": "y", "ratio": 3, "at": "2025-01-02T03:04:05Z"}})");
    EXPECT_EQ(join_field_errors(schema.value().validate(bad)),
              "[<nil>: Invalid value: \"object\": name, <nil>: Invalid value: \"object\": ratio, "
              "<nil>: Invalid value: \"object\": year]");
}

}  // namespace
}  // namespace capstan::local
