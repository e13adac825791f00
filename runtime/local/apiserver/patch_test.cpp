// JSON patch, merge patch and strategic merge patch as tables of object, patch, result.
#include "runtime/local/apiserver/builtin_kinds.hpp"
#include "runtime/local/apiserver/patch_json.hpp"
#include "runtime/local/apiserver/patch_merge.hpp"
#include "runtime/local/apiserver/patch_strategic.hpp"

#include <gtest/gtest.h>

#include <ostream>
#include <string>

namespace capstan::local {
namespace {

json::Value parsed(std::string_view text) {
    auto value = json::parse(text);
    EXPECT_TRUE(value) << text;
    return value ? std::move(value).assume_value() : json::Value();
}

struct Row {
    const char* name;
    const char* object;
    const char* patch;
    const char* result;  // empty: refused with `code`
    int code{0};
};
void PrintTo(const Row& row, std::ostream* out) {
    *out << row.name;
}
std::string row_name(const testing::TestParamInfo<Row>& info) {
    return info.param.name;
}

class JsonPatch : public testing::TestWithParam<Row> {};

TEST_P(JsonPatch, GivesTheResultOrRefuses) {
    const Row& row = GetParam();
    const auto result = apply_json_patch(parsed(row.object), parsed(row.patch));
    ASSERT_EQ(bool(result), row.code == 0)
        << (result ? json::dump(result.value()) : result.error().message);
    if (result) {
        EXPECT_EQ(json::dump_sorted(result.value()), json::dump_sorted(parsed(row.result)));
    } else {
        EXPECT_EQ(result.error().code, row.code);
    }
}

INSTANTIATE_TEST_SUITE_P(
    Rfc6902,
    JsonPatch,
    testing::Values(
        Row{"add_member",
            R"({"a":1})",
            R"([{"op":"add","path":"/b","value":2}])",
            R"({"a":1,"b":2})"},
        Row{"add_replaces_member",
            R"({"a":1})",
            R"([{"op":"add","path":"/a","value":2}])",
            R"({"a":2})"},
        Row{"add_into_list",
            R"({"a":[1,3]})",
            R"([{"op":"add","path":"/a/1","value":2}])",
            R"({"a":[1,2,3]})"},
        Row{"add_at_end",
            R"({"a":[1]})",
            R"([{"op":"add","path":"/a/-","value":2}])",
            R"({"a":[1,2]})"},
        Row{"add_behind_end", R"({"a":[1]})", R"([{"op":"add","path":"/a/2","value":2}])", "", 422},
        Row{"add_below_nothing", R"({})", R"([{"op":"add","path":"/a/b","value":2}])", "", 422},
        Row{"remove",
            R"({"a":{"b":1,"c":2}})",
            R"([{"op":"remove","path":"/a/b"}])",
            R"({"a":{"c":2}})"},
        Row{"remove_absent", R"({})", R"([{"op":"remove","path":"/a"}])", "", 422},
        Row{"replace",
            R"({"a":[1,2]})",
            R"([{"op":"replace","path":"/a/0","value":9}])",
            R"({"a":[9,2]})"},
        Row{"replace_absent", R"({})", R"([{"op":"replace","path":"/a","value":9}])", R"({"a":9})"},
        Row{"move", R"({"a":1})", R"([{"op":"move","from":"/a","path":"/b"}])", R"({"b":1})"},
        Row{"move_into_itself",
            R"({"a":{"b":1}})",
            R"([{"op":"move","from":"/a","path":"/a/b"}])",
            "",
            422},
        Row{"copy", R"({"a":1})", R"([{"op":"copy","from":"/a","path":"/b"}])", R"({"a":1,"b":1})"},
        Row{"test_holds",
            R"({"a":"x"})",
            R"([{"op":"test","path":"/a","value":"x"},{"op":"remove","path":"/a"}])",
            R"({})"},
        Row{"test_fails",
            R"({"a":"x"})",
            R"([{"op":"test","path":"/a","value":"y"},{"op":"remove","path":"/a"}])",
            "",
            422},
        Row{"test_null_of_absent", R"({})", R"([{"op":"test","path":"/a","value":null}])", R"({})"},
        Row{"escaped_slash",
            R"({"m":{"a/b~c":1}})",
            R"([{"op":"replace","path":"/m/a~1b~0c","value":2}])",
            R"({"m":{"a/b~c":2}})"},
        Row{"unknown_operation", R"({})", R"([{"op":"frob","path":"/a"}])", "", 422},
        Row{"leading_zero_index",
            R"({"a":[1,2]})",
            R"([{"op":"remove","path":"/a/01"}])",
            R"({"a":[1]})"},
        Row{"last_index", R"({"a":[1,2]})", R"([{"op":"remove","path":"/a/-1"}])", R"({"a":[1]})"},
        Row{"copy_absent", R"({})", R"([{"op":"copy","from":"/a","path":"/b"}])", R"({"b":null})"},
        Row{"not_a_list", R"({})", R"({"op":"add"})", "", 400}),
    row_name);

class MergePatch : public testing::TestWithParam<Row> {};

TEST(JsonPatchLimits, CopiesOfCopiesStopBeforeTheyFillTheMemory) {
    json::Value operations = json::list({{{"op", "add"}, {"path", "/x"}, {"value", {}}}});
    for (int i = 0; i < 64; ++i) {
        operations.push_back(
            {{"op", "copy"}, {"from", "/x"}, {"path", "/x/k" + std::to_string(i)}});
    }
    const auto patched = apply_json_patch(json::object(), operations);
    ASSERT_FALSE(patched);
    EXPECT_EQ(patched.error().code, 413);
}

TEST_P(MergePatch, GivesTheResult) {
    json::Value target = parsed(GetParam().object);
    apply_merge_patch(target, parsed(GetParam().patch));
    EXPECT_EQ(json::dump_sorted(target), json::dump_sorted(parsed(GetParam().result)));
}

INSTANTIATE_TEST_SUITE_P(
    Rfc7386,
    MergePatch,
    testing::Values(
        Row{"replaces", R"({"a":"b"})", R"({"a":"c"})", R"({"a":"c"})"},
        Row{"adds", R"({"a":"b"})", R"({"b":"c"})", R"({"a":"b","b":"c"})"},
        Row{"null_removes", R"({"a":"b","b":"c"})", R"({"a":null})", R"({"b":"c"})"},
        Row{"lists_are_replaced", R"({"a":[{"b":"c"}]})", R"({"a":[1]})", R"({"a":[1]})"},
        Row{"recurses",
            R"({"a":{"b":1,"c":2}})",
            R"({"a":{"b":null,"d":3}})",
            R"({"a":{"c":2,"d":3}})"},
        Row{"null_below_new_is_dropped", R"({})", R"({"a":{"b":{"c":null}}})", R"({"a":{"b":{}}})"},
        Row{"scalar_becomes_object", R"({"a":1})", R"({"a":{"b":2}})", R"({"a":{"b":2}})"}),
    row_name);

class StrategicPatch : public testing::TestWithParam<Row> {};

TEST_P(StrategicPatch, GivesTheResultOrRefuses) {
    const Row& row = GetParam();
    const auto result = apply_strategic_patch(
        parsed(row.object), parsed(row.patch), builtin_schema({"apps", "v1", "StatefulSet"}));
    ASSERT_EQ(bool(result), row.code == 0)
        << (result ? json::dump(result.value()) : result.error().message);
    if (result) {
        EXPECT_EQ(json::dump_sorted(result.value()), json::dump_sorted(parsed(row.result)));
    }
}

INSTANTIATE_TEST_SUITE_P(
    Kubernetes,
    StrategicPatch,
    testing::Values(
        Row{"containers_by_name",
            R"({"spec":{"template":{"spec":{"containers":[{"name":"a","image":"1"},{"name":"b","image":"1"}]}}}})",
            R"({"spec":{"template":{"spec":{"containers":[{"name":"b","image":"2"}]}}}})",
            R"({"spec":{"template":{"spec":{"containers":[{"name":"a","image":"1"},{"name":"b","image":"2"}]}}}})"},
        Row{"container_deleted",
            R"({"spec":{"template":{"spec":{"containers":[{"name":"a"},{"name":"b"}]}}}})",
            R"({"spec":{"template":{"spec":{"containers":[{"name":"a","$patch":"delete"}]}}}})",
            R"({"spec":{"template":{"spec":{"containers":[{"name":"b"}]}}}})"},
        Row{"list_replaced",
            R"({"spec":{"template":{"spec":{"containers":[{"name":"a"},{"name":"b"}]}}}})",
            R"({"spec":{"template":{"spec":{"containers":[{"$patch":"replace"},{"name":"c"}]}}}})",
            R"({"spec":{"template":{"spec":{"containers":[{"name":"c"}]}}}})"},
        Row{"element_order",
            R"({"spec":{"template":{"spec":{"containers":[{"name":"a"},{"name":"b"}]}}}})",
            R"({"spec":{"template":{"spec":{"$setElementOrder/containers":[{"name":"b"},{"name":"a"}],
               "containers":[{"name":"a","image":"2"}]}}}})",
            R"({"spec":{"template":{"spec":{"containers":[{"name":"b"},{"name":"a","image":"2"}]}}}})"},
        Row{"retain_keys",
            R"({"spec":{"strategy":{"type":"RollingUpdate","rollingUpdate":{"a":1}}}})",
            R"({"spec":{"strategy":{"$retainKeys":["type"],"type":"Recreate"}}})",
            R"({"spec":{"strategy":{"type":"Recreate"}}})"},
        Row{"map_replaced",
            R"({"metadata":{"labels":{"a":"1","b":"2"}}})",
            R"({"metadata":{"labels":{"$patch":"replace","c":"3"}}})",
            R"({"metadata":{"labels":{"c":"3"}}})"},
        Row{"finalizers_union",
            R"({"metadata":{"finalizers":["x/a"]}})",
            R"({"metadata":{"finalizers":["x/b"]}})",
            R"({"metadata":{"finalizers":["x/b","x/a"]}})"},
        Row{"what_the_patch_names_takes_its_order",
            R"({"metadata":{"finalizers":["x/a","x/b","x/d"]}})",
            R"({"metadata":{"finalizers":["x/d","x/c","x/a"]}})",
            R"({"metadata":{"finalizers":["x/b","x/d","x/c","x/a"]}})"},
        Row{"delete_from_primitive_list",
            R"({"metadata":{"finalizers":["x/a","x/b"]}})",
            R"({"metadata":{"$deleteFromPrimitiveList/finalizers":["x/a"]}})",
            R"({"metadata":{"finalizers":["x/b"]}})"},
        Row{"owners_by_uid",
            R"({"metadata":{"ownerReferences":[{"uid":"1","name":"a"}]}})",
            R"({"metadata":{"ownerReferences":[{"uid":"2","name":"b"}]}})",
            R"({"metadata":{"ownerReferences":[{"uid":"2","name":"b"},{"uid":"1","name":"a"}]}})"},
        Row{"conditions_by_type",
            R"({"status":{"conditions":[{"type":"A","status":"True"}]}})",
            R"({"status":{"conditions":[{"type":"A","status":"False"}]}})",
            R"({"status":{"conditions":[{"type":"A","status":"False"}]}})"},
        Row{"args_are_replaced",
            R"({"spec":{"template":{"spec":{"containers":[{"name":"a","args":["1","2"]}]}}}})",
            R"({"spec":{"template":{"spec":{"containers":[{"name":"a","args":["3"]}]}}}})",
            R"({"spec":{"template":{"spec":{"containers":[{"name":"a","args":["3"]}]}}}})"},
        Row{"container_ports_by_port",
            R"({"spec":{"template":{"spec":{"containers":[{"name":"a","ports":[{"containerPort":1,"name":"x"}]}]}}}})",
            R"({"spec":{"template":{"spec":{"containers":[{"name":"a","ports":[{"containerPort":2}]}]}}}})",
            R"({"spec":{"template":{"spec":{"containers":[{"name":"a","ports":[{"containerPort":2},
               {"containerPort":1,"name":"x"}]}]}}}})"},
        Row{"null_removes",
            R"({"metadata":{"labels":{"a":"1"}}})",
            R"({"metadata":{"labels":{"a":null}}})",
            R"({"metadata":{"labels":{}}})"},
        Row{"item_without_key",
            R"({"spec":{"template":{"spec":{"containers":[{"name":"a"}]}}}})",
            R"({"spec":{"template":{"spec":{"containers":[{"image":"x"}]}}}})",
            "",
            400},
        Row{"unknown_directive", R"({"a":{}})", R"({"a":{"$patch":"frob"}})", "", 400}),
    row_name);

}  // namespace
}  // namespace capstan::local
