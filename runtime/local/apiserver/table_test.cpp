#include "runtime/local/apiserver/table.hpp"

#include <gtest/gtest.h>

namespace capstan::local {
namespace {

using namespace std::chrono_literals;

json::Value parse(const std::string& text) {
    auto value = json::parse(text);
    EXPECT_TRUE(value.has_value()) << text << ": " << value.error().message;
    return value ? std::move(value).value() : json::Value();
}

const WallTime kNow = *parse_rfc3339("2026-01-02T03:04:05Z");

struct AgeRow {
    std::chrono::seconds age;
    const char* text;
};
class Age : public testing::TestWithParam<AgeRow> {};
TEST_P(Age, ReadsAsKubectls) {
    EXPECT_EQ(age_text(GetParam().age), GetParam().text);
}
INSTANTIATE_TEST_SUITE_P(Rows,
                         Age,
                         testing::Values(AgeRow{-5s, "<invalid>"},
                                         AgeRow{-1s, "0s"},
                                         AgeRow{0s, "0s"},
                                         AgeRow{119s, "119s"},
                                         AgeRow{120s, "2m"},
                                         AgeRow{192s, "3m12s"},
                                         AgeRow{10min, "10m"},
                                         AgeRow{179min, "179m"},
                                         AgeRow{3h, "3h"},
                                         AgeRow{3h + 5min, "3h5m"},
                                         AgeRow{8h + 5min, "8h"},
                                         AgeRow{47h, "47h"},
                                         AgeRow{51h, "2d3h"},
                                         AgeRow{24h * 9, "9d"},
                                         AgeRow{24h * 365 * 3 + 24h, "3y1d"}));

struct PathRow {
    const char* name;
    const char* path;
    const char* expect;  // JSON, "" for nothing there, "error"
};
class JsonPath : public testing::TestWithParam<PathRow> {};
TEST_P(JsonPath, FindsTheFirst) {
    const json::Value root = parse(R"({
        "a":{"b":1,"x.y":"dot"},
        "list":[{"type":"A","n":1,"s":"one"},{"type":"B","n":2,"s":"two"},{"type":"B","n":3}]})");
    const auto found = json_path_first(root, GetParam().path);
    const std::string text = !found                     ? "error"
                             : found.value() == nullptr ? ""
                                                        : json::dump(*found.value());
    EXPECT_EQ(text, GetParam().expect) << (found ? "" : found.error().message);
}
INSTANTIATE_TEST_SUITE_P(
    Rows,
    JsonPath,
    testing::Values(PathRow{"member", ".a.b", "1"},
                    PathRow{"braces", "{.a.b}", "1"},
                    PathRow{"absent", ".a.c", ""},
                    PathRow{"quoted", ".a['x.y']", R"("dot")"},
                    PathRow{"escaped", ".a.x\\.y", R"("dot")"},
                    PathRow{"index", ".list[1].s", R"("two")"},
                    PathRow{"from_end", ".list[-1].n", "3"},
                    PathRow{"slice_from_end", ".list[-1:].n", "3"},
                    PathRow{"out_of_range", ".list[7].n", ""},
                    PathRow{"all", ".list[*].s", R"("one")"},
                    PathRow{"filter", ".list[?(@.type==\"B\")].n", "2"},
                    PathRow{"filter_single_quotes", ".list[?(@.type=='B')].n", "2"},
                    PathRow{"filter_spaces", ".list[?(@.type == \"B\")].n", "2"},
                    PathRow{"filter_not", ".list[?(@.type!=\"A\")].n", "2"},
                    PathRow{"filter_number", ".list[?(@.n>2)].type", R"("B")"},
                    PathRow{"filter_exists", ".list[?(@.s)].s", R"("one")"},
                    PathRow{"filter_none", ".list[?(@.type==\"C\")].n", ""},
                    PathRow{"recursive", "..b", "error"},
                    PathRow{"slice", ".list[0:2].s", R"("one")"},
                    PathRow{"open_bracket", ".list[", "error"},
                    PathRow{"open_filter", ".list[?(@.a==", "error"},
                    PathRow{"no_dot", "a.b", "error"}),
    [](const auto& param) { return param.param.name; });

struct TableRow {
    const char* name;
    const char* gvk;
    const char* object;
    const char* cells;  // JSON
};
class BuiltinTable : public testing::TestWithParam<TableRow> {};
TEST_P(BuiltinTable, ShowsWhatKubectlShows) {
    const json::Value table = to_table(GroupVersionKind::parse(GetParam().gvk).value(),
                                       parse(GetParam().object),
                                       nullptr,
                                       IncludeObject::none,
                                       kNow);
    EXPECT_EQ(json::dump(*table.pointer("/rows/0/cells")), GetParam().cells);
    EXPECT_EQ(table.pointer("/rows/0/cells")->if_array()->size(),
              table.find("columnDefinitions")->if_array()->size());
}

#define META R"("metadata":{"name":"x","creationTimestamp":"2026-01-02T03:03:55Z"})"
INSTANTIATE_TEST_SUITE_P(
    Rows,
    BuiltinTable,
    testing::Values(
        TableRow{
            "pod_running",
            "v1/Pod",
            "{" META
            R"(,"spec":{"containers":[{},{}],"nodeName":"n"},"status":{"phase":"Running","podIP":"127.1.0.1","containerStatuses":[{"ready":true,"restartCount":2,"state":{"running":{}},"lastState":{"terminated":{"finishedAt":"2026-01-02T03:03:05Z"}}},{"ready":false,"state":{"running":{}}}]}})",
            R"~(["x","1/2","Running","2 (60s ago)","10s","127.1.0.1","n","<none>","<none>"])~"},
        TableRow{
            "pod_crash_loop",
            "v1/Pod",
            "{" META
            R"(,"spec":{"containers":[{}]},"status":{"phase":"Running","containerStatuses":[{"restartCount":1,"state":{"waiting":{"reason":"CrashLoopBackOff"}}}]}})",
            R"(["x","0/1","CrashLoopBackOff","1","10s","<none>","<none>","<none>","<none>"])"},
        TableRow{
            "pod_exit_code",
            "v1/Pod",
            "{" META
            R"(,"spec":{"containers":[{}]},"status":{"phase":"Failed","containerStatuses":[{"state":{"terminated":{"exitCode":3}}}]}})",
            R"(["x","0/1","ExitCode:3","0","10s","<none>","<none>","<none>","<none>"])"},
        TableRow{
            "pod_init",
            "v1/Pod",
            "{" META
            R"(,"spec":{"initContainers":[{}],"containers":[{}]},"status":{"phase":"Pending","initContainerStatuses":[{"state":{"running":{}}}]}})",
            R"(["x","0/1","Init:0/1","0","10s","<none>","<none>","<none>","<none>"])"},
        TableRow{
            "pod_terminating",
            "v1/Pod",
            R"({"metadata":{"name":"x","creationTimestamp":"2026-01-02T03:03:55Z","deletionTimestamp":"2026-01-02T03:04:00Z"},"spec":{"containers":[{}]},"status":{"phase":"Running"}})",
            R"(["x","0/1","Terminating","0","10s","<none>","<none>","<none>","<none>"])"},
        TableRow{
            "stateful_set",
            "apps/v1/StatefulSet",
            "{" META
            R"(,"spec":{"replicas":3,"template":{"spec":{"containers":[{"name":"a","image":"i"},{"name":"b","image":"j"}]}}},"status":{"readyReplicas":2}})",
            R"(["x","2/3","10s","a,b","i,j"])"},
        TableRow{
            "service",
            "v1/Service",
            "{" META
            R"(,"spec":{"type":"ClusterIP","clusterIP":"None","ports":[{"port":2379,"protocol":"TCP"},{"port":2380}],"selector":{"a":"b"}}})",
            R"(["x","ClusterIP","None","<none>","2379/TCP,2380/TCP","10s","a=b"])"},
        TableRow{"config_map",
                 "v1/ConfigMap",
                 "{" META R"(,"data":{"a":"1"},"binaryData":{"b":""}})",
                 R"(["x",2,"10s"])"},
        TableRow{"secret",
                 "v1/Secret",
                 "{" META R"(,"type":"Opaque","data":{"a":"1"}})",
                 R"(["x","Opaque",1,"10s"])"},
        TableRow{"lease",
                 "coordination.k8s.io/v1/Lease",
                 "{" META R"(,"spec":{"holderIdentity":"h"}})",
                 R"(["x","h","10s"])"},
        TableRow{
            "job",
            "batch/v1/Job",
            "{" META
            R"(,"spec":{"completions":1,"template":{"spec":{"containers":[{"name":"c","image":"i"}]}}},"status":{"succeeded":1,"startTime":"2026-01-02T03:03:55Z","completionTime":"2026-01-02T03:04:00Z","conditions":[{"type":"Complete","status":"True"}]}})",
            R"(["x","Complete","1/1","5s","10s","c","i"])"},
        TableRow{"budget",
                 "policy/v1/PodDisruptionBudget",
                 "{" META R"(,"spec":{"minAvailable":2},"status":{"disruptionsAllowed":1}})",
                 R"(["x","2","N/A",1,"10s"])"},
        TableRow{
            "event",
            "v1/Event",
            "{" META
            R"(,"type":"Normal","reason":"R","message":"m","lastTimestamp":"2026-01-02T03:04:00Z","count":4,"source":{"component":"c"},"involvedObject":{"kind":"Etcd","name":"main"}})",
            R"(["5s","Normal","R","etcd/main","m","c",4,"x"])"},
        TableRow{
            "event_new_group",
            "events.k8s.io/v1/Event",
            "{" META
            R"(,"type":"Normal","reason":"R","note":"m","eventTime":"2026-01-02T03:04:00.000001Z","reportingController":"c","regarding":{"kind":"Etcd","name":"main"}})",
            R"(["4s","Normal","R","etcd/main","m","c",1,"x"])"},
        TableRow{"namespace",
                 "v1/Namespace",
                 "{" META R"(,"status":{"phase":"Active"}})",
                 R"(["x","Active","10s"])"},
        TableRow{"crd",
                 "apiextensions.k8s.io/v1/CustomResourceDefinition",
                 "{" META "}",
                 R"(["x","2026-01-02T03:03:55Z"])"},
        TableRow{"role_binding",
                 "rbac.authorization.k8s.io/v1/RoleBinding",
                 "{" META R"(,"roleRef":{"kind":"Role","name":"r"}})",
                 R"(["x","Role/r","10s"])"},
        TableRow{
            "claim",
            "v1/PersistentVolumeClaim",
            "{" META
            R"(,"spec":{"volumeName":"v","accessModes":["ReadWriteOnce"]},"status":{"phase":"Bound","capacity":{"storage":"1Gi"}}})",
            R"(["x","Bound","v","1Gi","RWO","","10s"])"},
        TableRow{"custom_without_columns", "a.io/v1/Thing", "{" META "}", R"(["x","10s"])"}),
    [](const auto& param) { return param.param.name; });

const char* const kColumns = R"([
    {"name":"Ready","type":"string","jsonPath":".status.ready"},
    {"name":"Quorate","type":"string","jsonPath":".status.conditions[?(@.type==\"Ready\")].status"},
    {"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"},
    {"name":"Size","type":"integer","priority":1,"jsonPath":".spec.replicas"},
    {"name":"On","type":"boolean","jsonPath":".spec.on"},
    {"name":"Bad","type":"string","jsonPath":"..x"}])";

TEST(CustomTable, ShowsPrinterColumns) {
    const json::Value columns = parse(kColumns);
    const json::Value list = parse(R"({"metadata":{"resourceVersion":"7"},"items":[
        {"metadata":{"name":"main","creationTimestamp":"2026-01-02T03:00:05Z"},"spec":{"replicas":3,"on":true},
         "status":{"ready":true,"conditions":[{"type":"X","status":"Unknown"},{"type":"Ready","status":"True"}]}},
        {"metadata":{"name":"new"},"spec":{"replicas":"three"}}]})");
    const json::Value table =
        to_table({"d.io", "v1", "Etcd"}, list, &columns, IncludeObject::metadata, kNow);
    EXPECT_EQ(json::dump(*table.pointer("/rows/0/cells")),
              R"(["main","true","True","4m",3,true,null])");
    EXPECT_EQ(json::dump(*table.pointer("/rows/1/cells")),
              R"(["new",null,null,null,null,null,null])");
    EXPECT_EQ(json::dump(*table.find("metadata")), R"({"resourceVersion":"7"})");
    EXPECT_EQ(*table.pointer("/columnDefinitions/4/priority")->if_int(), 1);
    EXPECT_EQ(*table.pointer("/columnDefinitions/0/format")->if_string(), "name");
    EXPECT_EQ(*table.pointer("/rows/0/object/kind")->if_string(), "PartialObjectMetadata");
    EXPECT_EQ(*table.pointer("/rows/0/object/metadata/name")->if_string(), "main");
}

TEST(CustomTable, IncludesWhatIsAskedFor) {
    const json::Value object =
        parse(R"({"kind":"Etcd","metadata":{"name":"a","resourceVersion":"3"},"spec":{"x":1}})");
    const GroupVersionKind gvk{"d.io", "v1", "Etcd"};
    const auto included = [&](std::string_view word) {
        return json::dump(*to_table(gvk, object, nullptr, parse_include_object(word), kNow)
                               .pointer("/rows/0/object"));
    };
    EXPECT_EQ(included("None"), "null");
    EXPECT_EQ(included("Object"), json::dump(object));
    EXPECT_EQ(included(""), included("Metadata"));
    EXPECT_EQ(
        json::dump(*to_table(gvk, object, nullptr, IncludeObject::none, kNow).find("metadata")),
        R"({"resourceVersion":"3"})");
}

}  // namespace
}  // namespace capstan::local
