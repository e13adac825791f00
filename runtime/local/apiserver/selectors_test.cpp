// Selectors and the URL grammar as tables.
#include "runtime/local/apiserver/selectors.hpp"
#include "runtime/local/apiserver/request_info.hpp"

#include <gtest/gtest.h>

#include <ostream>
#include <string>

namespace capstan::local {
namespace {

struct LabelRow {
    const char* selector;
    int expected;  // 1 matches, 0 does not, -1 refused
};
void PrintTo(const LabelRow& row, std::ostream* out) {
    *out << row.selector;
}

class LabelSelectors : public testing::TestWithParam<LabelRow> {};

TEST_P(LabelSelectors, MatchOrRefuse) {
    const json::Value object = {
        {"metadata", {{"labels", {{"app", "etcd"}, {"n", "5"}, {"x.dev/role", "a"}}}}}};
    const auto selector = LabelSelector::parse(GetParam().selector);
    ASSERT_EQ(bool(selector), GetParam().expected >= 0);
    if (selector) {
        EXPECT_EQ(selector.value().matches(object), GetParam().expected == 1);
    } else {
        EXPECT_EQ(selector.error().code, 400);
    }
}

INSTANTIATE_TEST_SUITE_P(Grammar,
                         LabelSelectors,
                         testing::Values(LabelRow{"", 1},
                                         LabelRow{"app=etcd", 1},
                                         LabelRow{"app==etcd", 1},
                                         LabelRow{"app=x", 0},
                                         LabelRow{"app!=x", 1},
                                         LabelRow{"missing!=x", 1},
                                         LabelRow{"app", 1},
                                         LabelRow{"!app", 0},
                                         LabelRow{"!missing", 1},
                                         LabelRow{"app in (a, etcd)", 1},
                                         LabelRow{"app in (a)", 0},
                                         LabelRow{"app notin (a,b)", 1},
                                         LabelRow{"missing notin (a)", 1},
                                         LabelRow{"missing in (a)", 0},
                                         LabelRow{"n>4", 1},
                                         LabelRow{"n<5", 0},
                                         LabelRow{"n > 4,app = etcd", 1},
                                         LabelRow{"app>1", 0},
                                         LabelRow{"x.dev/role=a,!zz", 1},
                                         LabelRow{"app=", 0},
                                         LabelRow{"app in (", -1},
                                         LabelRow{"app in x", -1},
                                         LabelRow{"=x", -1},
                                         LabelRow{"a=b,", -1},
                                         LabelRow{"n>x", -1},
                                         LabelRow{"a b", -1},
                                         LabelRow{"a!b", -1},
                                         LabelRow{"/a", -1},
                                         LabelRow{"a=-x", -1},
                                         LabelRow{"app\t=\tetcd", 1}));

TEST(FieldSelectors, ComparesPathsAndEscapes) {
    const json::Value object = {{"metadata", {{"name", "a,b"}, {"namespace", "n"}}},
                                {"spec", {{"replicas", 3}}},
                                {"status", {{"phase", "Running"}}}};
    const std::vector<std::string> allowed = {"status.phase", "spec.nodeName", "spec.replicas"};
    const auto matches = [&](const char* text) {
        return FieldSelector::parse(text, allowed).value().matches(object);
    };
    EXPECT_TRUE(matches(R"(metadata.name=a\,b)"));
    EXPECT_TRUE(matches("metadata.namespace=n,status.phase!=Failed"));
    EXPECT_TRUE(matches("spec.nodeName="));
    EXPECT_TRUE(matches("spec.replicas=3"));
    EXPECT_FALSE(matches("status.phase==Failed"));
    EXPECT_EQ(FieldSelector::parse("spec.other=x", allowed).error().message,
              "field label not supported: spec.other");
    EXPECT_FALSE(FieldSelector::parse("nonsense", allowed));
    EXPECT_EQ(FieldSelector::parse("metadata.name=x", {}).value().exact_name(), "x");
}

struct UrlRow {
    const char* name;
    const char* method;
    const char* target;
    int code;              // 0: parsed
    const char* expected;  // "verb group version ns resource name subresource", '-' for empty
};
void PrintTo(const UrlRow& row, std::ostream* out) {
    *out << row.name;
}

class Urls : public testing::TestWithParam<UrlRow> {};

TEST_P(Urls, AreTakenApart) {
    const UrlRow& row = GetParam();
    const auto info = parse_request(row.method, row.target);
    ASSERT_EQ(bool(info), row.code == 0);
    if (!info) {
        EXPECT_EQ(info.error().code, row.code);
        return;
    }
    std::string found;
    const RequestInfo& at = info.value();
    for (const std::string* part :
         {&at.verb, &at.group, &at.version, &at.ns, &at.resource, &at.name, &at.subresource}) {
        found += (found.empty() ? "" : " ") + (part->empty() ? std::string("-") : *part);
    }
    EXPECT_EQ(found, row.expected);
}

INSTANTIATE_TEST_SUITE_P(
    Grammar,
    Urls,
    testing::Values(
        UrlRow{"core_list", "GET", "/api/v1/pods", 0, "list - v1 - pods - -"},
        UrlRow{"namespaced_get", "GET", "/api/v1/namespaces/n/pods/p", 0, "get - v1 n pods p -"},
        UrlRow{"group_status",
               "PATCH",
               "/apis/a.b/v1/namespaces/n/xs/x/status",
               0,
               "patch a.b v1 n xs x status"},
        UrlRow{"watch_flag", "GET", "/apis/a.b/v1/xs?watch=1", 0, "watch a.b v1 - xs - -"},
        UrlRow{
            "watch_prefix", "GET", "/api/v1/watch/namespaces/n/pods", 0, "watch - v1 n pods - -"},
        UrlRow{"namespace_itself",
               "DELETE",
               "/api/v1/namespaces/n",
               0,
               "delete - v1 n namespaces n -"},
        UrlRow{"namespace_status",
               "PUT",
               "/api/v1/namespaces/n/status",
               0,
               "update - v1 n namespaces n status"},
        UrlRow{"namespaces", "POST", "/api/v1/namespaces", 0, "create - v1 - namespaces - -"},
        UrlRow{"delete_collection",
               "DELETE",
               "/api/v1/namespaces/n/pods",
               0,
               "deletecollection - v1 n pods - -"},
        UrlRow{"not_a_resource", "GET", "/version", 0, "- - - - - - -"},
        UrlRow{"dot_segment", "GET", "/api/v1/namespaces/n/pods/..", 400, ""},
        UrlRow{"escaped_slash", "GET", "/api/v1/namespaces/n/pods/a%2Fb", 400, ""},
        UrlRow{"bad_escape", "GET", "/api/v1/pods/%zz", 400, ""},
        UrlRow{"no_utf_8", "GET", "/api/v1/pods/%da3", 400, ""},
        UrlRow{"no_utf_8_in_the_query", "GET", "/api/v1/pods?fieldManager=\xff", 400, ""},
        UrlRow{"too_long", "GET", "/api/v1/namespaces/n/pods/p/log/x", 404, ""},
        UrlRow{"strange_method", "BREW", "/api/v1/pods", 405, ""}),
    [](const testing::TestParamInfo<UrlRow>& row) { return std::string(row.param.name); });

}  // namespace
}  // namespace capstan::local
