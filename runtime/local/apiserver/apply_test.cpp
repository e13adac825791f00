// Server-side apply: field sets, merge, ownership, conflicts. Schema and
// objects are small on purpose.
#include "runtime/local/apiserver/apply_managed_fields.hpp"

#include <gtest/gtest.h>

#include <string>

namespace capstan::local {
namespace {

json::Value parsed(std::string_view text) {
    auto value = json::parse(text);
    EXPECT_TRUE(value) << text;
    return value ? std::move(value).assume_value() : json::Value();
}

constexpr const char* kSchema = R"({
  "type": "object",
  "properties": {
    "spec": {"type": "object", "properties": {
      "a": {"type": "integer"},
      "b": {"type": "string"},
      "atomic": {"type": "array", "items": {"type": "string"}},
      "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
      "ports": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
        "items": {"type": "object", "required": ["name"], "properties": {
          "name": {"type": "string"}, "port": {"type": "integer"}, "host": {"type": "string"}}}},
      "block": {"type": "object", "x-kubernetes-map-type": "atomic", "properties": {
        "x": {"type": "integer"}, "y": {"type": "integer"}}},
      "open": {"type": "object", "additionalProperties": {"type": "string"}}
    }},
    "status": {"type": "object", "properties": {"n": {"type": "integer"}}}
  }})";

class Apply : public testing::Test {
protected:
    Apply() : schema_(StructuralSchema::compile(parsed(kSchema)).assume_value()) {}

    static WriteIdentity as(const char* manager, const char* time = "2026-01-01T00:00:00Z") {
        return {manager, "x.dev/v1", "", time};
    }
    static json::Value object(std::string_view spec,
                              std::string_view metadata = R"({"name":"n"})") {
        return parsed(R"({"apiVersion":"x.dev/v1","kind":"X","metadata":)" + std::string(metadata) +
                      R"(,"spec":)" + std::string(spec) + "}");
    }
    Answer<json::Value> apply(const json::Value* live,
                              std::string_view spec,
                              const char* manager,
                              bool force = false) {
        return apply_config(live, object(spec), {schema_.root()}, as(manager), force, {});
    }
    json::Value applied(const json::Value* live,
                        std::string_view spec,
                        const char* manager,
                        bool force = false) {
        auto result = apply(live, spec, manager, force);
        EXPECT_TRUE(result) << result.error().message;
        return result ? std::move(result).assume_value() : json::Value();
    }
    json::Value updated(const json::Value& live, json::Value next, const char* manager) {
        track_update(&live, next, {schema_.root()}, as(manager));
        return next;
    }
    static std::string spec_of(const json::Value& value) {
        const json::Value* spec = value.find("spec");
        return spec == nullptr ? "" : json::dump_sorted(*spec);
    }
    static std::string owned(const json::Value& value,
                             std::string_view manager,
                             std::string_view operation) {
        for (const json::Value& entry : json::View(value)["metadata"]["managedFields"].array()) {
            if (json::View(entry)["manager"].string_or("") == manager &&
                json::View(entry)["operation"].string_or("") == operation) {
                return json::dump_sorted(*entry.find("fieldsV1"));
            }
        }
        return "";
    }

    StructuralSchema schema_;
};

TEST_F(Apply, CreatesAndOwnsWhatItStates) {
    const json::Value made = applied(
        nullptr, R"({"a":1,"ports":[{"name":"x","port":1}],"set":["s"],"atomic":["t"]})", "m");
    EXPECT_EQ(spec_of(made),
              R"({"a":1,"atomic":["t"],"ports":[{"name":"x","port":1}],"set":["s"]})");
    EXPECT_EQ(
        owned(made, "m", "Apply"),
        R"({"f:spec":{"f:a":{},"f:atomic":{},"f:ports":{"k:{\"name\":\"x\"}":{".":{},"f:name":{},"f:port":{}}},)"
        R"("f:set":{"v:\"s\"":{}}}})");
}

TEST_F(Apply, TheSameConfigurationChangesNothingButTheTime) {
    const json::Value first = applied(nullptr, R"({"a":1})", "m");
    auto again = apply_config(
        &first, object(R"({"a":1})"), {schema_.root()}, as("m", "2026-01-01T09:00:00Z"), false, {});
    ASSERT_TRUE(again);
    EXPECT_EQ(again.value(), first);
}

TEST_F(Apply, AnotherOrderOfASetIsAChangeOfThisManager) {
    const auto at = [&](const json::Value* live, const char* spec, const char* time) {
        auto result = apply_config(live, object(spec), {schema_.root()}, as("m", time), false, {});
        EXPECT_TRUE(result);
        return result ? std::move(result).assume_value() : json::Value();
    };
    const json::Value first = at(nullptr, R"({"set":["s","t"]})", "2026-01-01T08:00:00Z");
    const json::Value second = at(&first, R"({"set":["t","s"]})", "2026-01-01T09:00:00Z");
    EXPECT_EQ(spec_of(second), R"({"set":["t","s"]})");
    const json::Value* time = second.pointer("/metadata/managedFields/0/time");
    ASSERT_NE(time, nullptr);
    EXPECT_EQ(*time, json::Value("2026-01-01T09:00:00Z"));
}

TEST_F(Apply, RemovesWhatItsManagerStopsStating) {
    const json::Value first = applied(
        nullptr, R"({"a":1,"b":"x","open":{"k":"v"},"ports":[{"name":"x"},{"name":"y"}]})", "m");
    const json::Value second = applied(&first, R"({"a":1,"ports":[{"name":"y"}]})", "m");
    EXPECT_EQ(spec_of(second), R"({"a":1,"ports":[{"name":"y"}]})");
}

TEST_F(Apply, KeepsWhatAnotherManagerOwnsToo) {
    const json::Value first = applied(nullptr, R"({"a":1,"b":"x"})", "m");
    const json::Value shared = applied(&first, R"({"b":"x"})", "n");
    const json::Value left = applied(&shared, R"({"a":1})", "m");
    EXPECT_EQ(spec_of(left), R"({"a":1,"b":"x"})");
    EXPECT_EQ(owned(left, "n", "Apply"), R"({"f:spec":{"f:b":{}}})");
}

TEST_F(Apply, ConflictsNameTheManagerAndTheField) {
    const json::Value first = applied(nullptr, R"({"a":1,"b":"x"})", "m");
    const auto second = apply(&first, R"({"a":2})", "n");
    ASSERT_FALSE(second);
    EXPECT_EQ(second.error().code, 409);
    EXPECT_EQ(second.error().message,
              R"(Apply failed with 1 conflict: conflict with "m": .spec.a)");
    ASSERT_EQ(second.error().causes.size(), 1u);
    EXPECT_EQ(second.error().causes[0].reason, "FieldManagerConflict");
    EXPECT_EQ(second.error().causes[0].field, ".spec.a");
}

TEST_F(Apply, ForceTakesTheField) {
    const json::Value first = applied(nullptr, R"({"a":1,"b":"x"})", "m");
    const json::Value second = applied(&first, R"({"a":2})", "n", true);
    EXPECT_EQ(spec_of(second), R"({"a":2,"b":"x"})");
    EXPECT_EQ(owned(second, "m", "Apply"), R"({"f:spec":{"f:b":{}}})");
    EXPECT_EQ(owned(second, "n", "Apply"), R"({"f:spec":{"f:a":{}}})");
}

TEST_F(Apply, SetsAndMapsOfSeveralManagersGrowTogether) {
    const json::Value first =
        applied(nullptr, R"({"set":["a"],"ports":[{"name":"x","port":1}]})", "m");
    const json::Value second =
        applied(&first, R"({"set":["b"],"ports":[{"name":"y","port":2}]})", "n");
    EXPECT_EQ(spec_of(second),
              R"({"ports":[{"name":"x","port":1},{"name":"y","port":2}],"set":["a","b"]})");
    const json::Value third = applied(&second, R"({"set":["a"]})", "m");
    EXPECT_EQ(spec_of(third), R"({"ports":[{"name":"y","port":2}],"set":["a","b"]})");
}

TEST_F(Apply, AtomicListsAndMapsHaveOneOwner) {
    const json::Value first = applied(nullptr, R"({"atomic":["a"],"block":{"x":1}})", "m");
    EXPECT_FALSE(apply(&first, R"({"atomic":["b"]})", "n"));
    EXPECT_FALSE(apply(&first, R"({"block":{"y":1}})", "n"));
    EXPECT_EQ(spec_of(applied(&first, R"({"block":{"y":1}})", "n", true)),
              R"({"atomic":["a"],"block":{"y":1}})");
}

TEST_F(Apply, AnUpdateTakesWhatItChanges) {
    const json::Value first = applied(nullptr, R"({"a":1,"b":"x"})", "m");
    json::Value next = first;
    next["spec"].set("a", 7);
    next["spec"].set("open", {{"k", "v"}});
    const json::Value second = updated(first, next, "u");
    EXPECT_EQ(owned(second, "m", "Apply"), R"({"f:spec":{"f:b":{}}})");
    EXPECT_EQ(owned(second, "u", "Update"), R"({"f:spec":{"f:a":{},"f:open":{".":{},"f:k":{}}}})");
    // And what an update removes is owned by nobody.
    json::Value third = second;
    third["spec"].erase("b");
    third["spec"].erase("open");
    const json::Value last = updated(second, third, "w");
    EXPECT_EQ(owned(last, "m", "Apply"), "");
    EXPECT_EQ(owned(last, "u", "Update"), R"({"f:spec":{"f:a":{}}})");
    EXPECT_EQ(owned(last, "w", "Update"), "");
}

TEST_F(Apply, UpdatesOfOneManagerShareAnEntry) {
    json::Value live = object(R"({"a":1})");
    track_update(nullptr, live, {schema_.root()}, as("u"));
    json::Value next = live;
    next["spec"].set("b", "x");
    const json::Value second = updated(live, next, "u");
    EXPECT_EQ(json::View(second)["metadata"]["managedFields"].array().size(), 1u);
    EXPECT_EQ(owned(second, "u", "Update"), R"({"f:spec":{".":{},"f:a":{},"f:b":{}}})");
}

TEST_F(Apply, ObjectsNobodyTrackedBelongToBeforeFirstApply) {
    const json::Value live = object(R"({"a":1,"b":"x"})");
    EXPECT_FALSE(apply(&live, R"({"a":2})", "m"));
    const json::Value second = applied(&live, R"({"a":2})", "m", true);
    EXPECT_EQ(owned(second, "before-first-apply", "Update"), R"({"f:spec":{".":{},"f:b":{}}})");
}

TEST_F(Apply, ClientsMayRewriteManagedFields) {
    const json::Value first = applied(nullptr, R"({"a":1})", "m");
    json::Value next = first;
    next["metadata"]["managedFields"].if_array()->front().set("manager", "n");
    const json::Value second = updated(first, next, "u");
    EXPECT_EQ(owned(second, "n", "Apply"), R"({"f:spec":{"f:a":{}}})");
    json::Value reset = second;
    reset["metadata"].set("managedFields", json::list({json::object()}));
    const json::Value cleared = updated(second, reset, "u");
    EXPECT_FALSE(json::View(cleared)["metadata"]["managedFields"].present());
}

TEST_F(Apply, OldUpdateManagersMergeIntoOne) {
    json::Value live = object(R"({"open":{}})");
    track_update(nullptr, live, {schema_.root()}, as("u", "2026-01-01T00:00:00Z"));
    for (int i = 0; i < 14; ++i) {
        json::Value next = live;
        next["spec"]["open"].set("k" + std::to_string(i), "v");
        const std::string manager = "u" + std::to_string(i);
        const std::string time = "2026-01-01T00:00:" + std::to_string(10 + i) + "Z";
        track_update(&live, next, {schema_.root()}, as(manager.c_str(), time.c_str()));
        live = next;
    }
    EXPECT_EQ(json::View(live)["metadata"]["managedFields"].array().size(), 10u);
    EXPECT_NE(owned(live, "ancient-changes", "Update"), "");
    EXPECT_NE(owned(live, "u13", "Update"), "");
}

TEST_F(Apply, RefusesTwoItemsWithOneKeyAndItemsWithoutKey) {
    EXPECT_EQ(apply(nullptr, R"({"ports":[{"name":"x"},{"name":"x"}]})", "m").error().code, 400);
    EXPECT_EQ(apply(nullptr, R"({"ports":[{"port":1}]})", "m").error().code, 400);
}

TEST_F(Apply, ResetFieldsAreNotOwned) {
    json::Value config = object(R"({"a":1})");
    config.set("status", {{"n", 1}});
    FieldSet reset;
    reset.insert({"f:status"});
    const auto made = apply_config(nullptr, config, {schema_.root()}, as("m"), false, reset);
    ASSERT_TRUE(made);
    EXPECT_EQ(owned(made.value(), "m", "Apply"), R"({"f:spec":{"f:a":{}}})");
}

TEST(FieldSetTest, TextFormIsThatOfConflictMessages) {
    EXPECT_EQ(to_text({"f:spec", "f:ports", R"(k:{"name":"x","protocol":"TCP"})", "f:port"}),
              R"(.spec.ports[name="x",protocol="TCP"].port)");
    EXPECT_EQ(to_text({"f:metadata", "f:finalizers", R"(v:"a/b")"}),
              R"(.metadata.finalizers[="a/b"])");
}

TEST(FieldSetTest, WireFormRoundTrips) {
    const json::Value wire =
        parsed(R"({"f:":{},"f:a":{".":{},"f:b":{}},"f:c":{},"f:l":{"k:{\"n\":1}":{"f:x":{}}}})");
    const FieldSet set = from_fields_v1(wire);
    EXPECT_TRUE(set.has({"f:a"}));
    EXPECT_TRUE(set.has({"f:a", "f:b"}));
    EXPECT_FALSE(set.has({"f:l"}));
    EXPECT_EQ(json::dump(to_fields_v1(set)), json::dump(wire));
}

TEST(MergeTyped, KeepsTheOrderOfTheConfiguration) {
    const StructuralSchema schema = StructuralSchema::compile(parsed(kSchema)).assume_value();
    const json::Value live =
        parsed(R"({"spec":{"ports":[{"name":"a"},{"name":"b","host":"h"},{"name":"c"}]}})");
    const json::Value config =
        parsed(R"({"spec":{"ports":[{"name":"c"},{"name":"b","port":1},{"name":"d"}]}})");
    const json::Value merged = merge_typed(live, config, {schema.root()});
    EXPECT_EQ(json::dump(*merged.pointer("/spec/ports")),
              R"([{"name":"a"},{"name":"c"},{"name":"b","host":"h","port":1},{"name":"d"}])");
}

}  // namespace
}  // namespace capstan::local
