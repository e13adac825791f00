#include "runtime/plugin/map_rule.hpp"

#include <gtest/gtest.h>

#include <ostream>
#include <string>

namespace capstan::plugin {
namespace {

const GroupVersionKind kEtcd{"druid.gardener.cloud", "v1alpha1", "Etcd"};

MapLookups lookups() {
    MapLookups result;
    result.by_field = [](const GroupVersionKind&,
                         std::string_view field,
                         std::string_view value,
                         std::string_view ns) {
        EXPECT_EQ(field, "/spec/store/secretRef/name");
        return value == "creds"
                   ? std::vector<ObjectKey>{{std::string(ns), "b"}, {std::string(ns), "a"}}
                   : std::vector<ObjectKey>{};
    };
    result.all = [](const GroupVersionKind&, std::string_view ns) {
        return std::vector<ObjectKey>{{std::string(ns), "x"}, {std::string(ns), "y"}};
    };
    return result;
}

std::string joined(const std::vector<ObjectKey>& keys) {
    std::string text;
    for (const ObjectKey& key : keys) {
        text += (text.empty() ? "" : " ") + key.to_string();
    }
    return text;
}

struct Row {
    const char* name;
    const char* rule;  // "for", "owns" or the manifest's "map"
    const char* old_object;
    const char* new_object;
    const char* keys;
};
std::ostream& operator<<(std::ostream& out, const Row& row) {
    return out << row.name;
}
class MapRuleRow : public testing::TestWithParam<Row> {};

MappedKeys keys_of(std::string_view rule_text, const char* object, bool primary_cluster_scoped) {
    MapRule rule;
    rule.primary = kEtcd;
    Problems problems;
    if (rule_text == "owns") {
        rule.kind = MapRule::Kind::owner;
    } else if (rule_text != "for") {
        rule = MapRule::parse(json::parse(rule_text).value(), kEtcd, "/map", problems);
    }
    MapLookups found = lookups();
    found.primary_cluster_scoped = primary_cluster_scoped;
    const json::Value after = json::parse(object).value();
    return map_keys(rule, nullptr, &after, found);
}

TEST(MapRule, LeadsOutOfTheNamespaceToPrimariesWithoutOne) {
    constexpr const char* kObject =
        R"({"metadata":{"namespace":"n","name":"of-main","labels":{"part-of":"main"},"ownerReferences":[
            {"apiVersion":"druid.gardener.cloud/v1alpha1","kind":"Etcd","name":"main","controller":true}]}})";
    for (const char* rule : {"owns", R"({"label":"part-of"})", R"({"name":{"prefix":"of-"}})"}) {
        EXPECT_EQ(joined(keys_of(rule, kObject, false).keys), "n/main") << rule;
        EXPECT_EQ(joined(keys_of(rule, kObject, true).keys), "main") << rule;
    }
    EXPECT_EQ(joined(keys_of(R"({"all":true})", kObject, true).keys), "x y");
    EXPECT_EQ(joined(keys_of("for", R"({"metadata":{"name":"main"}})", true).keys), "main");
}

TEST_P(MapRuleRow, LeadsToKeys) {
    const Row& row = GetParam();
    MapRule rule;
    rule.primary = kEtcd;
    Problems problems;
    const std::string_view text = row.rule;
    if (text == "owns") {
        rule.kind = MapRule::Kind::owner;
    } else if (text != "for") {
        rule = MapRule::parse(json::parse(text).value(), kEtcd, "/map", problems);
    }
    ASSERT_TRUE(problems.empty()) << problems.lines().front();
    const json::Value before =
        json::parse(*row.old_object != '\0' ? row.old_object : "null").value();
    const json::Value after =
        json::parse(*row.new_object != '\0' ? row.new_object : "null").value();
    const MappedKeys mapped = map_keys(
        rule, before.is_null() ? nullptr : &before, after.is_null() ? nullptr : &after, lookups());
    EXPECT_EQ(joined(mapped.keys), row.keys);
    EXPECT_FALSE(mapped.truncated);
}

constexpr const char* kOwned =
    R"({"metadata":{"namespace":"n","name":"sts","ownerReferences":[
        {"apiVersion":"druid.gardener.cloud/v1beta1","kind":"Etcd","name":"main","controller":true}]}})";

INSTANTIATE_TEST_SUITE_P(
    Rules,
    MapRuleRow,
    testing::Values(
        Row{"identity", "for", "", R"({"metadata":{"namespace":"n","name":"main"}})", "n/main"},
        Row{"identity_of_a_deleted_one",
            "for",
            R"({"metadata":{"namespace":"n","name":"main"}})",
            "",
            "n/main"},
        Row{"owner_of_another_version", "owns", "", kOwned, "n/main"},
        Row{"owner_without_controller",
            "owns",
            "",
            R"({"metadata":{"namespace":"n","ownerReferences":[{"apiVersion":"druid.gardener.cloud/v1alpha1","kind":"Etcd","name":"main"}]}})",
            ""},
        Row{"owner_of_another_group",
            "owns",
            "",
            R"({"metadata":{"namespace":"n","ownerReferences":[{"apiVersion":"other/v1","kind":"Etcd","name":"main","controller":true}]}})",
            ""},
        Row{"owner_lost",
            "owns",
            kOwned,
            R"({"metadata":{"namespace":"n","name":"sts"}})",
            "n/main"},
        Row{"label",
            R"({"label":"part-of"})",
            "",
            R"({"metadata":{"namespace":"n","labels":{"part-of":"main"}}})",
            "n/main"},
        Row{"label_moved_wakes_both",
            R"({"label":"part-of"})",
            R"({"metadata":{"namespace":"n","labels":{"part-of":"a"}}})",
            R"({"metadata":{"namespace":"n","labels":{"part-of":"b"}}})",
            "n/a n/b"},
        Row{"label_absent", R"({"label":"part-of"})", "", R"({"metadata":{"namespace":"n"}})", ""},
        Row{"name_stripped",
            R"({"name":{"prefix":"etcd-","suffix":"-full-snap"}})",
            "",
            R"({"metadata":{"namespace":"n","name":"etcd-main-full-snap"}})",
            "n/main"},
        Row{"name_too_short",
            R"({"name":{"suffix":"-full-snap"}})",
            "",
            R"({"metadata":{"namespace":"n","name":"-full-snap"}})",
            ""},
        Row{"all_of_namespace",
            R"({"all":true})",
            "",
            R"({"metadata":{"namespace":"n","name":"c"}})",
            "n/x n/y"},
        Row{"refers_from",
            R"({"refersFrom":{"gvk":"druid.gardener.cloud/v1alpha1/Etcd","field":"/spec/store/secretRef/name"}})",
            "",
            R"({"metadata":{"namespace":"n","name":"creds"}})",
            "n/a n/b"},
        Row{"refers_from_nobody",
            R"({"refersFrom":{"gvk":"druid.gardener.cloud/v1alpha1/Etcd","field":"/spec/store/secretRef/name"}})",
            "",
            R"({"metadata":{"namespace":"n","name":"other"}})",
            ""}));

struct BadRow {
    const char* name;
    const char* rule;
    const char* problem;
};
std::ostream& operator<<(std::ostream& out, const BadRow& row) {
    return out << row.name;
}
class RefusedMapRule : public testing::TestWithParam<BadRow> {};

TEST_P(RefusedMapRule, NamesThePlace) {
    Problems problems;
    MapRule::parse(json::parse(GetParam().rule).value(), kEtcd, "/map", problems);
    ASSERT_FALSE(problems.empty());
    EXPECT_EQ(problems.lines().front(), GetParam().problem);
}

INSTANTIATE_TEST_SUITE_P(
    Rules,
    RefusedMapRule,
    testing::Values(
        BadRow{"unknown",
               R"({"plugin":true})",
               "/map/plugin: unknown map rule; known are refersFrom, label, name, all"},
        BadRow{"two",
               R"({"all":true,"label":"x"})",
               "/map: expected an object with one of refersFrom, label, name, all"},
        BadRow{"other_primary",
               R"({"refersFrom":{"gvk":"v1/Pod","field":"/spec"}})",
               "/map/refersFrom/gvk: must be the kind of this controller's \"for\" watch"},
        BadRow{"bad_field",
               R"({"refersFrom":{"gvk":"druid.gardener.cloud/v1alpha1/Etcd","field":"spec"}})",
               "/map/refersFrom/field: expected a JSON pointer into the primary, like "
               "\"/spec/secretRef/name\""}));

TEST(MapRule, CutsFloodsAtItsLimit) {
    MapRule rule;
    rule.kind = MapRule::Kind::all;
    MapLookups many;
    many.all = [](const GroupVersionKind&, std::string_view) {
        std::vector<ObjectKey> keys;
        for (std::size_t i = 0; i <= kMappedKeysMax; ++i) {
            keys.push_back({"n", std::to_string(i)});
        }
        return keys;
    };
    const json::Value object = json::object();
    const MappedKeys mapped = map_keys(rule, nullptr, &object, many);
    EXPECT_EQ(mapped.keys.size(), kMappedKeysMax);
    EXPECT_TRUE(mapped.truncated);
}

}  // namespace
}  // namespace capstan::plugin
