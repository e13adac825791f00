// Our children beside those of a real etcd-druid 0.38: every difference is
// either listed here or a bug.
#include "plugins/etcd/components/components.hpp"
#include "plugins/etcd/components/backup_store.hpp"
#include "plugins/etcd/etcd_config.hpp"
#include "plugins/etcd/yaml_text.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <sstream>

namespace capstan::etcd {
namespace {

json::Value load(const std::string& path) {
    const char* source = std::getenv("CAPSTAN_SOURCE_DIR");
    std::ifstream file(std::string(source == nullptr ? "." : source) +
                       "/test/data/etcd-druid-0.38/" + path);
    std::stringstream text;
    text << file.rdbuf();
    auto value = json::parse(text.str());
    EXPECT_TRUE(value) << path << ": " << value.error().message;
    return value ? value.value() : json::Value();
}

// Pointers at which the two differ; members and items that only one of them has count as a whole.
void differences(const json::Value* ours,
                 const json::Value* theirs,
                 const std::string& at,
                 std::set<std::string>& out) {
    if (ours != nullptr && theirs != nullptr && ours->is_object() && theirs->is_object()) {
        std::set<std::string> keys;
        for (const json::Value* side : {ours, theirs}) {
            for (const json::Member& member : *side->if_object()) {
                keys.insert(member.key);
            }
        }
        for (const std::string& key : keys) {
            differences(ours->find(key),
                        theirs->find(key),
                        at + "/" + json::escape_pointer_token(key),
                        out);
        }
    } else if (ours != nullptr && theirs != nullptr && ours->is_array() && theirs->is_array()) {
        for (std::size_t i = 0; i < std::max(ours->if_array()->size(), theirs->if_array()->size());
             ++i) {
            const auto item = [i](const json::Value* list) {
                return i < list->if_array()->size() ? &(*list->if_array())[i] : nullptr;
            };
            differences(item(ours), item(theirs), at + "/" + std::to_string(i), out);
        }
    } else if ((ours == nullptr) != (theirs == nullptr) ||
               (ours != nullptr && !(*ours == *theirs))) {
        out.insert(at);
    }
}

struct Loaded {
    api::Etcd etcd;
    Cluster cluster;
};

std::unique_ptr<Loaded> load_cluster(const std::string& folder) {
    auto loaded = std::make_unique<Loaded>();
    const json::Value input = load(folder + "/input.json");
    auto decoded = api::decode(json::View(input), loaded->etcd);
    EXPECT_TRUE(decoded) << decoded.error().message;
    auto cluster = resolve(loaded->etcd, Settings{});
    EXPECT_TRUE(cluster) << cluster.error().message;
    loaded->cluster = cluster.value();
    return loaded;
}

std::vector<std::string> hashes_of(const Cluster& cluster) {
    return std::vector<std::string>(cluster.members.size(), "hash");
}

// Fields that the API server added when the golden objects were made; applying leaves them alone.
const std::set<std::string> kServiceDefaults = {
    "/spec/internalTrafficPolicy", "/spec/ipFamilies", "/spec/ipFamilyPolicy"};
// Rights by name instead of by kind, and on what a steward uses.
const std::set<std::string> kRoleDifferences = {
    "/rules/0/apiGroups/0",
    "/rules/0/resources/0",
    "/rules/0/resources/1",
    "/rules/0/resourceNames",
    "/rules/0/verbs/2",
    "/rules/0/verbs/3",
    "/rules/0/verbs/4",
    "/rules/1/apiGroups/0",
    "/rules/1/resources/0",
    "/rules/1/resourceNames",
    "/rules/1/verbs/2",
    "/rules/1/verbs/3",
    "/rules/1/verbs/4",
    "/rules/2/resources/0",
    "/rules/2/resourceNames",
    "/rules/3",  // Secrets by name: of TLS, or the token of the stewards
};

struct ChildRow {
    const char* name;
    const char* folder;
    const char* file;
    json::Value (*build)(const Cluster&);
    std::set<std::string> differences;
};

class GoldenChild : public testing::TestWithParam<ChildRow> {};

TEST_P(GoldenChild, DiffersOnlyWhereListed) {
    auto loaded = load_cluster(GetParam().folder);
    const json::Value theirs = load(std::string(GetParam().folder) + "/" + GetParam().file);
    const json::Value ours = GetParam().build(loaded->cluster);
    std::set<std::string> found;
    differences(&ours, &theirs, "", found);
    EXPECT_EQ(found, GetParam().differences);
}

json::Value second_lease(const Cluster& cluster) {
    return member_lease(cluster, cluster.members[1]);
}

INSTANTIATE_TEST_SUITE_P(
    Rows,
    GoldenChild,
    testing::Values(
        ChildRow{"service_account", "M01", "serviceaccount-tiny.json", service_account, {}},
        ChildRow{"role_binding",
                 "M02",
                 "rolebinding-druid.gardener.cloud_etcd_trio.json",
                 role_binding,
                 {}},
        ChildRow{"role", "M02", "role-druid.gardener.cloud_etcd_trio.json", role, kRoleDifferences},
        ChildRow{"lease", "M02", "lease-trio-1.json", second_lease, {"/spec"}},
        ChildRow{"lease_with_prefix", "M09", "lease-blue-cp-main-1.json", second_lease, {"/spec"}},
        ChildRow{
            "budget_of_one", "M01", "poddisruptionbudget-tiny.json", pod_disruption_budget, {}},
        ChildRow{
            "budget_of_three", "M02", "poddisruptionbudget-trio.json", pod_disruption_budget, {}},
        ChildRow{
            "budget_of_five", "M11", "poddisruptionbudget-five.json", pod_disruption_budget, {}},
        ChildRow{
            "client_service", "M01", "service-tiny-client.json", client_service, kServiceDefaults},
        ChildRow{"client_service_with_wishes",
                 "M09",
                 "service-cp-main-client.json",
                 client_service,
                 kServiceDefaults},
        ChildRow{"peer_service", "M02", "service-trio-peer.json", peer_service, kServiceDefaults}),
    [](const auto& row) { return row.param.name; });

struct SetRow {
    const char* name;
    const char* folder;
    const char* file;
};

class GoldenStatefulSet : public testing::TestWithParam<SetRow> {};

// Outside the containers and volumes, which are another flavour, the two are the
// same but for defaults.
TEST_P(GoldenStatefulSet, DiffersOnlyInFlavour) {
    auto loaded = load_cluster(GetParam().folder);
    json::Value theirs = load(std::string(GetParam().folder) + "/" + GetParam().file);
    json::Value ours = stateful_set(loaded->cluster);
    for (json::Value* side : {&ours, &theirs}) {
        json::Value* pod = side->pointer("/spec/template/spec");
        ASSERT_NE(pod, nullptr);
        pod->erase("containers");
        pod->erase("volumes");
        pod->erase("initContainers");
    }
    std::set<std::string> found;
    differences(&ours, &theirs, "", found);
    std::set<std::string> want = {
        "/spec/persistentVolumeClaimRetentionPolicy",
        "/spec/revisionHistoryLimit",
        "/spec/template/spec/dnsPolicy",
        "/spec/template/spec/restartPolicy",
        "/spec/template/spec/schedulerName",
        "/spec/template/spec/serviceAccount",
        "/spec/template/spec/terminationGracePeriodSeconds",
        // Ours carries no checksum: a new configuration restarts etcd, not the pod.
        loaded->etcd.spec.annotations.empty()
            ? "/spec/template/metadata/annotations"
            : "/spec/template/metadata/annotations/checksum~1etcd-configmap",
    };
    EXPECT_EQ(found, want);
}

INSTANTIATE_TEST_SUITE_P(
    Rows,
    GoldenStatefulSet,
    testing::Values(SetRow{"one", "M01", "statefulset-tiny.json"},
                    SetRow{"three_with_annotations", "M02", "statefulset-trio.json"},
                    SetRow{"with_scheduling_and_storage", "M09", "statefulset-cp-main.json"}),
    [](const auto& row) { return row.param.name; });

struct ConfigRow {
    const char* name;
    const char* folder;
    const char* file;
    const char* gateway;    // as etcd-druid writes it
    const char* only_ours;  // a line it does not write
};

class GoldenConfig : public testing::TestWithParam<ConfigRow> {};

TEST_P(GoldenConfig, IsTheSameTextButForTheGateway) {
    auto loaded = load_cluster(GetParam().folder);
    const json::Value theirs = load(std::string(GetParam().folder) + "/" + GetParam().file);
    const json::Value ours = config_map(loaded->cluster, hashes_of(loaded->cluster));
    auto text = std::string{json::View(ours)["data"]["etcd.conf.yaml"].string_or("")};
    const auto replace = [&text](std::string_view from, std::string_view to) {
        const auto at = text.find(from);
        ASSERT_NE(at, std::string::npos) << from;
        text.replace(at, from.size(), to);
    };
    replace("enable-grpc-gateway: true\n", GetParam().gateway);
    replace(GetParam().only_ours, "");
    EXPECT_EQ(text, json::View(theirs)["data"]["etcd.conf.yaml"].string_or(""));
}

INSTANTIATE_TEST_SUITE_P(
    Rows,
    GoldenConfig,
    testing::Values(
        ConfigRow{"one", "M01", "configmap-tiny-config.json", "enable-grpc-gateway: false\n", ""},
        ConfigRow{"three", "M02", "configmap-trio-config.json", "enable-grpc-gateway: false\n", ""},
        // etcd-druid writes the free-list type only behind a gate of its own.
        ConfigRow{"text_that_looks_like_a_number",
                  "M11",
                  "configmap-five-config.json",
                  "enable-grpc-gateway: true\n",
                  "backend-bbolt-freelist-type: map\n"}),
    [](const auto& row) { return row.param.name; });

TEST(StewardConfig, HoldsACompleteConfigurationPerMember) {
    auto loaded = load_cluster("M02");
    const json::Value map = config_map(loaded->cluster, {"a", "b", "c"});
    auto document = json::parse(json::View(map)["data"]["steward.yaml"].string_or(""));
    ASSERT_TRUE(document) << document.error().message;
    const json::View member = json::View(document.value())["members"]["trio-1"];
    EXPECT_EQ(member["configHash"].string_or(""), "b");
    EXPECT_EQ(member["pod"].string_or(""), "trio-1");
    const json::View config = member["config"];
    EXPECT_EQ(config["name"].string_or(""), "trio-1");
    EXPECT_EQ(config["initial-advertise-peer-urls"].string_or(""),
              "http://trio-1.trio-peer.g-m02.svc:2380");
    EXPECT_EQ(config["advertise-client-urls"].string_or(""),
              "http://trio-1.trio-peer.g-m02.svc:2379");
    EXPECT_TRUE(config["enable-grpc-gateway"].bool_or(false));
    EXPECT_EQ(config["experimental-watch-progress-notify-interval"].int_or(0), 5'000'000'000);
    EXPECT_EQ(json::View(document.value())["ports"]["launcher"].int_or(0), 9095);
}

TEST(StewardConfig, NamesTheSecretsAndFilesOfTls) {
    auto loaded = load_cluster("M02");
    auto& client = loaded->etcd.spec.etcd.client_url_tls.emplace();
    client.tls_ca_secret_ref = {"bundle.crt", "client-ca", {}};
    client.server_tls_secret_ref = {"client-server", {}};
    client.client_tls_secret_ref = api::SecretReference{"client-pair", {}};
    auto& peer = loaded->etcd.spec.etcd.peer_url_tls.emplace();
    peer.tls_ca_secret_ref = {{}, "peer-ca", {}};
    peer.server_tls_secret_ref = {"peer-server", {}};
    loaded->cluster = resolve(loaded->etcd, Settings{}).value();
    const json::Value map = config_map(loaded->cluster, hashes_of(loaded->cluster));
    const auto document = json::parse(json::View(map)["data"]["steward.yaml"].string_or(""));
    const json::Value want = {
        {"client",
         {{"caSecret", "client-ca"},
          {"caKey", "bundle.crt"},
          {"serverSecret", "client-server"},
          {"clientSecret", "client-pair"}}},
        {"peer", {{"caSecret", "peer-ca"}, {"caKey", "ca.crt"}, {"serverSecret", "peer-server"}}},
    };
    EXPECT_EQ(*document.value().find("tls"), want);
    const json::View root(document.value());
    EXPECT_EQ(root["endpoints"]["local"].string_or(""), "https://trio-local:2379");
    const json::View config = root["members"]["trio-0"]["config"];
    EXPECT_EQ(config["listen-peer-urls"].string_or(""), "https://0.0.0.0:2380");
    EXPECT_EQ(config["advertise-client-urls"].string_or(""),
              "https://trio-0.trio-peer.g-m02.svc:2379");
    EXPECT_EQ(config["listen-metrics-urls"].string_or(""), "http://127.0.0.1:9096");
    EXPECT_EQ(config["client-transport-security"]["client-key-file"].string_or(""),
              "/var/run/capstan/tls/client/client.key");
    EXPECT_TRUE(config["peer-transport-security"]["client-cert-auth"].bool_or(false));
    const json::Value rights = role(loaded->cluster);
    const json::View rule = json::View(rights)["rules"][3];
    EXPECT_EQ(
        json::dump(*rule["resourceNames"].value()),
        R"(["client-ca","client-server","client-pair","peer-ca","peer-server","trio-api-token"])");
    EXPECT_EQ(json::dump(*rule["verbs"].value()), R"(["get"])");
}

TEST(StewardConfig, OfTheApiHasTlsOrAToken) {
    auto loaded = load_cluster("M02");
    const json::Value plain_map = config_map(loaded->cluster, hashes_of(loaded->cluster));
    const json::Value plain_set = stateful_set(loaded->cluster);
    const auto document = [](const json::Value& map) {
        return json::parse(json::View(map)["data"]["steward.yaml"].string_or("")).value();
    };
    EXPECT_EQ(*document(plain_map).find("apiTokenSecret"), json::Value("trio-api-token"));
    EXPECT_EQ(*document(plain_map).find("tls"), json::object());

    auto& tls = loaded->etcd.spec.backup.tls.emplace();
    tls.tls_ca_secret_ref = {{}, "backup-ca", {}};
    tls.server_tls_secret_ref = {"backup-server", {}};
    tls.client_tls_secret_ref = api::SecretReference{"backup-client", {}};
    const json::Value map = config_map(loaded->cluster, hashes_of(loaded->cluster));
    EXPECT_EQ(document(map).find("apiTokenSecret"), nullptr);
    const json::Value want = {{"caSecret", "backup-ca"},
                              {"caKey", "ca.crt"},
                              {"serverSecret", "backup-server"},
                              {"clientSecret", "backup-client"}};
    EXPECT_EQ(*document(map).find("tls")->find("backup"), want);
    const json::Value rights = role(loaded->cluster);
    EXPECT_EQ(json::dump(*json::View(rights)["rules"][3]["resourceNames"].value()),
              R"(["backup-ca","backup-server","backup-client"])");
    EXPECT_EQ(stateful_set(loaded->cluster), plain_set) << "no pod is restarted for it";
    EXPECT_EQ(
        restart_relevant(member_config(loaded->cluster, loaded->cluster.members[0])),
        restart_relevant(*document(plain_map).find("members")->find("trio-0")->find("config")))
        << "nor etcd";
}

TEST(ApiTokenSecret, IsTheEtcdsAndHasNoTokenYet) {
    auto loaded = load_cluster("M02");
    const json::Value secret = api_token_secret(loaded->cluster);
    const json::View view(secret);
    EXPECT_EQ(view["metadata"]["name"].string_or(""), "trio-api-token");
    EXPECT_TRUE(view["metadata"]["ownerReferences"][0]["controller"].bool_or(false));
    EXPECT_TRUE(view["immutable"].bool_or(false));
    EXPECT_FALSE(view["data"].present() || view["stringData"].present());
}

TEST(StewardConfig, GrowingTheClusterLeavesTheHashOfAMemberAlone) {
    auto three = load_cluster("M02");
    auto one = load_cluster("M02");
    one->etcd.spec.replicas = 1;
    one->cluster = resolve(one->etcd, Settings{}).value();
    EXPECT_EQ(restart_relevant(member_config(one->cluster, one->cluster.members[0])),
              restart_relevant(member_config(three->cluster, three->cluster.members[0])));
    three->etcd.spec.etcd.snapshot_count = 5;
    EXPECT_NE(restart_relevant(member_config(one->cluster, one->cluster.members[0])),
              restart_relevant(member_config(three->cluster, three->cluster.members[0])));
}

TEST(PodTemplate, MountsNoSecretAndNoConfigMap) {
    auto loaded = load_cluster("M02");
    const json::Value set = stateful_set(loaded->cluster);
    for (const json::Value& volume :
         json::View(set)["spec"]["template"]["spec"]["volumes"].array()) {
        EXPECT_NE(volume.find("emptyDir"), nullptr) << json::dump(volume);
    }
}

TEST(BackupStore, OfAnS3BucketIsHandedToTheSteward) {
    auto loaded = load_cluster("M03");
    const json::Value map = config_map(loaded->cluster, hashes_of(loaded->cluster));
    const auto document = json::parse(json::View(map)["data"]["steward.yaml"].string_or(""));
    ASSERT_TRUE(document) << document.error().message;
    const json::Value want = {
        {"snapstoreConfig",
         {
             {"provider", "S3"},
             {"container", "backups"},
             {"prefix", "demo/s3trio"},
             {"endpointOverride", "http://objects.demo.svc:4566"},
         }},
        {"snapshotterConfig",
         {
             {"schedule", "0 */24 * * *"},
             {"deltaSnapshotPeriod", "300s"},
             {"deltaSnapshotMemoryLimit", 104857600},
             {"deltaSnapshotRetentionPeriod", "48h"},
             {"garbageCollectionPeriod", "12h"},
             {"garbageCollectionPolicy", "LimitBased"},
             {"maxBackups", 7},
         }},
        {"compressionConfig", {{"enabled", true}, {"policy", "zlib"}}},
        {"etcdConnectionConfig", {{"snapshotTimeout", "15m"}}},
    };
    EXPECT_EQ(*document.value().find("backup"), want)
        << json::dump(*document.value().find("backup"));
    const json::Value set = stateful_set(loaded->cluster);
    const json::View pod = json::View(set)["spec"]["template"]["spec"];
    EXPECT_EQ(pod["volumes"][2]["secret"]["secretName"].string_or(""), "s3-credentials");
    const json::View steward = pod["containers"][1];
    EXPECT_EQ(steward["volumeMounts"][2]["mountPath"].string_or(""), "/var/etcd-backup");
    const std::string env = json::dump(*steward["env"].value());
    EXPECT_NE(env.find(R"({"name":"AWS_APPLICATION_CREDENTIALS","value":"/var/etcd-backup"})"),
              std::string::npos)
        << env;
}

TEST(BackupStore, OfADirectoryIsMountedAndGivenToThePodsUser) {
    auto loaded = load_cluster("M02");
    api::Store& store = loaded->etcd.spec.backup.store.emplace();
    store.provider = "local";
    store.container = "bucket";
    store.prefix = "shop/trio";
    const json::Value set = stateful_set(loaded->cluster);
    const json::View pod = json::View(set)["spec"]["template"]["spec"];
    EXPECT_EQ(pod["volumes"][2]["hostPath"]["path"].string_or(""),
              "/etc/gardener/local-backupbuckets/bucket");
    EXPECT_EQ(pod["containers"][1]["volumeMounts"][2]["mountPath"].string_or(""),
              "/home/nonroot/bucket");
    EXPECT_EQ(pod["initContainers"][1]["command"][2].string_or(""), "65532:65532");
    loaded->etcd.spec.run_as_root = true;
    const json::Value root = stateful_set(loaded->cluster);
    const json::View root_pod = json::View(root)["spec"]["template"]["spec"];
    EXPECT_EQ(root_pod["initContainers"].array().size(), 1u);
    EXPECT_EQ(root_pod["containers"][1]["volumeMounts"][2]["mountPath"].string_or(""),
              "/root/bucket");
}

TEST(BackupStore, WithoutAProviderIsNone) {
    auto loaded = load_cluster("M02");
    loaded->etcd.spec.backup.store.emplace();
    EXPECT_EQ(backup_config(loaded->cluster), json::object());
    EXPECT_TRUE(store_pod(loaded->cluster).volumes.empty());
}

TEST(PodTemplate, NamesTheMemberWithItsPrefix) {
    auto loaded = load_cluster("M09");
    const json::Value set = stateful_set(loaded->cluster);
    const json::View steward = json::View(set)["spec"]["template"]["spec"]["containers"][1];
    EXPECT_EQ(steward["name"].string_or(""), "backup-restore");
    EXPECT_EQ(steward["env"][4]["name"].string_or(""), "CAPSTAN_MEMBER_NAME");
    EXPECT_EQ(steward["env"][4]["value"].string_or(""), "blue-$(POD_NAME)");
}

TEST(EtcdMemberObject, CarriesThePodLabelOnlyWhenNamesDiffer) {
    auto plain = load_cluster("M02");
    auto prefixed = load_cluster("M09");
    const json::Value a = etcd_member(plain->cluster, plain->cluster.members[0], "h");
    const json::Value b = etcd_member(prefixed->cluster, prefixed->cluster.members[0], "h");
    EXPECT_FALSE(json::View(a)["metadata"]["labels"][kLabelPodName].present());
    EXPECT_EQ(json::View(b)["metadata"]["name"].string_or(""), "blue-cp-main-0");
    EXPECT_EQ(json::View(b)["metadata"]["labels"][kLabelPodName].string_or(""), "cp-main-0");
    EXPECT_FALSE(json::View(a)["metadata"]["annotations"][kAnnotationCreateAsLearner].present());
}

TEST(RoleObject, OfNoMembersGrantsNothingByKind) {
    auto loaded = load_cluster("M02");
    loaded->etcd.spec.replicas = 0;
    loaded->cluster = resolve(loaded->etcd, Settings{}).value();
    const json::Value none = role(loaded->cluster);
    for (const json::Value& rule : json::View(none)["rules"].array()) {
        EXPECT_FALSE(json::View(rule)["resourceNames"].array().empty()) << json::dump(rule);
    }
}

TEST(YamlText, QuotesOnlyWhatYamlWouldMisread) {
    const json::Value value = {
        {"b", "30m"},
        {"a", "1000"},
        {"url", "http://x:1"},
        {"on", "yes"},
        {"empty", ""},
        {"number", 3},
        {"none", json::object()},
    };
    EXPECT_EQ(to_yaml(value),
              "a: \"1000\"\nb: 30m\nempty: \"\"\nnone: {}\nnumber: 3\n\"on\": \"yes\"\nurl: "
              "http://x:1\n");
}

}  // namespace
}  // namespace capstan::etcd
