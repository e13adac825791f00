#include "plugins/etcd/cluster.hpp"

#include "plugins/etcd/components/backup_store.hpp"

#include <algorithm>

namespace capstan::etcd {

namespace {

// The last part of an image's name, without tag and digest: "…/etcd-wrapper:v0.6" is etcd-wrapper.
std::string_view image_name(std::string_view image) {
    image = image.substr(0, image.find('@'));
    image = image.substr(image.rfind('/') + 1);  // npos + 1 is 0
    return image.substr(0, image.find(':'));
}

bool foreign_image(std::string_view image) {
    static constexpr std::string_view kNames[] = {
        "etcd-wrapper", "etcdbrctl", "etcd-backup-restore"};
    return std::find(std::begin(kNames), std::end(kNames), image_name(image)) != std::end(kNames);
}

}  // namespace

Result<Settings> read_settings(const json::Value& config) {
    Settings settings;
    const json::View view(config);
    const auto text = [&](const json::View& field, std::string& out) -> Result<void> {
        if (field.present()) {
            CAPSTAN_TRY(auto value, field.as_string());
            out = value;
        }
        return ok();
    };
    const auto flag = [&](const json::View& field, bool& out) -> Result<void> {
        if (field.present()) {
            CAPSTAN_TRY(out, field.as_bool());
        }
        return ok();
    };
    CAPSTAN_TRY(text(view["images"]["etcd"], settings.etcd_image));
    CAPSTAN_TRY(text(view["images"]["capstan"], settings.capstan_image));
    CAPSTAN_TRY(text(view["images"]["alpine"], settings.chown_image));
    CAPSTAN_TRY(flag(view["enableEtcdSpecAutoReconcile"], settings.auto_reconcile));
    bool no_automount = false;
    CAPSTAN_TRY(flag(view["disableEtcdServiceAccountAutomount"], no_automount));
    settings.automount_token = !no_automount;
    return settings;
}

json::Value Cluster::default_labels() const {
    return {
        {"app.kubernetes.io/managed-by", kManagedBy},
        {"app.kubernetes.io/part-of", name},
    };
}

json::Value Cluster::pod_selector() const {
    return {
        {"app.kubernetes.io/component", "etcd-statefulset"},
        {"app.kubernetes.io/managed-by", kManagedBy},
        {"app.kubernetes.io/part-of", name},
    };
}

json::Value Cluster::owner_references() const {
    return json::list({{
        {"apiVersion", api::kApiVersion},
        {"kind", api::kEtcdKind},
        {"name", name},
        {"uid", etcd->metadata.uid},
        {"controller", true},
        {"blockOwnerDeletion", true},
    }});
}

json::Value Cluster::metadata(std::string_view child, std::string_view component) const {
    json::Value labels = default_labels();
    std::string name_label(child);
    std::replace(name_label.begin(), name_label.end(), ':', '-');
    labels.set("app.kubernetes.io/name", name_label);
    labels.set("app.kubernetes.io/component", component);
    return {
        {"name", child},
        {"namespace", ns},
        {"labels", labels},
        {"ownerReferences", owner_references()},
    };
}

Result<Cluster> resolve(const api::Etcd& etcd, const Settings& settings) {
    const api::EtcdSpec& spec = etcd.spec;
    Cluster cluster;
    cluster.etcd = &etcd;
    cluster.name = etcd.metadata.name;
    cluster.ns = etcd.metadata.ns;
    if (spec.replicas < 0 || spec.replicas > kReplicasMax) {
        return fail(Code::invalid,
                    "/spec/replicas: " + std::to_string(spec.replicas) + " is not between 0 and " +
                        std::to_string(kReplicasMax));
    }
    cluster.replicas = spec.replicas;
    cluster.client_port = spec.etcd.client_port.value_or(cluster.client_port);
    cluster.peer_port = spec.etcd.server_port.value_or(cluster.peer_port);
    cluster.api_port = spec.backup.port.value_or(cluster.api_port);
    cluster.launcher_port = spec.etcd.wrapper_port.value_or(cluster.launcher_port);
    cluster.health_port = cluster.launcher_port + 1;
    if (spec.etcd.quota) {
        auto bytes = api::quantity(*spec.etcd.quota);
        if (!bytes) {
            return fail(with_context(bytes.error(), "/spec/etcd/quota"));
        }
        cluster.quota_bytes = bytes.value();
    }
    if (spec.backup.delta_snapshot_memory_limit) {
        auto bytes = api::quantity(*spec.backup.delta_snapshot_memory_limit);
        if (!bytes) {
            return fail(with_context(bytes.error(), "/spec/backup/deltaSnapshotMemoryLimit"));
        }
        cluster.delta_memory_bytes = bytes.value();
    }
    cluster.chown_image = settings.chown_image;
    cluster.etcd_image = spec.etcd.image.value_or(settings.etcd_image);
    cluster.steward_image = spec.backup.image.value_or(settings.capstan_image);
    cluster.claim_name = spec.volume_claim_template.value_or(cluster.name);
    cluster.storage_capacity = spec.storage_capacity ? spec.storage_capacity->text : "16Gi";
    cluster.automount_token = settings.automount_token;

    const std::string prefix =
        spec.member_name_prefix.value_or("").empty() ? "" : *spec.member_name_prefix + "-";
    for (std::int32_t ordinal = 0; ordinal < cluster.replicas; ++ordinal) {
        const std::string pod = cluster.name + "-" + std::to_string(ordinal);
        const std::string host = pod + "." + cluster.peer_service() + "." + cluster.ns + ".svc";
        cluster.members.push_back({
            prefix + pod,
            pod,
            cluster.peer_scheme() + host + ":" + std::to_string(cluster.peer_port),
            cluster.client_scheme() + host + ":" + std::to_string(cluster.client_port),
        });
    }
    return cluster;
}

namespace {

// Running without the store is no way out: a cluster whose backups exist must be restored from
// them, never begun empty.
std::optional<Refusal> refused_store(const api::Etcd& etcd) {
    const StoreKind kind = store_kind(etcd);
    if (kind == StoreKind::other) {
        return Refusal{"BackupsNotSupported",
                       "spec.backup.store.provider \"" +
                           etcd.spec.backup.store->provider->substr(0, 64) +
                           "\" is not supported yet; the ones that work are S3 and Local"};
    }
    const bool contained =
        kind == StoreKind::none || !etcd.spec.backup.store->container.value_or("").empty();
    if (!contained) {
        return Refusal{"StoreIncomplete",
                       "spec.backup.store.container is missing; it names the bucket, or the "
                       "directory of a Local store"};
    }
    return std::nullopt;
}

// Names of the Secrets that a TLS block lacks; "" when it is complete.
std::string missing_secret(const api::CaSecretReference& ca,
                           const api::SecretReference& server,
                           const std::optional<api::SecretReference>& client) {
    return ca.name.value_or("").empty()                  ? "tlsCASecretRef.name"
           : server.name.value_or("").empty()            ? "serverTLSSecretRef.name"
           : client && client->name.value_or("").empty() ? "clientTLSSecretRef.name"
                                                         : "";
}

// A block of client, server and CA. `why`: what the client pair, which the CRD does not ask for, is
// needed for.
std::optional<Refusal> incomplete(std::string_view block,
                                  const std::optional<api::TlsConfig>& tls,
                                  std::string_view why) {
    if (!tls) {
        return std::nullopt;
    }
    const std::string lacks = missing_secret(
        tls->tls_ca_secret_ref, tls->server_tls_secret_ref, tls->client_tls_secret_ref);
    if (!lacks.empty()) {
        return Refusal{"TLSIncomplete", std::string(block) + "." + lacks + " is missing"};
    }
    if (!tls->client_tls_secret_ref) {
        return Refusal{"TLSIncomplete",
                       std::string(block) + ".clientTLSSecretRef is missing; " + std::string(why)};
    }
    return std::nullopt;
}

std::optional<Refusal> refused_tls(const api::EtcdSpec& spec,
                                   const std::vector<api::EtcdMember>& members) {
    const auto& peer = spec.etcd.peer_url_tls;
    if (auto why = incomplete("spec.etcd.clientUrlTls",
                              spec.etcd.client_url_tls,
                              "the steward needs a client pair to talk to its member")) {
        return why;
    }
    if (auto why = incomplete("spec.backup.tls",
                              spec.backup.tls,
                              "the stewards need a client pair to talk to the leading one")) {
        return why;
    }
    const std::string peer_lacks =
        peer ? missing_secret(peer->tls_ca_secret_ref, peer->server_tls_secret_ref, {}) : "";
    if (!peer_lacks.empty()) {
        return Refusal{"TLSIncomplete", "spec.etcd.peerUrlTls." + peer_lacks + " is missing"};
    }
    for (const api::EtcdMember& member : members) {
        if (member.status && member.status->peer_tls_enabled &&
            *member.status->peer_tls_enabled != peer.has_value()) {
            return Refusal{"PeerTLSChangeNotSupported",
                           "spec.etcd.peerUrlTls was " + std::string(peer ? "added" : "removed") +
                               ", which this version cannot do for a running cluster; take the "
                               "change back"};
        }
    }
    return std::nullopt;
}

}  // namespace

std::optional<Refusal> refusal(const api::Etcd& etcd,
                               bool member_gate,
                               const std::vector<api::EtcdMember>& members) {
    const api::EtcdSpec& spec = etcd.spec;
    if (!member_gate) {
        return Refusal{"GateDisabled",
                       "Feature gate EtcdMember of plugin etcd.capstan.dev is off, and this "
                       "version runs clusters only with it on; set "
                       "plugins.etcd.featureGates.EtcdMember to true"};
    }
    if (auto tls = refused_tls(spec, members)) {
        return tls;
    }
    if (auto store = refused_store(etcd)) {
        return store;
    }
    if (spec.etcd.bootstrap_with_existing_cluster) {
        return Refusal{"BootstrapNotSupported",
                       "spec.etcd.bootstrapWithExistingCluster asks to join a running cluster, "
                       "which this version cannot do yet"};
    }
    if (!spec.etcd.additional_advertise_peer_urls.empty()) {
        return Refusal{"PeerURLsNotSupported",
                       "spec.etcd.additionalAdvertisePeerURLs asks for further peer addresses, "
                       "which this version cannot announce yet"};
    }
    if (spec.etcd.image && foreign_image(*spec.etcd.image)) {
        return Refusal{"ImageNotUsable",
                       "spec.etcd.image must be an image with /usr/local/bin/etcd; \"" +
                           spec.etcd.image->substr(0, 256) + "\" is the wrapper's"};
    }
    if (spec.backup.image && foreign_image(*spec.backup.image)) {
        return Refusal{"ImageNotUsable",
                       "spec.backup.image must be a capstan image; \"" +
                           spec.backup.image->substr(0, 256) + "\" is the one of backup-restore"};
    }
    return std::nullopt;
}

}  // namespace capstan::etcd
