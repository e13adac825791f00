#include "runtime/plugin/manifest.hpp"
#include "runtime/plugin/testing_manifest.hpp"

#include <gtest/gtest.h>

#include <string>

namespace capstan::plugin {
namespace {

constexpr std::string_view kManifest = R"({
  "schema": 1, "id": "etcd.example.com", "version": "1.4.0",
  "abi": {"major": 1, "minMinor": 0, "builtMinor": 0},
  "requires": {"extensions": ["capstan.cache/1", "capstan.client/1"], "kubernetes": ">=1.29"},
  "controllers": [{
    "name": "etcd", "maxConcurrent": 10, "deadline": "60s", "sideEffects": "external", "resyncEvery": "10m",
    "watches": [
      {"gvk": "apps/v1/StatefulSet", "role": "owns", "keep": ["/status"], "predicate": {"changed": ["/status/readyReplicas"]}},
      {"gvk": "druid.gardener.cloud/v1alpha1/Etcd", "role": "for", "predicate": {"use": "etcdSpec"}},
      {"gvk": "v1/Secret", "role": "maps", "metadataOnly": true, "ignoreOwnWrites": true,
       "select": {"namespace": {"env": "POD_NAMESPACE"}, "name": "creds", "fields": {"type": {"config": "/type"}}},
       "map": {"refersFrom": {"gvk": "druid.gardener.cloud/v1alpha1/Etcd", "field": "/spec/store/secretRef/name"}}}]}],
  "predicates": {"etcdSpec": {"case":
    {"create": true, "delete": true, "update": {"generationChanged": true}, "else": false}}},
  "featureGates": {"Member": [{"since": "1.3", "stage": "Alpha", "default": false}]},
  "services": [{"name": "heartbeat"}],
  "routes": [{"name": "snapshot", "path": "/snapshot/full", "methods": ["GET", "POST"], "class": "long"}],
  "cli": [{"name": "backup", "summary": "Works on backups."}],
  "permissions": [
    {"groups": ["druid.gardener.cloud"], "resources": ["etcds", "etcds/status"], "verbs": ["get", "list", "watch", "patch"]},
    {"groups": ["apps"], "resources": ["statefulsets"], "verbs": ["get", "list", "watch", "create", "patch", "delete"]},
    {"groups": [""], "resources": ["secrets"], "verbs": ["get", "list", "watch"], "resourceNames": ["creds"]}],
  "grants": [{"groups": [""], "resources": ["pods"], "verbs": ["get"]}],
  "crds": [{"group": "druid.gardener.cloud", "kind": "Etcd", "versions": ["v1alpha1"], "storage": "v1alpha1"}],
  "finalizers": ["druid.gardener.cloud/etcd"], "fieldManager": "capstan-etcd",
  "config": {"schema": {"type": "object"}}, "handover": "none", "isolation": {"minimum": "in-process"},
  "license": "Apache-2.0", "x-note": "kept" })";

TEST(Manifest, ReadsEverything) {
    const Result<Manifest> parsed = parse_manifest(kManifest);
    ASSERT_TRUE(parsed) << parsed.error().message;
    const Manifest& manifest = parsed.value();
    EXPECT_EQ(manifest.id, "etcd.example.com");
    ASSERT_EQ(manifest.controllers.size(), 1U);
    const ControllerSpec& controller = manifest.controllers.front();
    EXPECT_EQ(controller.primary().gvk.kind, "Etcd");  // moved to the front
    EXPECT_EQ(controller.max_concurrent, 10U);
    EXPECT_EQ(controller.resync_every, std::chrono::minutes(10));
    ASSERT_EQ(controller.watches.size(), 3U);
    EXPECT_EQ(controller.watches[1].map.kind, MapRule::Kind::owner);
    EXPECT_EQ(controller.watches[1].keep, std::vector<std::string>{"/status"});
    EXPECT_EQ(controller.watches[2].map.kind, MapRule::Kind::refers_from);
    EXPECT_TRUE(controller.watches[2].ignore_own_writes);
    EXPECT_FALSE(controller.watches[1].ignore_own_writes);
    EXPECT_EQ(controller.watches[2].select.ns->kind, ValueSource::Kind::environment);
    EXPECT_EQ(controller.watches[2].select.fields.front().second.text, "/type");
    EXPECT_TRUE(manifest.routes.front().runs_long);
    EXPECT_TRUE(manifest.allows("patch", "druid.gardener.cloud", "etcds/status"));
    EXPECT_FALSE(manifest.allows("delete", "druid.gardener.cloud", "etcds"));
    EXPECT_TRUE(manifest.allows("get", "", "secrets", "creds"));
    EXPECT_FALSE(manifest.allows("list", "", "secrets"));
}

using Row = ManifestRow;
class RefusedManifest : public testing::TestWithParam<Row> {};

TEST_P(RefusedManifest, SaysWhatAndWhere) {
    expect_refused(kManifest, GetParam());
}

INSTANTIATE_TEST_SUITE_P(
    Rules,
    RefusedManifest,
    testing::Values(
        Row{"bad_json",
            R"("license")",
            "license",
            "the manifest is no valid JSON: offset 2090: Missing a name for object member."},
        Row{"unknown_member",
            R"("fieldManager")",
            R"("feildManager")",
            "/feildManager: unknown member; did you mean \"fieldManager\"?"},
        Row{"wrong_schema",
            R"("schema": 1)",
            R"("schema": 2)",
            "/schema: expected an integer from 1 to 1"},
        Row{"keep_form",
            R"("metadataOnly": true)",
            R"("keep": ["/data/a/b"])",
            "/controllers/0/watches/2/keep: \"/data/a/b\" is not of the form \"/spec\" or "
            "\"/spec/replicas\""},
        Row{"keep_metadata",
            R"("metadataOnly": true)",
            R"("keep": ["/metadata/labels"])",
            "/controllers/0/watches/2/keep: metadata is always kept whole; leave "
            "\"/metadata/labels\" out"},
        Row{"keep_empty",
            R"("metadataOnly": true)",
            R"("keep": [])",
            "/controllers/0/watches/2/keep: is empty; leave it out to keep whole objects, or write "
            "metadataOnly: true"},
        Row{"keep_twice",
            R"("metadataOnly": true)",
            R"("keep": ["/data", "/data"])",
            "/controllers/0/watches/2/keep: \"/data\" is there twice"},
        Row{"keep_overlap",
            R"("metadataOnly": true)",
            R"("keep": ["/spec/replicas", "/data", "/spec"])",
            "/controllers/0/watches/2/keep: \"/spec/replicas\" is inside of \"/spec\"; leave one "
            "of "
            "them out"},
        Row{"keep_and_metadata_only",
            R"("metadataOnly": true)",
            R"("metadataOnly": true, "keep": ["/data"])",
            "/controllers/0/watches/2/keep: and metadataOnly exclude each other"},
        Row{"predicate_beyond_keep",
            R"("keep": ["/status"])",
            R"("keep": ["/spec", "/status/replicas"])",
            "/controllers/0/watches/0/predicate: looks at \"/status/readyReplicas\", which this "
            "watch does not keep"},
        Row{"predicate_beyond_metadata",
            R"("keep": ["/status"])",
            R"("metadataOnly": true)",
            "/controllers/0/watches/0/predicate: looks at \"/status/readyReplicas\", which this "
            "watch does not keep"},
        Row{"reference_beyond_keep",
            R"("role": "for", )",
            R"("role": "for", "keep": ["/spec/etcd"], )",
            "/controllers/0/watches: refersFrom looks at \"/spec/store/secretRef/name\" of "
            "druid.gardener.cloud/v1alpha1/Etcd, which its watch does not keep"},
        Row{"no_id", R"("id": "etcd.example.com", )", "", "/id: missing"},
        Row{"bad_id",
            R"("id": "etcd.example.com")",
            R"("id": "Etcd")",
            "/id: expected a DNS name like \"etcd.example.com\""},
        Row{"abi_major",
            R"("major": 1)",
            R"("major": 2)",
            "/abi/major: the plugin speaks ABI major 2, this host speaks 1.0; rebuild the plugin "
            "with this host's SDK"},
        Row{"abi_minor",
            R"("minMinor": 0, "builtMinor": 0)",
            R"("minMinor": 7, "builtMinor": 7)",
            "/abi/minMinor: the plugin needs ABI 1.7, this host speaks 1.0; use a newer host"},
        Row{"extension",
            "capstan.client/1",
            "capstan.clint/1",
            "/requires/extensions/1: this host has no extension \"capstan.clint/1\"; did you mean "
            "\"capstan.client/1\"?"},
        Row{"draft",
            "capstan.client/1",
            "capstan.draft.raft/1",
            "/requires/extensions/1: \"capstan.draft.raft/1\" is a draft; it needs the gate "
            "DraftExtensions"},
        Row{"watch_without_permission",
            R"("resources": ["statefulsets"], "verbs": ["get", "list", "watch")",
            R"("resources": ["statefulsets"], "verbs": ["get")",
            "/controllers/0/watches: watches apps/v1/StatefulSet without the permission to list, "
            "watch statefulsets of group \"apps\""},
        Row{"named_rule_for_a_wide_watch",
            R"("name": "creds", )",
            "",
            "/controllers/0/watches: watches v1/Secret without the permission to get, list, watch "
            "secrets of group \"\""},
        Row{"no_field_manager",
            R"("fieldManager": "capstan-etcd",)",
            "",
            "/fieldManager: missing; a plugin with the permission to patch applies under a field "
            "manager"},
        Row{"variable_in_field_manager",
            R"("fieldManager": "capstan-etcd")",
            R"("fieldManager": "capstan-$POD_NAME")",
            "/fieldManager: a \"$\" begins a variable, as in \"operator-$(POD_NAME)\""},
        Row{"no_primary",
            R"("role": "for")",
            R"("role": "owns")",
            "/controllers/0/watches: needs exactly one watch with the role \"for\", has 0"},
        Row{"map_missing",
            R"("role": "maps")",
            R"("role": "owns")",
            "/controllers/0/watches/2/map: belongs to a watch with the role \"maps\", and is "
            "needed there"},
        Row{"predicate",
            R"({"generationChanged": true})",
            R"({"generationChange": true})",
            "/predicates/etcdSpec/case/update/generationChange: unknown predicate"},
        Row{"deadline",
            R"("deadline": "60s")",
            R"("deadline": "1h")",
            "/controllers/0/deadline: expected a duration like \"30s\" or \"5m\", from 1s to 900s"},
        Row{"workers",
            R"("maxConcurrent": 10)",
            R"("maxConcurrent": 17)",
            "/controllers/0/maxConcurrent: expected an integer from 1 to 16"},
        Row{"select_value",
            R"({"env": "POD_NAMESPACE"})",
            R"({"environment": "X"})",
            "/controllers/0/watches/2/select/namespace: expected a string, {\"config\": pointer} "
            "or {\"env\": name}"},
        Row{"route_without_path",
            R"("path": "/snapshot/full", )",
            "",
            "/routes/0: needs either \"path\" or \"prefix\""},
        Row{"route_method",
            R"("POST"])",
            R"("FETCH"])",
            "/routes/0/methods: \"FETCH\" is none of GET, HEAD, POST, PUT, PATCH, DELETE"},
        Row{"verb",
            "\"verbs\": [\"get\"]}],\n  \"crds\"",
            "\"verbs\": [\"*\"]}],\n  \"crds\"",
            "/grants/0/verbs: unknown verb \"*\"; a wildcard is not accepted"},
        Row{"resource_is_a_kind",
            R"("resources": ["pods"])",
            R"("resources": ["Pod"])",
            "/grants/0/resources: \"Pod\" is no resource; write plurals in small letters, such as "
            "statefulsets or pods/log"},
        Row{"group_with_version",
            R"("grants": [{"groups": [""])",
            R"("grants": [{"groups": ["apps/v1"])",
            "/grants/0/groups: \"apps/v1\" is no API group; the core group is \"\""},
        Row{"storage",
            R"("storage": "v1alpha1")",
            R"("storage": "v1")",
            "/crds/0/storage: is none of \"versions\""},
        Row{"duplicate_name",
            R"({"name": "heartbeat"})",
            R"({"name": "heartbeat"}, {"name": "heartbeat"})",
            "/services/1/name: \"heartbeat\" is there twice"},
        Row{"process",
            R"({"minimum": "in-process"})",
            R"({"minimum": "process"})",
            "/isolation/minimum: the plugin demands a process of its own, which this host does not "
            "have yet; it runs plugins in its own process only"},
        Row{"finalizer",
            R"("druid.gardener.cloud/etcd")",
            R"("etcd")",
            "/finalizers: \"etcd\" is not of the form \"domain/name\""},
        Row{"gate_stage",
            R"("stage": "Alpha")",
            R"("stage": "alpha")",
            "/featureGates/Member/0/stage: expected Alpha, Beta, GA, Deprecated or Removed"}));

TEST(Manifest, ReportsEveryProblemAtOnce) {
    Problems problems;
    EXPECT_FALSE(parse_manifest(
        R"({"schema": 1, "id": "A", "version": "x", "abi": {"major": 1}, "colour": 1})",
        {},
        problems));
    EXPECT_EQ(problems.lines().size(), 4U);  // id, version, colour, offers nothing
}

TEST(Manifest, GuessesPluralsAsKubectlDoes) {
    EXPECT_EQ(plural_of("StatefulSet"), "statefulsets");
    EXPECT_EQ(plural_of("NetworkPolicy"), "networkpolicies");
    EXPECT_EQ(plural_of("Ingress"), "ingresses");
    EXPECT_EQ(plural_of("Gateway"), "gateways");
    EXPECT_EQ(plural_of("Endpoints"), "endpoints");
}

}  // namespace
}  // namespace capstan::plugin
