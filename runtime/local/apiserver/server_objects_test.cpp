// Create, read, update, patch, apply, scale: what a client sees of one object's life.
#include "runtime/local/apiserver/testing_server.hpp"

namespace capstan::local {
namespace {

using namespace testing_server;

TEST(ServerCreate, FillsMetadataAndAnswersTheStoredObject) {
    TestServer server;
    const Reply made = server.make_map("a", R"({"app":"x"})", R"({"k":"v"})");
    EXPECT_EQ(made.status, 201);
    EXPECT_EQ(made.text("/apiVersion"), "v1");
    EXPECT_EQ(made.text("/kind"), "ConfigMap");
    EXPECT_EQ(made.text("/metadata/namespace"), "default");
    EXPECT_EQ(made.text("/metadata/creationTimestamp"), "2026-01-01T01:00:00Z");
    EXPECT_EQ(made.text("/metadata/uid").size(), 36u);
    EXPECT_EQ(made.text("/metadata/generation"), "<absent>");
    EXPECT_EQ(made.text("/metadata/managedFields/0/manager"), "tester");
    EXPECT_EQ(made.text("/metadata/managedFields/0/operation"), "Update");
    EXPECT_EQ(server.get(std::string(kMaps) + "/a").body, made.body);
    EXPECT_EQ(server.make_map("a").reason(), "AlreadyExists");
}

struct Refusal {
    const char* name;
    const char* method;
    const char* target;
    const char* body;
    const char* type;
    int code;
    const char* reason;
};
void PrintTo(const Refusal& row, std::ostream* out) {
    *out << row.name;
}

class ServerRefuses : public testing::TestWithParam<Refusal> {};

TEST_P(ServerRefuses, WithCodeAndReason) {
    TestServer server;
    server.post(kCrds, widget_crd());
    server.make_map("a");
    const Refusal& row = GetParam();
    const Reply reply = server.call(server.request(row.method, row.target, row.body, row.type));
    EXPECT_EQ(reply.status, row.code) << reply.raw.body;
    EXPECT_EQ(reply.reason(), row.reason);
    EXPECT_EQ(reply.text("/kind"), "Status");
    EXPECT_EQ(reply.text("/status"), "Failure");
    EXPECT_EQ(reply.text("/code"), std::to_string(row.code));
}

constexpr const char* kMapA = "/api/v1/namespaces/default/configmaps/a";
INSTANTIATE_TEST_SUITE_P(
    Requests,
    ServerRefuses,
    testing::Values(
        Refusal{"absent_object",
                "GET",
                "/api/v1/namespaces/default/configmaps/zz",
                "",
                "",
                404,
                "NotFound"},
        Refusal{"absent_resource", "GET", "/api/v1/frobs", "", "", 404, "NotFound"},
        Refusal{"absent_group", "GET", "/apis/nope.dev/v1/xs", "", "", 404, "NotFound"},
        Refusal{"absent_namespace",
                "POST",
                "/api/v1/namespaces/zz/configmaps",
                R"({"metadata":{"name":"a"}})",
                "",
                404,
                "NotFound"},
        Refusal{"no_name", "POST", kMaps, R"({"metadata":{}})", "", 422, "Invalid"},
        Refusal{"bad_name", "POST", kMaps, R"({"metadata":{"name":"A_b"}})", "", 422, "Invalid"},
        Refusal{"bad_label",
                "POST",
                kMaps,
                R"({"metadata":{"name":"b","labels":{"a":"-x"}}})",
                "",
                422,
                "Invalid"},
        Refusal{"other_kind",
                "POST",
                kMaps,
                R"({"kind":"Secret","metadata":{"name":"b"}})",
                "",
                400,
                "BadRequest"},
        Refusal{"other_namespace",
                "POST",
                kMaps,
                R"({"metadata":{"name":"b","namespace":"x"}})",
                "",
                400,
                "BadRequest"},
        Refusal{"version_on_create",
                "POST",
                kMaps,
                R"({"metadata":{"name":"b","resourceVersion":"1"}})",
                "",
                400,
                "BadRequest"},
        Refusal{"not_json", "POST", kMaps, "{", "", 400, "BadRequest"},
        Refusal{"protobuf",
                "POST",
                kMaps,
                "k8s",
                "application/vnd.kubernetes.protobuf",
                415,
                "UnsupportedMediaType"},
        Refusal{"post_to_item", "POST", kMapA, "{}", "", 405, "MethodNotAllowed"},
        Refusal{"stale_put",
                "PUT",
                kMapA,
                R"({"metadata":{"name":"a","resourceVersion":"1"}})",
                "",
                409,
                "Conflict"},
        Refusal{"other_uid",
                "PUT",
                kMapA,
                R"({"metadata":{"name":"a","uid":"x"}})",
                "",
                409,
                "Conflict"},
        Refusal{"other_name", "PUT", kMapA, R"({"metadata":{"name":"b"}})", "", 400, "BadRequest"},
        Refusal{"put_absent",
                "PUT",
                "/api/v1/namespaces/default/configmaps/zz",
                R"({"metadata":{"name":"zz"}})",
                "",
                404,
                "NotFound"},
        Refusal{"failed_test",
                "PATCH",
                kMapA,
                R"([{"op":"test","path":"/kind","value":"x"}])",
                kJsonPatch,
                422,
                "Invalid"},
        Refusal{"plain_patch_type",
                "PATCH",
                kMapA,
                "{}",
                "application/json",
                415,
                "UnsupportedMediaType"},
        Refusal{"strategic_on_custom",
                "PATCH",
                "/apis/x.dev/v1/namespaces/default/widgets/w",
                "{}",
                kStrategic,
                415,
                "UnsupportedMediaType"},
        Refusal{"apply_without_manager",
                "PATCH",
                kMapA,
                R"({"apiVersion":"v1","kind":"ConfigMap"})",
                kApply,
                422,
                "Invalid"},
        Refusal{"two_controllers",
                "POST",
                kMaps,
                R"({"metadata":{"name":"b","ownerReferences":[
                   {"apiVersion":"v1","kind":"X","name":"x","uid":"1","controller":true},
                   {"apiVersion":"v1","kind":"X","name":"y","uid":"2","controller":true}]}})",
                "",
                422,
                "Invalid"},
        Refusal{"malformed_finalizer",
                "POST",
                kMaps,
                R"({"metadata":{"name":"b","finalizers":["not mine"]}})",
                "",
                422,
                "Invalid"},
        Refusal{"enum",
                "POST",
                kWidgets,
                R"({"metadata":{"name":"w"},"spec":{"size":"huge"}})",
                "",
                422,
                "Invalid"},
        Refusal{"minimum",
                "POST",
                kWidgets,
                R"({"metadata":{"name":"w"},"spec":{"replicas":-1}})",
                "",
                422,
                "Invalid"},
        Refusal{"strict_unknown_field",
                "POST",
                "/apis/x.dev/v1/namespaces/default/widgets?fieldValidation=Strict",
                R"({"metadata":{"name":"w"},"spec":{"frob":1}})",
                "",
                400,
                "BadRequest"},
        Refusal{"bad_dry_run",
                "POST",
                "/api/v1/namespaces/default/configmaps?dryRun=x",
                "{}",
                "",
                422,
                "Invalid"}),
    [](const testing::TestParamInfo<Refusal>& row) { return std::string(row.param.name); });

TEST(ServerCreate, GenerateNameAddsFiveCharacters) {
    TestServer server;
    const Reply made = server.post(kMaps, R"({"metadata":{"generateName":"run-"}})");
    EXPECT_EQ(made.status, 201);
    EXPECT_EQ(made.text("/metadata/name").size(), 9u);
    EXPECT_TRUE(made.text("/metadata/name").starts_with("run-"));
}

TEST(ServerCreate, RefusesMetadataOfAnotherKind) {
    TestServer server;
    for (const char* metadata : {R"("finalizers":"x")",
                                 R"("ownerReferences":{"a":1})",
                                 R"("ownerReferences":"x")",
                                 R"("generateName":5)",
                                 R"("labels":[])"}) {
        const std::string body =
            R"({"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a",)" +
            std::string(metadata) + "}}";
        EXPECT_EQ(server.post(kMaps, body).status, 400) << metadata;
    }
}

TEST(ServerWrites, DryRunChangesNothing) {
    TestServer server;
    const std::uint64_t before = server.server->revision();
    EXPECT_EQ(server
                  .post("/api/v1/namespaces/default/configmaps?dryRun=All",
                        R"({"metadata":{"name":"a"}})")
                  .status,
              201);
    EXPECT_EQ(server.get(kMapA).status, 404);
    EXPECT_EQ(server.server->revision(), before);
}

TEST(ServerWrites, WhatChangesNothingKeepsTheVersion) {
    TestServer server;
    Reply made = server.make_map("a", "{}", R"({"k":"v"})");
    server.clock.advance(std::chrono::seconds(5));
    EXPECT_EQ(server.put(kMapA, json::dump(made.body)).version(), made.version());
    EXPECT_EQ(server.patch(kMapA, R"({"data":{"k":"v"}})").version(), made.version());
    EXPECT_NE(server.patch(kMapA, R"({"data":{"k":"w"}})").version(), made.version());
}

TEST(ServerCreate, JobsGetTheirSelector) {
    TestServer server;
    const Reply made =
        server.post("/apis/batch/v1/namespaces/default/jobs", R"({"metadata":{"name":"j"},"spec":{
        "template":{"spec":{"restartPolicy":"Never","containers":[{"name":"c","image":"i"}]}}}})");
    ASSERT_EQ(made.status, 201) << made.raw.body;
    EXPECT_EQ(made.text("/spec/selector/matchLabels/batch.kubernetes.io~1controller-uid"),
              made.text("/metadata/uid"));
    EXPECT_EQ(made.text("/spec/template/metadata/labels/job-name"), "j");
    EXPECT_EQ(json::dump(*made.body.pointer("/metadata/managedFields")).find("f:selector"),
              std::string::npos)
        << "nobody owns what the server made";
}

TEST(ServerWrites, StrategicPatchMergesContainersByName) {
    TestServer server;
    server.post(
        "/api/v1/namespaces/default/pods",
        R"({"metadata":{"name":"p"},"spec":{"containers":[{"name":"a","image":"1"},{"name":"b","image":"1"}]}})");
    const Reply patched = server.patch("/api/v1/namespaces/default/pods/p",
                                       R"({"spec":{"containers":[{"name":"b","image":"2"}]}})",
                                       kStrategic);
    EXPECT_EQ(patched.status, 200) << patched.raw.body;
    EXPECT_EQ(patched.text("/spec/containers/0/image"), "1");
    EXPECT_EQ(patched.text("/spec/containers/1/image"), "2");
}

class Custom : public testing::Test {
protected:
    Custom() {
        const Reply crd = server.post(kCrds, widget_crd());
        EXPECT_EQ(crd.status, 201) << crd.raw.body;
    }
    TestServer server;
    const std::string w = std::string(kWidgets) + "/w";
};

TEST_F(Custom, DefinitionIsEstablishedAtOnce) {
    const Reply crd = server.get(std::string(kCrds) + "/widgets.x.dev");
    EXPECT_EQ(crd.text("/status/conditions/0/type"), "NamesAccepted");
    EXPECT_EQ(crd.text("/status/conditions/1/type"), "Established");
    EXPECT_EQ(crd.text("/status/conditions/1/status"), "True");
    EXPECT_EQ(crd.text("/status/storedVersions"), R"(["v1"])");
    EXPECT_EQ(crd.text("/spec/names/listKind"), "WidgetList");
}

TEST_F(Custom, DefaultsPrunesAndWarns) {
    const Reply made = server.post(
        kWidgets, R"({"metadata":{"name":"w"},"spec":{"frob":1},"status":{"phase":"x"}})");
    EXPECT_EQ(made.status, 201) << made.raw.body;
    EXPECT_EQ(made.text("/spec"), R"({"replicas":1})");
    EXPECT_EQ(made.text("/status"), "<absent>");
    EXPECT_EQ(made.text("/metadata/generation"), "1");
    ASSERT_EQ(made.raw.headers.size(), 1u);
    EXPECT_EQ(made.raw.headers[0].second, R"(299 - "unknown field \"spec.frob\"")");
}

TEST_F(Custom, StatusAndSpecAreWrittenApart) {
    server.post(kWidgets, R"({"metadata":{"name":"w"},"spec":{"replicas":2}})");
    const Reply status =
        server.patch(w + "/status", R"({"spec":{"replicas":9},"status":{"phase":"Up"},
        "metadata":{"labels":{"x":"y"}}})");
    EXPECT_EQ(status.text("/spec/replicas"), "2");
    EXPECT_EQ(status.text("/status/phase"), "Up");
    EXPECT_EQ(status.text("/metadata/labels"), "<absent>");
    EXPECT_EQ(status.text("/metadata/generation"), "1");
    EXPECT_EQ(status.text("/metadata/managedFields/1/subresource"), "status");
    const Reply main = server.patch(w, R"({"spec":{"replicas":3},"status":{"phase":"Down"}})");
    EXPECT_EQ(main.text("/status/phase"), "Up");
    EXPECT_EQ(main.text("/metadata/generation"), "2");
    EXPECT_EQ(server.patch(w, R"({"metadata":{"labels":{"a":"b"}}})").text("/metadata/generation"),
              "2");
}

TEST_F(Custom, UpdateNeedsAVersion) {
    server.post(kWidgets, R"({"metadata":{"name":"w"}})");
    const Reply put = server.put(w, R"({"metadata":{"name":"w"},"spec":{"replicas":3}})");
    EXPECT_EQ(put.status, 422);
    EXPECT_EQ(put.text("/details/causes/0/field"), "metadata.resourceVersion");
}

TEST_F(Custom, OtherServedVersionShowsTheSameObject) {
    server.post(kWidgets, R"({"metadata":{"name":"w"},"spec":{"replicas":2}})");
    const std::string beta = "/apis/x.dev/v1beta1/namespaces/default/widgets";
    const Reply shown = server.get(beta + "/w");
    EXPECT_EQ(shown.text("/apiVersion"), "x.dev/v1beta1");
    EXPECT_EQ(shown.text("/spec/replicas"), "2");
    EXPECT_EQ(server.patch(beta + "/w", R"({"spec":{"replicas":4}})").text("/apiVersion"),
              "x.dev/v1beta1");
    EXPECT_EQ(server.get(w).text("/spec/replicas"), "4");
    EXPECT_EQ(server.get(w).text("/apiVersion"), "x.dev/v1");
}

TEST_F(Custom, ScaleReadsAndWritesReplicas) {
    server.post(kWidgets, R"({"metadata":{"name":"w"},"spec":{"replicas":2}})");
    server.patch(w + "/status", R"({"status":{"replicas":2,"selector":"app=w"}})");
    const Reply scale = server.get(w + "/scale");
    EXPECT_EQ(scale.text("/kind"), "Scale");
    EXPECT_EQ(scale.text("/spec/replicas"), "2");
    EXPECT_EQ(scale.text("/status/selector"), "app=w");
    EXPECT_EQ(server.patch(w + "/scale", R"({"spec":{"replicas":5}})").text("/spec/replicas"), "5");
    EXPECT_EQ(server.get(w).text("/metadata/generation"), "2");
    EXPECT_EQ(server.patch(w + "/scale", R"({"spec":{"replicas":-1}})").status, 422);
}

TEST_F(Custom, ScaleOfAnObjectWithoutSpecMakesIt) {
    server.post(kWidgets, R"({"metadata":{"name":"w"},"spec":{"replicas":2}})");
    server.patch(w, R"({"spec":null})");
    const Reply absent = server.get(w + "/scale");
    EXPECT_EQ(absent.status, 500);
    EXPECT_NE(absent.message().find("\".spec.replicas\" does not exist"), std::string::npos);
    EXPECT_EQ(server.patch(w + "/scale", R"({"spec":{}})").status, 400);
    EXPECT_EQ(server.patch(w + "/scale", R"({"spec":{"replicas":5}})").text("/spec/replicas"), "5");
    EXPECT_EQ(server.get(w).text("/spec/replicas"), "5");
    EXPECT_EQ(server.get(w + "/scale").text("/spec/replicas"), "5");
}

TEST_F(Custom, APatchWithAnOldVersionIsAConflictWhateverElseIsWrong) {
    const Reply made = server.post(kWidgets, R"({"metadata":{"name":"w"},"spec":{"replicas":2}})");
    server.patch(w, R"({"spec":{"replicas":3}})");
    const std::string old = R"({"metadata":{"uid":"x","resourceVersion":")" + made.version();
    EXPECT_EQ(server.patch(w, old + "\"}}").status, 409);
    EXPECT_EQ(server.patch(w, R"({"metadata":{"uid":"x"}})").status, 422);
}

TEST_F(Custom, UnknownFieldsAreRefusedByApplyAndByStrictPatches) {
    server.post(kWidgets, R"({"metadata":{"name":"w"},"spec":{"replicas":2}})");
    const char* const frob = R"({"apiVersion":"x.dev/v1","kind":"Widget","spec":{"frob":1}})";
    EXPECT_EQ(server.patch(w + "?fieldValidation=Strict", frob).status, 422);
    EXPECT_EQ(server.patch(w + "?fieldValidation=Ignore", frob).status, 200);
    EXPECT_EQ(server.patch(w + "?fieldValidation=Ignore&fieldManager=m", frob, kApply).status, 500);
}

TEST_F(Custom, AStatusWithASpecOfOtherTypesForgetsTheManagers) {
    const Reply made = server.post(kWidgets, R"({"metadata":{"name":"w"},"spec":{"replicas":2}})");
    EXPECT_NE(made.text("/metadata/managedFields"), "<absent>");
    const Reply put = server.patch(w + "/status", R"({"spec":{"replicas":"x"},"status":{}})");
    EXPECT_EQ(put.status, 200) << put.raw.body;
    EXPECT_EQ(put.text("/spec/replicas"), "2");
    EXPECT_EQ(put.text("/metadata/managedFields"), "<absent>");
}

TEST_F(Custom, ApplyCreatesMergesConflictsAndIsQuietWhenNothingChanges) {
    const auto apply = [&](std::string_view query, std::string_view spec) {
        return server.patch(
            w + "?" + std::string(query),
            R"({"apiVersion":"x.dev/v1","kind":"Widget","metadata":{"name":"w"},"spec":)" +
                std::string(spec) + "}",
            kApply);
    };
    const Reply made =
        apply("fieldManager=one", R"({"size":"small","ports":[{"name":"a","port":1}]})");
    EXPECT_EQ(made.status, 201) << made.raw.body;
    EXPECT_EQ(made.text("/spec/replicas"), "1");
    EXPECT_EQ(made.text("/metadata/managedFields/0/operation"), "Apply");
    server.clock.advance(std::chrono::seconds(90));
    EXPECT_EQ(
        apply("fieldManager=one", R"({"size":"small","ports":[{"name":"a","port":1}]})").version(),
        made.version());
    const Reply conflict = apply("fieldManager=two", R"({"size":"large"})");
    EXPECT_EQ(conflict.status, 409);
    EXPECT_EQ(conflict.text("/details/causes/0/reason"), "FieldManagerConflict");
    EXPECT_EQ(conflict.text("/details/causes/0/field"), ".spec.size");
    const Reply forced =
        apply("fieldManager=two&force=true", R"({"size":"large","ports":[{"name":"b","port":2}]})");
    EXPECT_EQ(forced.status, 200);
    EXPECT_EQ(forced.text("/spec/ports"), R"([{"name":"a","port":1},{"name":"b","port":2}])");
    EXPECT_EQ(apply("fieldManager=one", "{}").text("/spec/ports"), R"([{"name":"b","port":2}])");
    EXPECT_EQ(apply("fieldManager=one", R"({"frob":1})").status, 500);
}

TEST_F(Custom, ApplyToStatusOwnsStatusOnly) {
    server.post(kWidgets, R"({"metadata":{"name":"w"}})");
    const Reply applied = server.patch(
        w + "/status?fieldManager=s",
        R"({"apiVersion":"x.dev/v1","kind":"Widget","metadata":{"name":"w"},"status":{"phase":"Up"}})",
        kApply);
    EXPECT_EQ(applied.status, 200) << applied.raw.body;
    EXPECT_EQ(applied.text("/status/phase"), "Up");
    EXPECT_EQ(applied.text("/metadata/managedFields/0/fieldsV1"), R"({"f:status":{"f:phase":{}}})");
    EXPECT_EQ(applied.text("/metadata/managedFields/0/subresource"), "status");
}

TEST_F(Custom, DeletingTheDefinitionTakesItsObjects) {
    server.post(kWidgets, R"({"metadata":{"name":"w"}})");
    server.post(kWidgets, R"({"metadata":{"name":"held","finalizers":["x.dev/hold"]}})");
    server.del(std::string(kCrds) + "/widgets.x.dev");
    server.server->tick();
    EXPECT_EQ(server.get(w).status, 404);
    EXPECT_EQ(server.post(kWidgets, R"({"metadata":{"name":"late"}})").status, 405);
    EXPECT_EQ(server.get(std::string(kWidgets) + "/held").status, 200);
    server.patch(std::string(kWidgets) + "/held", R"({"metadata":{"finalizers":null}})");
    server.server->tick();
    EXPECT_EQ(server.get(std::string(kCrds) + "/widgets.x.dev").status, 404);
    EXPECT_EQ(server.get(kWidgets).message(), "the server could not find the requested resource");
}

TEST_F(Custom, RefusesADefinitionThatDoesNotFit) {
    const Reply bad = server.post(
        kCrds, R"({"metadata":{"name":"wrong"},"spec":{"group":"x.dev","scope":"Namespaced",
        "names":{"plural":"gadgets","kind":"Gadget"},"versions":[{"name":"v1","served":true,"storage":false}]}})");
    EXPECT_EQ(bad.status, 422);
    EXPECT_NE(bad.message().find("metadata.name"), std::string::npos);
    EXPECT_NE(bad.message().find("spec.versions[0].schema.openAPIV3Schema"), std::string::npos);
    EXPECT_NE(bad.message().find("storage version"), std::string::npos);
}

TEST(ServerEvents, AreOneKindUnderTwoGroups) {
    TestServer server;
    server.post(
        "/apis/events.k8s.io/v1/namespaces/default/events",
        R"({"metadata":{"name":"e"},"regarding":{"kind":"Pod","name":"p","namespace":"default"},"note":"hi",
                   "reason":"R","type":"Normal","action":"A","eventTime":"2026-01-01T00:00:00.000000Z",
                   "reportingController":"c","reportingInstance":"i"})");
    const Reply core =
        server.get("/api/v1/namespaces/default/events?fieldSelector=involvedObject.name%3Dp");
    ASSERT_EQ(core.view()["items"].array().size(), 1u) << core.raw.body;
    EXPECT_EQ(core.text("/items/0/message"), "hi");
    EXPECT_EQ(core.text("/items/0/reportingComponent"), "c");
    const Reply other = server.get(
        "/apis/events.k8s.io/v1/namespaces/default/events?fieldSelector=regarding.name%3Dp");
    EXPECT_EQ(other.text("/items/0/note"), "hi") << other.raw.body;
}

}  // namespace
}  // namespace capstan::local
