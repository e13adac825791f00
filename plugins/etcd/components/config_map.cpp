#include "plugins/etcd/components/backup_store.hpp"
#include "plugins/etcd/components/components.hpp"
#include "plugins/etcd/etcd_config.hpp"
#include "plugins/etcd/yaml_text.hpp"

namespace capstan::etcd {

namespace {

json::Value tls_group(const api::CaSecretReference& ca,
                      const api::SecretReference& server,
                      const std::optional<api::SecretReference>& client) {
    json::Value group = {
        {"caSecret", ca.name.value_or("")},
        {"caKey", ca.data_key.value_or("ca.crt")},
        {"serverSecret", server.name.value_or("")},
    };
    if (client) {
        group.set("clientSecret", client->name.value_or(""));
    }
    return group;
}

json::Value tls_of(const api::EtcdSpec& spec) {
    json::Value tls = json::object();
    if (const auto& client = spec.etcd.client_url_tls) {
        tls.set("client",
                tls_group(client->tls_ca_secret_ref,
                          client->server_tls_secret_ref,
                          client->client_tls_secret_ref));
    }
    if (const auto& peer = spec.etcd.peer_url_tls) {
        tls.set("peer", tls_group(peer->tls_ca_secret_ref, peer->server_tls_secret_ref, {}));
    }
    if (const auto& backup = spec.backup.tls) {
        tls.set("backup",
                tls_group(backup->tls_ca_secret_ref,
                          backup->server_tls_secret_ref,
                          backup->client_tls_secret_ref));
    }
    return tls;
}

// The document the stewards live by; its fields are described in the plugin's README.
json::Value steward_config(const Cluster& cluster, const std::vector<std::string>& hashes) {
    const api::EtcdConfig& spec = cluster.etcd->spec.etcd;
    const std::string port = ":" + std::to_string(cluster.client_port);
    json::Value members = json::object();
    for (std::size_t i = 0; i < cluster.members.size(); ++i) {
        members.set(cluster.members[i].name,
                    {
                        {"pod", cluster.members[i].pod},
                        {"configHash", hashes[i]},
                        {"config", member_config(cluster, cluster.members[i])},
                    });
    }
    json::Value config = {
        {"apiVersion", "config.capstan.dev/v1alpha1"},
        {"kind", "StewardConfiguration"},
        {"etcd",
         {{"name", cluster.name}, {"namespace", cluster.ns}, {"replicas", cluster.replicas}}},
        {"ports",
         {
             {"client", cluster.client_port},
             {"peer", cluster.peer_port},
             {"api", cluster.api_port},
             {"launcher", cluster.launcher_port},
         }},
        {"endpoints",
         {
             {"local", cluster.client_scheme() + cluster.local_host() + port},
             {"service", json::list({cluster.client_scheme() + cluster.client_service() + port})},
         }},
        {"dataDir", kDataDir},
        {"runDir", kRunDir},
        {"heartbeat", spec.heartbeat_duration.value_or("10s")},
        {"defragTimeout", spec.etcd_defrag_timeout.value_or("15m")},
        {"defragmentationSchedule", spec.defragmentation_schedule.value_or("")},
        {"backup", backup_config(cluster)},
        {"members", members},
        {"tls", tls_of(cluster.etcd->spec)},
    };
    if (!cluster.backup_tls()) {
        config.set("apiTokenSecret", cluster.api_token());
    }
    return config;
}

}  // namespace

json::Value config_map(const Cluster& cluster, const std::vector<std::string>& hashes) {
    CAPSTAN_CHECK(hashes.size() == cluster.members.size(), std::to_string(hashes.size()));
    return {
        {"apiVersion", "v1"},
        {"kind", "ConfigMap"},
        {"metadata", cluster.metadata(cluster.config_map(), "etcd-configmap")},
        {"data",
         {
             {"etcd.conf.yaml", to_yaml(cluster_config(cluster))},
             {"steward.yaml", json::dump_sorted(steward_config(cluster, hashes))},
         }},
    };
}

}  // namespace capstan::etcd
