#include "plugins/etcd/etcd_config.hpp"

namespace capstan::etcd {

namespace {

std::string initial_cluster(const Cluster& cluster) {
    std::string text;
    for (const Member& member : cluster.members) {
        text += (text.empty() ? "" : ",") + member.name + "=" + member.peer_url;
    }
    return text;
}

// What both shapes have in common.
json::Value common(const Cluster& cluster) {
    const api::EtcdSpec& spec = cluster.etcd->spec;
    const api::SharedConfig shared = spec.shared_config.value_or(api::SharedConfig{});
    json::Value config = {
        {"data-dir", kDataDir},
        {"metrics", to_string(spec.etcd.metrics.value_or(api::MetricsDetail::basic))},
        {"snapshot-count", spec.etcd.snapshot_count.value_or(10000)},
        {"enable-grpc-gateway", true},  // the steward talks to it, whatever the spec says
        {"quota-backend-bytes", cluster.quota_bytes},
        {"initial-cluster", initial_cluster(cluster)},
        {"initial-cluster-state", "new"},
        {"initial-cluster-token", "etcd-cluster"},
        {"auto-compaction-mode",
         to_string(shared.auto_compaction_mode.value_or(api::CompactionMode::periodic))},
        {"auto-compaction-retention", shared.auto_compaction_retention.value_or("30m")},
        {"listen-peer-urls",
         cluster.peer_scheme() + "0.0.0.0:" + std::to_string(cluster.peer_port)},
        {"listen-client-urls",
         cluster.client_scheme() + "0.0.0.0:" + std::to_string(cluster.client_port)},
        {"next-cluster-version-compatible", true},
    };
    if (spec.etcd.backend_bbolt_freelist_type) {
        config.set("backend-bbolt-freelist-type",
                   to_string(*spec.etcd.backend_bbolt_freelist_type));
    }
    return config;
}

json::Value security(std::string_view kind) {
    const std::string directory = std::string(kTlsDir) + "/" + std::string(kind);
    return {
        {"cert-file", directory + "/tls.crt"},
        {"key-file", directory + "/tls.key"},
        {"client-cert-auth", true},
        {"trusted-ca-file", directory + "/ca.crt"},
        {"auto-tls", false},
    };
}

void add_security(const Cluster& cluster, json::Value& config) {
    if (cluster.client_tls()) {
        json::Value client = security("client");
        // The gateway calls its own member as a client, and a server's pair may not do that.
        client.set("client-cert-file", std::string(kTlsDir) + "/client/client.crt");
        client.set("client-key-file", std::string(kTlsDir) + "/client/client.key");
        config.set("client-transport-security", std::move(client));
    }
    if (cluster.peer_tls()) {
        json::Value peer = security("peer");
        if (cluster.etcd->spec.etcd.peer_url_tls->skip_client_san_verification.value_or(false)) {
            peer.set("skip-client-san-verification", true);
        }
        config.set("peer-transport-security", std::move(peer));
    }
}

}  // namespace

json::Value cluster_config(const Cluster& cluster) {
    json::Value config = common(cluster);
    json::Value peer_urls = json::object();
    json::Value client_urls = json::object();
    for (const Member& member : cluster.members) {
        peer_urls.set(member.name, json::list({member.peer_url}));
        client_urls.set(member.name, json::list({member.client_url}));
    }
    config.set("name", "etcd-config");
    config.set("initial-advertise-peer-urls", std::move(peer_urls));
    config.set("advertise-client-urls", std::move(client_urls));
    if (!cluster.etcd->spec.member_name_prefix.value_or("").empty()) {
        config.set("member-name-prefix", *cluster.etcd->spec.member_name_prefix);
    }
    return config;
}

json::Value member_config(const Cluster& cluster, const Member& member) {
    json::Value config = common(cluster);
    config.set("name", member.name);
    config.set("initial-advertise-peer-urls", member.peer_url);
    config.set("advertise-client-urls", member.client_url);
    // Nanoseconds; the watch for delta snapshots lives on these. A duration
    // as text would stop etcd.
    config.set("experimental-watch-progress-notify-interval", 5'000'000'000);
    // For the launcher, which speaks no TLS.
    config.set("listen-metrics-urls", "http://127.0.0.1:" + std::to_string(cluster.health_port));
    add_security(cluster, config);
    return config;
}

std::string restart_relevant(const json::Value& member_config) {
    json::Value relevant = member_config;
    relevant.erase("initial-cluster");  // read by etcd only before its first start
    relevant.erase("initial-cluster-state");
    relevant.erase("initial-cluster-token");
    return json::dump_sorted(relevant);
}

}  // namespace capstan::etcd
