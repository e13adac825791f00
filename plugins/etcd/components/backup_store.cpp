#include "plugins/etcd/components/backup_store.hpp"

#include <array>

namespace capstan::etcd {
namespace {

constexpr std::string_view kHostRoot = "/etc/gardener/local-backupbuckets";  // etcd-druid's
constexpr std::string_view kLocalVolume = "local-backup";
constexpr std::string_view kSecretVolume = "etcd-backup-secret";
constexpr std::string_view kSecretMount = "/var/etcd-backup";
constexpr std::int32_t kSecretMode = 0640;

bool runs_as_root(const Cluster& cluster) {
    return cluster.etcd->spec.run_as_root.value_or(false);
}

std::string home(const Cluster& cluster) {
    return runs_as_root(cluster) ? "/root" : "/home/nonroot";
}

std::string local_mount(const Cluster& cluster) {
    return home(cluster) + "/" + cluster.etcd->spec.backup.store->container.value_or("");
}

json::Value store_config(const Cluster& cluster, const api::Store& store) {
    json::Value out = {{"provider", store.provider.value_or("")}, {"prefix", store.prefix}};
    api::put_present(out, "container", store.container);
    api::put_present(out, "endpointOverride", store.endpoint_override);
    if (store_kind(*cluster.etcd) == StoreKind::local) {
        out.set("home", home(cluster));
    }
    return out;
}

}  // namespace

StoreKind store_kind(const api::Etcd& etcd) {
    const auto& store = etcd.spec.backup.store;
    const std::string provider = store ? store->provider.value_or("") : "";
    if (provider.empty()) {
        return StoreKind::none;
    }
    if (provider == "Local" || provider == "local") {
        return StoreKind::local;
    }
    constexpr std::array<std::string_view, 4> kS3{"S3", "s3", "aws", "stackit"};
    for (const std::string_view name : kS3) {
        if (provider == name) {
            return StoreKind::s3;
        }
    }
    return StoreKind::other;
}

// The members are those of etcd-backup-restore's configuration file; what the Etcd leaves open is
// what etcd-druid fills in.
json::Value backup_config(const Cluster& cluster) {
    const api::Backup& spec = cluster.etcd->spec.backup;
    if (store_kind(*cluster.etcd) == StoreKind::none) {
        return json::object();
    }
    json::Value snapshotter = {
        {"deltaSnapshotMemoryLimit", cluster.delta_memory_bytes},
        {"garbageCollectionPolicy",
         api::to_string(
             spec.garbage_collection_policy.value_or(api::GarbageCollectionPolicy::limit_based))},
        {"maxBackups", spec.max_backups_limit_based_gc.value_or(7)},
    };
    api::put_present(snapshotter, "schedule", spec.full_snapshot_schedule);
    api::put_present(snapshotter, "deltaSnapshotPeriod", spec.delta_snapshot_period);
    api::put_present(
        snapshotter, "deltaSnapshotRetentionPeriod", spec.delta_snapshot_retention_period);
    api::put_present(snapshotter, "garbageCollectionPeriod", spec.garbage_collection_period);
    const api::Compression compression = spec.compression.value_or(api::Compression{});
    return {
        {"snapstoreConfig", store_config(cluster, *spec.store)},
        {"snapshotterConfig", snapshotter},
        {"compressionConfig",
         {
             {"enabled", compression.enabled.value_or(true)},
             {"policy", api::to_string(compression.policy.value_or(api::CompressionPolicy::gzip))},
         }},
        {"etcdConnectionConfig", {{"snapshotTimeout", spec.etcd_snapshot_timeout.value_or("15m")}}},
    };
}

StorePod store_pod(const Cluster& cluster) {
    StorePod out;
    const StoreKind kind = store_kind(*cluster.etcd);
    if (kind == StoreKind::none || kind == StoreKind::other) {
        return out;
    }
    const api::Store& store = *cluster.etcd->spec.backup.store;
    out.env.push_back({{"name", "STORAGE_CONTAINER"}, {"value", store.container.value_or("")}});
    if (kind == StoreKind::s3) {
        out.env.push_back({{"name", "AWS_APPLICATION_CREDENTIALS"}, {"value", kSecretMount}});
        if (store.secret_ref && store.secret_ref->name) {
            out.volumes.push_back(
                {{"name", kSecretVolume},
                 {"secret",
                  {{"secretName", *store.secret_ref->name}, {"defaultMode", kSecretMode}}}});
            out.mounts.push_back({{"name", kSecretVolume}, {"mountPath", kSecretMount}});
        }
        return out;
    }
    const std::string mount = local_mount(cluster);
    out.volumes.push_back({{"name", kLocalVolume},
                           {"hostPath",
                            {{"path", std::string(kHostRoot) + "/" + store.container.value_or("")},
                             {"type", "DirectoryOrCreate"}}}});
    out.mounts.push_back({{"name", kLocalVolume}, {"mountPath", mount}});
    if (!runs_as_root(cluster)) {
        // A directory of the host belongs to root, whatever fsGroup says.
        out.init_containers.push_back({
            {"name", "change-backup-bucket-permissions"},
            {"image", cluster.chown_image},
            {"imagePullPolicy", "IfNotPresent"},
            {"command", json::list({"chown", "-R", "65532:65532", mount})},
            {"securityContext",
             {
                 {"runAsUser", 0},
                 {"runAsGroup", 0},
                 {"runAsNonRoot", false},
                 {"allowPrivilegeEscalation", false},
             }},
            {"volumeMounts", json::list({{{"name", kLocalVolume}, {"mountPath", mount}}})},
        });
    }
    return out;
}

}  // namespace capstan::etcd
