#include "plugins/etcd/components/components.hpp"

namespace capstan::etcd {

namespace {

void add_name(json::Value& names, const std::optional<std::string>& name) {
    if (name && !name->empty()) {
        names.push_back(*name);
    }
}

void add_names(json::Value& names, const std::optional<api::TlsConfig>& tls) {
    if (tls) {
        const auto& client = tls->client_tls_secret_ref;
        add_name(names, tls->tls_ca_secret_ref.name);
        add_name(names, tls->server_tls_secret_ref.name);
        add_name(names, client ? client->name : std::nullopt);
    }
}

// The Secrets that the spec names for TLS, and the token of the stewards.
json::Value secrets_of(const Cluster& cluster) {
    const api::EtcdSpec& spec = cluster.etcd->spec;
    json::Value names = json::list();
    add_names(names, spec.etcd.client_url_tls);
    if (const auto& peer = spec.etcd.peer_url_tls) {
        add_name(names, peer->tls_ca_secret_ref.name);
        add_name(names, peer->server_tls_secret_ref.name);
    }
    add_names(names, spec.backup.tls);
    if (!cluster.backup_tls()) {
        names.push_back(cluster.api_token());
    }
    return names;
}

}  // namespace

// Every rule names its objects: the pods of one Etcd share a ServiceAccount, and reach
// nothing of another one.
json::Value role(const Cluster& cluster) {
    json::Value members = json::list();
    for (const Member& member : cluster.members) {
        members.push_back(member.name);
    }
    json::Value rules = json::list();
    if (!cluster.members.empty()) {  // an empty resourceNames would mean all
        rules.push_back({
            {"apiGroups", json::list({api::kGroup})},
            {"resources", json::list({"etcdmembers", "etcdmembers/status"})},
            {"resourceNames", members},
            {"verbs", json::list({"get", "list", "watch", "patch"})},
        });
        rules.push_back({
            {"apiGroups", json::list({"coordination.k8s.io"})},
            {"resources", json::list({"leases"})},
            {"resourceNames", members},
            {"verbs", json::list({"get", "list", "watch", "patch"})},
        });
    }
    rules.push_back({
        {"apiGroups", json::list({""})},
        {"resources", json::list({"configmaps"})},
        {"resourceNames", json::list({cluster.config_map()})},
        {"verbs", json::list({"get", "list", "watch"})},
    });
    rules.push_back({
        {"apiGroups", json::list({""})},
        {"resources", json::list({"secrets"})},
        {"resourceNames", secrets_of(cluster)},  // never empty
        {"verbs", json::list({"get"})},
    });
    return {
        {"apiVersion", "rbac.authorization.k8s.io/v1"},
        {"kind", "Role"},
        {"metadata", cluster.metadata(cluster.role(), "etcd-role")},
        {"rules", rules},
    };
}

}  // namespace capstan::etcd
