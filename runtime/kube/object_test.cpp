#include "runtime/kube/object.hpp"
#include "runtime/kube/raw_json.hpp"
#include "runtime/kube/selector.hpp"

#include <gtest/gtest.h>

#include <string>

namespace capstan::kube {
namespace {

constexpr const char* kPod = R"({
  "kind": "Pod", "apiVersion": "v1",
  "metadata": {"name": "a", "namespace": "x", "uid": "u1", "resourceVersion": "12", "generation": 3,
    "deletionTimestamp": "2026-01-01T00:00:00Z",
    "labels": {"app": "db", "tier": "7", "example.com/role": "main"},
    "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "{}", "note": "say \"hi\""},
    "managedFields": [{"manager": "m"}],
    "ownerReferences": [{"uid": "o0", "name": "n0", "kind": "K", "apiVersion": "v1"},
      {"uid": "o1", "name": "n1", "kind": "Etcd", "apiVersion": "druid.gardener.cloud/v1alpha1", "controller": true}]},
  "spec": {"a/b": {"m~n": 1}, "list": [{"ref": {"name": "s1"}}, {"ref": {"name": "s2"}}, {"other": 1}], "text": "é\n"}
})";

ObjectPtr pod(const Projection& projection = {}) {
    return Object::decode(kPod, projection).value();
}

TEST(Object, ReadsItsHeader) {
    const ObjectPtr o = pod();
    EXPECT_EQ(o->kind(), "Pod");
    EXPECT_EQ(o->api_version(), "v1");
    EXPECT_EQ(o->key().to_string(), "x/a");
    EXPECT_EQ(o->uid(), "u1");
    EXPECT_EQ(o->resource_version(), "12");
    EXPECT_EQ(o->generation(), 3);
    EXPECT_TRUE(o->deleting());
    EXPECT_EQ(o->controller_uid(), "o1");
    EXPECT_EQ(o->controller_name(), "n1");
    EXPECT_EQ(o->controller_kind(), "Etcd");
    EXPECT_EQ(o->controller_api_version(), "druid.gardener.cloud/v1alpha1");
    EXPECT_FALSE(o->projected());
}

TEST(Object, DropsManagedFieldsAndLastApplied) {
    EXPECT_FALSE(pod()->field("/metadata/managedFields"));
    EXPECT_EQ(pod()->annotation("kubectl.kubernetes.io/last-applied-configuration"), std::nullopt);
    EXPECT_EQ(pod()->annotation("note"), "say \"hi\"");
    EXPECT_TRUE(pod(Projection::none())->field("/metadata/managedFields"));
}

TEST(Object, KeepsOnlyListedFields) {
    const ObjectPtr o =
        pod({true, true, {"/spec/text", "/spec/list/0/ref", "/spec/a~1b", "/absent/x", "bad"}});
    EXPECT_TRUE(o->projected());
    EXPECT_EQ(o->name(), "a");
    EXPECT_EQ(
        *o->field("/spec"),
        R"({"a/b":{"m~n":1},"list":[{"ref":{"name":"s1"}},{"ref":{"name":"s2"}},{"other":1}],"text":"é\n"})");
}

struct PointerRow {
    const char* pointer;
    const char* raw;  // nullptr: absent
};

TEST(Object, FindsFieldsByPointerWithoutParsing) {
    const PointerRow rows[] = {
        {"/spec/a~1b/m~0n", "1"},
        {"/spec/list/1/ref/name", "\"s2\""},
        {"/spec/list/3", nullptr},
        {"/spec/list/01", nullptr},
        {"/spec/list/-", nullptr},
        {"/spec/nope", nullptr},
        {"spec", nullptr},
        {"/metadata/name/x", nullptr},
        {"/spec/a~2b", nullptr},
        {"/metadata/generation", "3"},
    };
    const ObjectPtr o = pod();
    const json::Value tree = o->parse();
    for (const PointerRow& row : rows) {
        const auto found = o->field(row.pointer);
        EXPECT_EQ(found.has_value(), row.raw != nullptr) << row.pointer;
        if (found && row.raw != nullptr) {
            EXPECT_EQ(*found, row.raw) << row.pointer;
            EXPECT_EQ(json::dump(*tree.pointer(row.pointer)), row.raw);
        }
    }
    EXPECT_EQ(*o->field(""), o->bytes());
    EXPECT_EQ(o->string_field("/spec/text"), "é\n");
    EXPECT_EQ(o->string_field("/metadata/generation"), std::nullopt);
    EXPECT_EQ(o->string_fields("/spec/list/*/ref/name"), (std::vector<std::string>{"s1", "s2"}));
    EXPECT_EQ(o->string_fields("/spec/text"), (std::vector<std::string>{"é\n"}));
}

TEST(Object, FillsInKindOfListItems) {
    const GroupVersionKind gvk{"apps", "v1", "StatefulSet"};
    const ObjectPtr o = Object::decode(R"({"metadata":{"name":"n"}})", {}, &gvk).value();
    EXPECT_EQ(o->kind(), "StatefulSet");
    EXPECT_EQ(o->api_version(), "apps/v1");
}

// RBAC allows any name without a slash or a per cent sign, and the uid of an owner is free.
TEST(Object, KnowsNamesThatAreWrittenWithEscapes) {
    for (const char* more : {"", R"(,"n":1.5)"}) {  // copied in one pass, and by the tree
        const std::string text =
            R"({"kind":"Role","apiVersion":"v1","metadata":{"namespace":"x","name":"quo\"te\n",)"
            R"("uid":"u","ownerReferences":[{"kind":"K","name":"a\\","uid":"a\"b",)"
            R"("apiVersion":"v1","controller":true}]})" +
            std::string(more) + "}";
        const auto o = Object::decode(text);
        ASSERT_TRUE(o) << o.error().message;
        EXPECT_EQ(o.value()->name(), "quo\"te\n");
        EXPECT_EQ(o.value()->ns(), "x");
        EXPECT_EQ(o.value()->uid(), "u");
        EXPECT_EQ(o.value()->controller_uid(), "a\"b");
        EXPECT_EQ(o.value()->controller_name(), "a\\");
        EXPECT_EQ(o.value()->controller_kind(), "K");
        EXPECT_EQ(o.value()->bytes(), text);
        EXPECT_EQ(o.value()->string_field("/metadata/name"), "quo\"te\n");
    }
}

TEST(Object, RefusesWhatHasNoName) {
    for (const char* text : {"[]",
                             "{}",
                             R"({"metadata":[]})",
                             R"({"metadata":{}})",
                             R"({"metadata":{"name":1}})",
                             R"({"metadata":{"name":"a\u0000b"}})",
                             R"({"metadata":{"name":"a","uid":{}}})",
                             "{"}) {
        const auto made = Object::decode(text);
        ASSERT_FALSE(made) << text;
        EXPECT_EQ(made.error().code, Code::invalid) << text;
    }
}

TEST(ResourceVersion, ComparesAsDecimalOfAnyLength) {
    EXPECT_EQ(compare_resource_versions("9", "10"), -1);
    EXPECT_EQ(compare_resource_versions("18446744073709551616", "18446744073709551615"), 1);
    EXPECT_EQ(compare_resource_versions("7", "7"), 0);
    for (const char* odd : {"", "0", "012", "-1", "a", "1a"}) {
        EXPECT_EQ(compare_resource_versions(odd, "5"), std::nullopt) << odd;
    }
}

TEST(RawJson, SurvivesCutText) {
    const std::string whole(pod()->bytes());
    for (std::size_t n = 0; n < whole.size(); ++n) {
        const std::string cut = whole.substr(0, n);
        EXPECT_EQ(raw::value_length(cut), 0u);
        raw::pointer(cut, "/spec/list/1/ref/name");
    }
    EXPECT_EQ(raw::value_length(whole), whole.size());
}

struct SelectorRow {
    const char* name;
    const char* text;
    bool matches;
    const char* canonical;
};

class Selectors : public testing::TestWithParam<SelectorRow> {};

TEST_P(Selectors, MatchLabels) {
    const auto selector = LabelSelector::parse(GetParam().text);
    ASSERT_TRUE(selector) << selector.error().message;
    EXPECT_EQ(selector.value().matches(*pod()), GetParam().matches);
    EXPECT_EQ(selector.value().to_string(), GetParam().canonical);
    EXPECT_EQ(LabelSelector::parse(selector.value().to_string()).value().to_string(),
              GetParam().canonical);
}

INSTANTIATE_TEST_SUITE_P(
    Rows,
    Selectors,
    testing::Values(SelectorRow{"empty", "", true, ""},
                    SelectorRow{"equal", "app=db", true, "app=db"},
                    SelectorRow{"double_equal", " app == db ", true, "app=db"},
                    SelectorRow{"differs", "app=x", false, "app=x"},
                    SelectorRow{"unequal", "app!=x", true, "app!=x"},
                    SelectorRow{"unequal_absent", "no!=x", true, "no!=x"},
                    SelectorRow{"in", "app in (z, db)", true, "app in (db,z)"},
                    SelectorRow{"notin", "app notin (z,db)", false, "app notin (db,z)"},
                    SelectorRow{"notin_absent", "no notin (z)", true, "no!=z"},
                    SelectorRow{"exists", "app", true, "app"},
                    SelectorRow{"absent", "!app", false, "!app"},
                    SelectorRow{"greater", "tier>6", true, "tier>6"},
                    SelectorRow{"less", "tier < 7", false, "tier<7"},
                    SelectorRow{"greater_text", "app>1", false, "app>1"},
                    SelectorRow{"empty_value", "no=", false, "no="},
                    SelectorRow{"empty_in_set", "no notin (,a)", true, "no notin (,a)"},
                    SelectorRow{
                        "prefixed", "example.com/role=main,app", true, "example.com/role=main,app"},
                    SelectorRow{"all_of", "app=db,tier=8", false, "app=db,tier=8"}),
    [](const auto& row) { return row.param.name; });

TEST(LabelSelector, RefusesMalformedText) {
    for (const char* text : {"=a",
                             "a=b=c",
                             "a in b",
                             "a in (b",
                             "a b",
                             "a,,b",
                             ",a",
                             "a,",
                             "a>x",
                             "a~b",
                             "/a",
                             "a!",
                             "a=b c",
                             "a=-x",
                             "!a=b"}) {
        EXPECT_FALSE(LabelSelector::parse(text)) << text;
    }
    EXPECT_EQ(LabelSelector::parse(std::string(kSelectorBytesMax + 1, 'a')).error().code,
              Code::too_large);
}

TEST(FieldSelector, MatchesFieldsWithEscapes) {
    EXPECT_TRUE(
        FieldSelector::parse("metadata.name=a,metadata.namespace!=y").value().matches(*pod()));
    EXPECT_FALSE(FieldSelector::parse("metadata.name==b").value().matches(*pod()));
    EXPECT_EQ(FieldSelector::parse(R"(spec.x=a\,b\=c)").value().terms()[0].value, "a,b=c");
    EXPECT_EQ(FieldSelector::parse(R"(spec.x=a\,b\=c)").value().to_string(), R"(spec.x=a\,b\=c)");
    for (const char* text : {"a", "=b", "a=b=c", "a!b"}) {
        EXPECT_FALSE(FieldSelector::parse(text)) << text;
    }
}

TEST(ObjectParts, OnlyWhatIsAskedFor) {
    const auto object = Object::decode(
        R"({"apiVersion":"v1","kind":"T","metadata":{"name":"a","labels":{"b":"c"}},"spec":{"a/b":1,"c":[2]},"n":null,"l":[1]})");
    struct Row {
        std::vector<std::string> pointers;
        const char* tree;
    };
    const Row rows[] = {
        {{}, "{}"},
        {{"/metadata/name"}, R"({"metadata":{"name":"a"}})"},
        {{"/metadata/labels", "/metadata/name"}, R"({"metadata":{"name":"a","labels":{"b":"c"}}})"},
        {{"/spec/a~1b"}, R"({"spec":{"a/b":1}})"},
        {{"/spec/c/0/x"}, R"({"spec":{"c":[2]}})"},
        {{"/spec/c", "/spec"}, R"({"spec":{"a/b":1,"c":[2]}})"},
        {{"/spec", "/spec/c"}, R"({"spec":{"a/b":1,"c":[2]}})"},
        {{"/n/x", "/l/0", "/absent"}, R"({"n":null,"l":[1]})"},
    };
    for (const Row& row : rows) {
        EXPECT_EQ(json::dump(object.value()->parse(Parts::of(row.pointers))), row.tree);
    }
    EXPECT_EQ(json::dump(object.value()->parse(Parts::of({"/spec", ""}))), object.value()->bytes());
}

TEST(ObjectParts, AnEscapedKeyMayBeTheOneAskedFor) {
    const auto object = Object::decode(
        "{\"kind\":\"T\",\"metadata\":{\"name\":\"a\"},\"spec\":{\"q\\\"\":1,\"r\":2}}");
    const json::Value tree = object.value()->parse(Parts::of({"/spec/q\""}));
    EXPECT_EQ(json::View(tree)["spec"]["q\""].int_or(0), 1);
}

}  // namespace
}  // namespace capstan::kube
