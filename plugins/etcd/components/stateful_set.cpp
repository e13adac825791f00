#include "plugins/etcd/components/backup_store.hpp"
#include "plugins/etcd/components/components.hpp"

namespace capstan::etcd {

namespace {

constexpr std::string_view kDataVolumeMode = "Filesystem";
constexpr std::string_view kRunVolume = "capstan-run";
constexpr std::string_view kBinVolume = "capstan-bin";
// configuration, token, later keys and certificates
constexpr std::string_view kRunVolumeSizeMax = "16Mi";
constexpr std::string_view kBinVolumeSizeMax = "64Mi";  // the launcher is below 8 MiB
constexpr std::int32_t kUser = 65532;                   // "nonroot"

json::Value mount(std::string_view volume, std::string_view path) {
    return {{"name", volume}, {"mountPath", path}};
}

json::Value from_field(std::string_view name, std::string_view path) {
    return {
        {"name", name},
        {"valueFrom", {{"fieldRef", {{"apiVersion", "v1"}, {"fieldPath", path}}}}},
    };
}

json::Value pod_environment() {
    return json::list({
        from_field("POD_NAME", "metadata.name"),
        from_field("POD_NAMESPACE", "metadata.namespace"),
        from_field("POD_IP", "status.podIP"),
    });
}

json::Value resources_or_default(const std::optional<json::Value>& wish) {
    if (wish) {
        return *wish;
    }
    return {{"requests", {{"cpu", "50m"}, {"memory", "128Mi"}}}};
}

json::Value launcher_container(const Cluster& cluster) {
    const std::string target = std::string(kBinDir) + "/capstan-launcher";
    return {
        {"name", "install-launcher"},
        {"image", cluster.steward_image},
        {"imagePullPolicy", "IfNotPresent"},
        {"command", json::list({"/usr/local/bin/capstan-launcher"})},
        {"args", json::list({"install", target})},
        {"securityContext", {{"allowPrivilegeEscalation", false}}},
        {"volumeMounts", json::list({mount(kBinVolume, kBinDir)})},
    };
}

json::Value etcd_container(const Cluster& cluster) {
    return {
        {"name", "etcd"},
        {"image", cluster.etcd_image},
        {"imagePullPolicy", "IfNotPresent"},
        {"command", json::list({std::string(kBinDir) + "/capstan-launcher"})},
        {"args",
         json::list({
             "run",
             "--etcd=/usr/local/bin/etcd",
             "--run-dir=" + std::string(kRunDir),
             "--data-dir=" + std::string(kDataDir),
             "--exit-marker=" + std::string(kDataMount) + "/exit_code",
             "--listen-port=" + std::to_string(cluster.launcher_port),
             "--etcd-port=" + std::to_string(cluster.health_port),
         })},
        {"env", pod_environment()},
        {"ports",
         json::list({
             {{"name", "server"}, {"containerPort", cluster.peer_port}, {"protocol", "TCP"}},
             {{"name", "client"}, {"containerPort", cluster.client_port}, {"protocol", "TCP"}},
         })},
        {"readinessProbe",
         {
             {"httpGet",
              {{"path", "/readyz"}, {"port", cluster.launcher_port}, {"scheme", "HTTP"}}},
             {"initialDelaySeconds", 0},
             {"periodSeconds", 2},
             {"failureThreshold", 5},
         }},
        {"resources", resources_or_default(cluster.etcd->spec.etcd.resources)},
        {"securityContext", {{"allowPrivilegeEscalation", false}}},
        {"volumeMounts",
         json::list({
             mount(cluster.claim_name, kDataMount),
             mount(kRunVolume, kRunDir),
             mount(kBinVolume, kBinDir),
         })},
    };
}

json::Value steward_container(const Cluster& cluster, const StorePod& store) {
    json::Value env = pod_environment();
    env.push_back({{"name", "CAPSTAN_ETCD_NAME"}, {"value", cluster.name}});
    const std::string prefix = cluster.etcd->spec.member_name_prefix.value_or("");
    env.push_back(prefix.empty() ? from_field("CAPSTAN_MEMBER_NAME", "metadata.name")
                                 : json::Value{{"name", "CAPSTAN_MEMBER_NAME"},
                                               {"value", prefix + "-$(POD_NAME)"}});
    env.push_back({{"name", "CAPSTAN_CONFIGMAP_NAME"}, {"value", cluster.config_map()}});
    env.push_back({{"name", "CAPSTAN_API_PORT"}, {"value", std::to_string(cluster.api_port)}});
    env.push_back({{"name", "CAPSTAN_RUN_DIR"}, {"value", kRunDir}});
    json::Value mounts = json::list({
        mount(cluster.claim_name, kDataMount),
        mount(kRunVolume, kRunDir),
    });
    for (const json::Value& variable : store.env) {
        env.push_back(variable);
    }
    for (const json::Value& of_store : store.mounts) {
        mounts.push_back(of_store);
    }
    return {
        {"name", "backup-restore"},
        {"image", cluster.steward_image},
        {"imagePullPolicy", "IfNotPresent"},
        {"command", json::list({"/usr/local/bin/capstan"})},
        {"args", json::list({"run", "--profile=steward", "--config=/etc/capstan/steward.yaml"})},
        {"env", env},
        {"ports",
         json::list({
             {{"name", "server"}, {"containerPort", cluster.api_port}, {"protocol", "TCP"}},
         })},
        {"resources", resources_or_default(cluster.etcd->spec.backup.resources)},
        {"securityContext", {{"allowPrivilegeEscalation", false}}},
        {"volumeMounts", mounts},
    };
}

json::Value security_context(bool run_as_root) {
    if (run_as_root) {
        return {{"runAsUser", 0}, {"runAsGroup", 0}, {"fsGroup", 0}, {"runAsNonRoot", false}};
    }
    return {
        {"runAsUser", kUser},
        {"runAsGroup", kUser},
        {"fsGroup", kUser},
        {"runAsNonRoot", true},
        {"fsGroupChangePolicy", "OnRootMismatch"},
    };
}

// No checksum of the configuration and no TLS volumes here: what they carry reaches
// etcd without a new pod.
json::Value pod_template(const Cluster& cluster, const json::Value& own_labels) {
    const api::EtcdSpec& spec = cluster.etcd->spec;
    json::Value labels = api::encode(spec.labels);
    for (const json::Member& label : json::View(own_labels).object()) {
        labels.set(label.key, label.value);
    }
    json::Value metadata = {{"labels", labels}};
    if (!spec.annotations.empty()) {
        metadata.set("annotations", api::encode(spec.annotations));
    }
    const StorePod store = store_pod(cluster);
    json::Value init_containers = json::list({launcher_container(cluster)});
    for (const json::Value& container : store.init_containers) {
        init_containers.push_back(container);
    }
    json::Value volumes = json::list({
        {{"name", kRunVolume},
         {"emptyDir", {{"medium", "Memory"}, {"sizeLimit", kRunVolumeSizeMax}}}},
        {{"name", kBinVolume}, {"emptyDir", {{"sizeLimit", kBinVolumeSizeMax}}}},
    });
    for (const json::Value& volume : store.volumes) {
        volumes.push_back(volume);
    }
    json::Value pod = {
        {"hostAliases",
         json::list({
             {{"ip", "127.0.0.1"}, {"hostnames", json::list({cluster.local_host()})}},
         })},
        {"serviceAccountName", cluster.name},
        {"shareProcessNamespace", true},
        {"securityContext", security_context(spec.run_as_root.value_or(false))},
        {"initContainers", init_containers},
        {"containers", json::list({etcd_container(cluster), steward_container(cluster, store)})},
        {"volumes", volumes},
    };
    if (spec.priority_class_name && !spec.priority_class_name->empty()) {
        pod.set("priorityClassName", *spec.priority_class_name);
    }
    if (const auto& where = spec.scheduling_constraints) {
        api::put_present(pod, "affinity", where->affinity);
        api::put_present(pod, "topologySpreadConstraints", where->topology_spread_constraints);
    }
    return {{"metadata", metadata}, {"spec", pod}};
}

json::Value claim_template(const Cluster& cluster) {
    json::Value spec = {
        {"accessModes", json::list({"ReadWriteOnce"})},
        {"resources", {{"requests", {{"storage", cluster.storage_capacity}}}}},
        {"volumeMode", kDataVolumeMode},
    };
    if (!cluster.etcd->spec.storage_class.value_or("").empty()) {
        spec.set("storageClassName", *cluster.etcd->spec.storage_class);
    }
    return {
        {"apiVersion", "v1"},
        {"kind", "PersistentVolumeClaim"},
        {"metadata", {{"name", cluster.claim_name}}},
        {"spec", spec},
        {"status", {{"phase", "Pending"}}},
    };
}

}  // namespace

json::Value stateful_set(const Cluster& cluster) {
    const json::Value metadata = cluster.metadata(cluster.name, "etcd-statefulset");
    return {
        {"apiVersion", "apps/v1"},
        {"kind", "StatefulSet"},
        {"metadata", metadata},
        {"spec",
         {
             {"replicas", cluster.replicas},
             {"podManagementPolicy", "Parallel"},
             {"serviceName", cluster.peer_service()},
             {"selector", {{"matchLabels", cluster.default_labels()}}},
             {"updateStrategy", {{"type", "RollingUpdate"}}},
             {"template", pod_template(cluster, *metadata.find("labels"))},
             {"volumeClaimTemplates", json::list({claim_template(cluster)})},
         }},
    };
}

}  // namespace capstan::etcd
