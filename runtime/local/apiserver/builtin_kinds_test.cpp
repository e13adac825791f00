#include "runtime/local/apiserver/builtin_kinds.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>

namespace capstan::local {
namespace {

json::Value parse(const std::string& text) {
    auto value = json::parse(text);
    EXPECT_TRUE(value.has_value()) << text << ": " << value.error().message;
    return value ? std::move(value).value() : json::Value();
}

json::Value stored(const std::string& name) {
    const char* dir = std::getenv("CAPSTAN_TEST_DATA");
    std::ifstream file(std::string(dir == nullptr ? "test/data" : dir) + "/stored-objects/" + name +
                       ".json");
    std::stringstream text;
    text << file.rdbuf();
    return parse(text.str());
}

GroupVersionKind gvk_of(const json::Value& object) {
    return GroupVersionKind::from_api_version(json::View(object)["apiVersion"].string_or(""),
                                              json::View(object)["kind"].string_or(""));
}

class StoredObject : public testing::TestWithParam<const char*> {};

TEST_P(StoredObject, HasOurDefaultsAndIsValid) {
    const json::Value real = stored(GetParam());
    const GroupVersionKind gvk = gvk_of(real);
    ASSERT_NE(builtin_kind(gvk), nullptr);
    json::Value ours = real;
    apply_builtin_defaults(gvk, ours);
    if (json::Value* spec = ours.find("spec"); spec != nullptr && gvk.kind == "Service") {
        spec->erase("clusterIPs");  // normalised away in the recording
    }
    EXPECT_EQ(json::dump_sorted(ours), json::dump_sorted(real));
    EXPECT_EQ(join_field_errors(validate_builtin(gvk, ours)), "[]");
    EXPECT_EQ(join_field_errors(validate_builtin_update(gvk, real, ours)), "[]");
}

INSTANTIATE_TEST_SUITE_P(Real,
                         StoredObject,
                         testing::Values("configmap-config",
                                         "lease-0",
                                         "poddisruptionbudget",
                                         "role",
                                         "rolebinding",
                                         "service-client",
                                         "service-peer",
                                         "serviceaccount",
                                         "statefulset"));

// Fields the server filled in: without them, our defaults must bring back the same object.
TEST(BuiltinDefaults, RestoreWhatTheRealServerFilledIn) {
    const json::Value real = stored("statefulset");
    json::Value ours = real;
    json::Value& spec = *ours.find("spec");
    for (const char* field : {"revisionHistoryLimit", "persistentVolumeClaimRetentionPolicy"}) {
        EXPECT_TRUE(spec.erase(field));
    }
    json::Value& pod = *spec.pointer("/template/spec");
    for (const char* field : {"dnsPolicy",
                              "restartPolicy",
                              "schedulerName",
                              "serviceAccount",
                              "terminationGracePeriodSeconds"}) {
        EXPECT_TRUE(pod.erase(field)) << field;
    }
    for (json::Value& container : *pod.find("containers")->if_array()) {
        for (const char* field :
             {"terminationMessagePath", "terminationMessagePolicy", "imagePullPolicy"}) {
            EXPECT_TRUE(container.erase(field)) << field;
        }
        for (json::Value& port : *container.find("ports")->if_array()) {
            EXPECT_TRUE(port.erase("protocol"));
        }
    }
    for (const char* field : {"scheme"}) {
        EXPECT_TRUE(pod.pointer("/containers/0/readinessProbe/httpGet")->erase(field));
    }
    for (const char* field : {"successThreshold", "timeoutSeconds"}) {
        EXPECT_TRUE(pod.pointer("/containers/0/readinessProbe")->erase(field));
    }
    EXPECT_TRUE(pod.pointer("/containers/1/env/0/valueFrom/fieldRef")->erase("apiVersion"));
    json::Value& claim = *spec.pointer("/volumeClaimTemplates/0");
    for (const char* field : {"apiVersion", "kind", "status"}) {
        EXPECT_TRUE(claim.erase(field));
    }
    EXPECT_TRUE(claim.find("spec")->erase("volumeMode"));
    apply_builtin_defaults(gvk_of(ours), ours);
    EXPECT_EQ(json::dump_sorted(ours), json::dump_sorted(real));
}

struct DefaultRow {
    const char* name;
    const char* before;
    const char* pointer;
    const char* expect;  // JSON at pointer; "" for absent
};

class BuiltinDefault : public testing::TestWithParam<DefaultRow> {};

TEST_P(BuiltinDefault, Fills) {
    json::Value object = parse(GetParam().before);
    apply_builtin_defaults(gvk_of(object), object);
    const json::Value* found = object.pointer(GetParam().pointer);
    EXPECT_EQ(found == nullptr ? "" : json::dump_sorted(*found), GetParam().expect)
        << json::dump(object);
}

INSTANTIATE_TEST_SUITE_P(
    Rows,
    BuiltinDefault,
    testing::Values(
        DefaultRow{"update_strategy",
                   R"({"apiVersion":"apps/v1","kind":"StatefulSet","spec":{}})",
                   "/spec/updateStrategy",
                   R"({"rollingUpdate":{"partition":0},"type":"RollingUpdate"})"},
        DefaultRow{
            "update_strategy_named",
            R"({"apiVersion":"apps/v1","kind":"StatefulSet","spec":{"updateStrategy":{"type":"RollingUpdate"}}})",
            "/spec/updateStrategy",
            R"({"type":"RollingUpdate"})"},
        DefaultRow{"replicas_zero_stays",
                   R"({"apiVersion":"apps/v1","kind":"StatefulSet","spec":{"replicas":0}})",
                   "/spec/replicas",
                   "0"},
        DefaultRow{
            "job",
            R"({"apiVersion":"batch/v1","kind":"Job","spec":{}})",
            "/spec",
            R"({"backoffLimit":6,"completionMode":"NonIndexed","completions":1,"manualSelector":false,"parallelism":1,"podReplacementPolicy":"TerminatingOrFailed","suspend":false})"},
        DefaultRow{"job_parallelism_only",
                   R"({"apiVersion":"batch/v1","kind":"Job","spec":{"parallelism":2}})",
                   "/spec/completions",
                   ""},
        DefaultRow{"headless",
                   R"({"apiVersion":"v1","kind":"Service","spec":{"clusterIP":"None"}})",
                   "/spec/clusterIPs",
                   R"(["None"])"},
        DefaultRow{"target_port",
                   R"({"apiVersion":"v1","kind":"Service","spec":{"ports":[{"port":80}]}})",
                   "/spec/ports/0",
                   R"({"port":80,"protocol":"TCP","targetPort":80})"},
        DefaultRow{
            "secret_text",
            R"({"apiVersion":"v1","kind":"Secret","data":{"a":"eA=="},"stringData":{"b":"yes","c":"no","d":"a"}})",
            "/data",
            R"({"a":"eA==","b":"eWVz","c":"bm8=","d":"YQ=="})"},
        DefaultRow{"secret_text_gone",
                   R"({"apiVersion":"v1","kind":"Secret","stringData":{"b":"yes"}})",
                   "/stringData",
                   ""},
        DefaultRow{"secret_type", R"({"apiVersion":"v1","kind":"Secret"})", "/type", R"("Opaque")"},
        DefaultRow{
            "image_latest",
            R"({"apiVersion":"v1","kind":"Pod","spec":{"containers":[{"image":"r:5000/a"}]}})",
            "/spec/containers/0/imagePullPolicy",
            R"("Always")"},
        DefaultRow{
            "image_digest",
            R"({"apiVersion":"v1","kind":"Pod","spec":{"containers":[{"image":"a@sha256:0"}]}})",
            "/spec/containers/0/imagePullPolicy",
            R"("IfNotPresent")"},
        DefaultRow{
            "requests_from_limits",
            R"({"apiVersion":"v1","kind":"Pod","spec":{"containers":[{"image":"a","resources":{"limits":{"cpu":"1"}}}]}})",
            "/spec/containers/0/resources/requests",
            R"({"cpu":"1"})"},
        DefaultRow{"empty_dir",
                   R"({"apiVersion":"v1","kind":"Pod","spec":{"volumes":[{"name":"x"}]}})",
                   "/spec/volumes/0",
                   R"({"emptyDir":{},"name":"x"})"},
        DefaultRow{
            "binding_group",
            R"({"apiVersion":"rbac.authorization.k8s.io/v1","kind":"RoleBinding","subjects":[{"kind":"User","name":"u"}],"roleRef":{"kind":"Role","name":"r"}})",
            "/subjects/0/apiGroup",
            R"("rbac.authorization.k8s.io")"}),
    [](const auto& param) { return param.param.name; });

struct InvalidRow {
    const char* name;
    const char* object;
    const char* errors;
};

class BuiltinValidate : public testing::TestWithParam<InvalidRow> {};

TEST_P(BuiltinValidate, SaysWhatTheApiServerSays) {
    const json::Value object = parse(GetParam().object);
    const auto errors = validate_builtin(gvk_of(object), object);
    EXPECT_EQ(errors.empty() ? "" : join_field_errors(errors), GetParam().errors);
}

INSTANTIATE_TEST_SUITE_P(
    Rows,
    BuiltinValidate,
    testing::Values(
        InvalidRow{"no_containers",
                   R"({"apiVersion":"v1","kind":"Pod","spec":{}})",
                   "spec.containers: Required value"},
        InvalidRow{"no_image",
                   R"({"apiVersion":"v1","kind":"Pod","spec":{"containers":[{"name":"a"}]}})",
                   "spec.containers[0].image: Required value"},
        InvalidRow{
            "selector_misses",
            R"({"apiVersion":"apps/v1","kind":"StatefulSet","spec":{"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"c"}},"spec":{"containers":[{"name":"a","image":"i"}]}}}})",
            "spec.template.metadata.labels: Invalid value: {\"a\":\"c\"}: "
            "`selector` does not match template `labels`"},
        InvalidRow{
            "job_restart_policy",
            R"({"apiVersion":"batch/v1","kind":"Job","spec":{"selector":{},"template":{"spec":{"restartPolicy":"Always","containers":[{"name":"a","image":"i"}]}}}})",
            "spec.template.spec.restartPolicy: Unsupported value: \"Always\": "
            "supported values: \"OnFailure\", \"Never\""},
        InvalidRow{
            "job_selector_is_made_later",
            R"({"apiVersion":"batch/v1","kind":"Job","spec":{"manualSelector":false,"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"a","image":"i"}]}}}})",
            ""},
        InvalidRow{
            "job_manual_selector",
            R"({"apiVersion":"batch/v1","kind":"Job","spec":{"manualSelector":true,"template":{"spec":{"restartPolicy":"Never","containers":[{"name":"a","image":"i"}]}}}})",
            "spec.selector: Required value"},
        InvalidRow{"port_range",
                   R"({"apiVersion":"v1","kind":"Service","spec":{"ports":[{"port":0}]}})",
                   "spec.ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive"},
        InvalidRow{"ports_missing",
                   R"({"apiVersion":"v1","kind":"Service","spec":{}})",
                   "spec.ports: Required value"},
        InvalidRow{"headless_without_ports",
                   R"({"apiVersion":"v1","kind":"Service","spec":{"clusterIP":"None"}})",
                   ""},
        InvalidRow{
            "port_twice",
            R"({"apiVersion":"v1","kind":"Service","spec":{"ports":[{"name":"a","port":1,"protocol":"TCP"},{"name":"b","port":1,"protocol":"TCP"}]}})",
            "spec.ports[1]: Duplicate value: {\"port\":1,\"protocol\":\"TCP\"}"},
        InvalidRow{
            "budget_both",
            R"({"apiVersion":"policy/v1","kind":"PodDisruptionBudget","spec":{"minAvailable":1,"maxUnavailable":1}})",
            "spec: Invalid value: {\"minAvailable\":1,\"maxUnavailable\":1}: "
            "minAvailable and maxUnavailable cannot be both set"},
        InvalidRow{
            "lease_seconds",
            R"({"apiVersion":"coordination.k8s.io/v1","kind":"Lease","spec":{"leaseDurationSeconds":0}})",
            "spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0"},
        InvalidRow{
            "role_without_verbs",
            R"({"apiVersion":"rbac.authorization.k8s.io/v1","kind":"Role","rules":[{"apiGroups":[""],"resources":["pods"]}]})",
            "rules[0].verbs: Required value: verbs must contain at least one value"},
        InvalidRow{
            "owner_twice",
            R"({"apiVersion":"v1","kind":"ServiceAccount","metadata":{"ownerReferences":[{"uid":"1"},{"uid":"1"}]}})",
            "metadata.ownerReferences[1]: Duplicate value: {\"uid\":\"1\"}"}),
    [](const auto& param) { return param.param.name; });

struct UpdateRow {
    const char* name;
    const char* before;
    const char* after;
    const char* field;  // of the first error; "" when allowed
    FieldReason reason;
};

class BuiltinUpdate : public testing::TestWithParam<UpdateRow> {};

TEST_P(BuiltinUpdate, RefusesWhatMustNotChange) {
    const UpdateRow& row = GetParam();
    const json::Value after = parse(row.after);
    const auto errors = validate_builtin_update(gvk_of(after), parse(row.before), after);
    ASSERT_EQ(errors.empty() ? "" : errors.front().field, row.field);
    if (!errors.empty()) {
        EXPECT_EQ(errors.front().reason, row.reason);
    }
}

constexpr const char* kSet =
    R"({"apiVersion":"apps/v1","kind":"StatefulSet","spec":{"serviceName":"a","replicas":1,"template":{}}})";
constexpr const char* kMap =
    R"({"apiVersion":"v1","kind":"ConfigMap","immutable":true,"data":{"a":"1"}})";

INSTANTIATE_TEST_SUITE_P(
    Rows,
    BuiltinUpdate,
    testing::Values(
        UpdateRow{
            "set_replicas",
            kSet,
            R"({"apiVersion":"apps/v1","kind":"StatefulSet","spec":{"serviceName":"a","replicas":3,"template":{"x":1},"minReadySeconds":1}})",
            "",
            FieldReason::forbidden},
        UpdateRow{
            "set_service_name",
            kSet,
            R"({"apiVersion":"apps/v1","kind":"StatefulSet","spec":{"serviceName":"b","replicas":1,"template":{}}})",
            "spec",
            FieldReason::forbidden},
        UpdateRow{"config_map",
                  kMap,
                  R"({"apiVersion":"v1","kind":"ConfigMap","immutable":true,"data":{"a":"2"}})",
                  "data",
                  FieldReason::forbidden},
        UpdateRow{"config_map_flag",
                  kMap,
                  R"({"apiVersion":"v1","kind":"ConfigMap","data":{"a":"1"}})",
                  "immutable",
                  FieldReason::forbidden},
        UpdateRow{"secret_type",
                  R"({"apiVersion":"v1","kind":"Secret","type":"Opaque"})",
                  R"({"apiVersion":"v1","kind":"Secret","type":"x"})",
                  "type",
                  FieldReason::invalid},
        UpdateRow{
            "role_ref",
            R"({"roleRef":{"kind":"Role","name":"a"}})",
            R"({"apiVersion":"rbac.authorization.k8s.io/v1","kind":"RoleBinding","roleRef":{"kind":"Role","name":"b"}})",
            "roleRef",
            FieldReason::invalid},
        UpdateRow{"cluster_ip",
                  R"({"spec":{"clusterIP":"None"}})",
                  R"({"apiVersion":"v1","kind":"Service","spec":{"clusterIP":"1.2.3.4"}})",
                  "spec.clusterIPs[0]",
                  FieldReason::invalid},
        UpdateRow{"job_template",
                  R"({"spec":{"template":{"a":1}}})",
                  R"({"apiVersion":"batch/v1","kind":"Job","spec":{"template":{"a":2}}})",
                  "spec.template",
                  FieldReason::invalid},
        UpdateRow{"pod_assigned",
                  R"({"spec":{}})",
                  R"({"apiVersion":"v1","kind":"Pod","spec":{"nodeName":"n"}})",
                  "",
                  FieldReason::forbidden},
        UpdateRow{"pod_moved",
                  R"({"spec":{"nodeName":"m"}})",
                  R"({"apiVersion":"v1","kind":"Pod","spec":{"nodeName":"n"}})",
                  "spec",
                  FieldReason::forbidden},
        UpdateRow{
            "claim_grows",
            R"({"spec":{"resources":{"requests":{"storage":"1Gi"}}}})",
            R"({"apiVersion":"v1","kind":"PersistentVolumeClaim","spec":{"resources":{"requests":{"storage":"2Gi"}}}})",
            "",
            FieldReason::forbidden},
        UpdateRow{
            "claim_class",
            R"({"spec":{"storageClassName":"a"}})",
            R"({"apiVersion":"v1","kind":"PersistentVolumeClaim","spec":{"storageClassName":"b"}})",
            "spec",
            FieldReason::forbidden}),
    [](const auto& param) { return param.param.name; });

TEST(BuiltinUpdateCarry, ServiceKeepsItsAddress) {
    json::Value after = parse(R"({"spec":{"type":"ClusterIP"}})");
    keep_allocated_fields({"", "v1", "Service"},
                          parse(R"({"spec":{"clusterIP":"None","clusterIPs":["None"]}})"),
                          after);
    EXPECT_EQ(json::dump_sorted(after),
              R"({"spec":{"clusterIP":"None","clusterIPs":["None"],"type":"ClusterIP"}})");
}

TEST(BuiltinJob, GetsItsSelectorFromItsUid) {
    json::Value job =
        parse(R"({"metadata":{"name":"j","uid":"u"},"spec":{"template":{"spec":{}}}})");
    generate_job_selector(job);
    EXPECT_EQ(json::dump_sorted(*job.pointer("/spec/selector")),
              R"({"matchLabels":{"batch.kubernetes.io/controller-uid":"u"}})");
    EXPECT_EQ(*job.pointer("/spec/template/metadata/labels/job-name")->if_string(), "j");
}

struct MergeRow {
    const char* kind;    // "apps/v1/StatefulSet"
    const char* path;    // members, "[]" for items
    const char* expect;  // "map:a,b", "set", "atomic", "object", "atomic-object", "absent"
};

std::string describe(const SchemaNode* node) {
    if (node == nullptr) {
        return "absent";
    }
    if (node->type == SchemaType::object) {
        return node->map_type == MapType::atomic ? "atomic-object" : "object";
    }
    if (node->list_type != ListType::map) {
        return node->list_type == ListType::set ? "set" : "atomic";
    }
    std::string keys;
    for (const std::string& key : node->map_keys) {
        keys += (keys.empty() ? "" : ",") + key;
    }
    return "map:" + keys;
}

class BuiltinMerge : public testing::TestWithParam<MergeRow> {};

TEST_P(BuiltinMerge, KnowsHowListsMerge) {
    auto gvk = GroupVersionKind::parse(GetParam().kind);
    ASSERT_TRUE(gvk.has_value());
    const SchemaNode* node = builtin_schema(gvk.value());
    std::stringstream path(GetParam().path);
    for (std::string step; node != nullptr && std::getline(path, step, '.');) {
        node = step == "[]" ? node->items.get() : node->child(step);
    }
    EXPECT_EQ(describe(node), GetParam().expect);
}

INSTANTIATE_TEST_SUITE_P(
    Rows,
    BuiltinMerge,
    testing::Values(
        MergeRow{"apps/v1/StatefulSet", "spec.template.spec.containers", "map:name"},
        MergeRow{"apps/v1/StatefulSet",
                 "spec.template.spec.containers.[].ports",
                 "map:containerPort,protocol"},
        MergeRow{"apps/v1/StatefulSet", "spec.template.spec.containers.[].env", "map:name"},
        MergeRow{"apps/v1/StatefulSet",
                 "spec.template.spec.initContainers.[].volumeMounts",
                 "map:mountPath"},
        MergeRow{"apps/v1/StatefulSet", "spec.template.spec.volumes", "map:name"},
        MergeRow{"apps/v1/StatefulSet",
                 "spec.template.spec.topologySpreadConstraints",
                 "map:topologyKey,whenUnsatisfiable"},
        MergeRow{"apps/v1/StatefulSet", "spec.template.spec.hostAliases", "map:ip"},
        MergeRow{"apps/v1/StatefulSet", "spec.template.spec.tolerations", "absent"},
        MergeRow{"apps/v1/StatefulSet", "spec.volumeClaimTemplates", "absent"},
        MergeRow{"apps/v1/StatefulSet", "spec.selector", "atomic-object"},
        MergeRow{"apps/v1/StatefulSet", "status.conditions", "map:type"},
        MergeRow{"batch/v1/CronJob", "spec.jobTemplate.spec.template.spec.containers", "map:name"},
        MergeRow{"batch/v1/Job", "status.conditions", "absent"},
        MergeRow{"v1/Service", "spec.ports", "map:port,protocol"},
        MergeRow{"v1/ServiceAccount", "secrets", "map:name"},
        MergeRow{"v1/ConfigMap", "metadata.ownerReferences", "map:uid"},
        MergeRow{"v1/ConfigMap", "metadata.finalizers", "set"},
        MergeRow{"v1/Event", "involvedObject", "atomic-object"},
        MergeRow{"rbac.authorization.k8s.io/v1/Role", "rules", "absent"},
        MergeRow{"policy/v1/PodDisruptionBudget", "status.conditions", "map:type"}));

TEST(BuiltinKinds, AreNamedOnceAndHaveSchemas) {
    std::set<std::string> paths;
    for (const BuiltinKind& kind : builtin_kinds()) {
        EXPECT_TRUE(paths.insert(kind.group + "/" + kind.plural).second) << kind.plural;
        EXPECT_NE(builtin_schema({kind.group, kind.version, kind.kind}), nullptr) << kind.kind;
    }
    EXPECT_EQ(builtin_kind({"", "v1", "Etcd"}), nullptr);
    EXPECT_EQ(builtin_schema({"", "v1", "Etcd"}), nullptr);
}

}  // namespace
}  // namespace capstan::local
