// One Etcd, resolved: every name, port, image and default that its children are made from.
//
// Pure. Defaults and names: etcd-druid 0.38. Owner: the reconcile that made it. Thread: values.
#pragma once

#include "api/etcd.hpp"
#include "api/etcd_member.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace capstan::etcd {

inline constexpr std::string_view kPluginVersion = "0.1.0";
inline constexpr std::string_view kMemberGate = "EtcdMember";
inline constexpr std::string_view kFinalizer = "druid.gardener.cloud/etcd-druid";
// label value; selectors of running clusters depend on it
inline constexpr std::string_view kManagedBy = "etcd-druid";

inline constexpr std::string_view kAnnotationOperation = "druid.gardener.cloud/operation";
inline constexpr std::string_view kAnnotationOperationOld = "gardener.cloud/operation";
inline constexpr std::string_view kAnnotationSuspend =
    "druid.gardener.cloud/suspend-etcd-spec-reconcile";
inline constexpr std::string_view kAnnotationUnhealthyEviction =
    "resources.druid.gardener.cloud/allow-unhealthy-pod-eviction";
inline constexpr std::string_view kAnnotationCreateAsLearner =
    "druid.gardener.cloud/create-as-learner";
inline constexpr std::string_view kAnnotationConfigHash = "druid.gardener.cloud/config-hash";
inline constexpr std::string_view kLabelOwnedBy = "gardener.cloud/owned-by";
inline constexpr std::string_view kLabelPodName = "druid.gardener.cloud/pod-name";

inline constexpr std::string_view kDataMount = "/var/etcd/data";
inline constexpr std::string_view kDataDir = "/var/etcd/data/new.etcd";
inline constexpr std::string_view kRunDir = "/var/run/capstan";
inline constexpr std::string_view kBinDir = "/opt/capstan";
// in memory; the steward writes it from the Secrets of the spec
inline constexpr std::string_view kTlsDir = "/var/run/capstan/tls";

inline constexpr std::int32_t kReplicasMax = 9;  // raft groups beyond this only get slower

// The plugin's own part of the configuration file.
struct Settings {
    std::string etcd_image{"quay.io/coreos/etcd:v3.5.33"};
    std::string capstan_image{"capstan:" + std::string(kPluginVersion)};
    // gives a Local store's directory to the pod's user
    std::string chown_image{"docker.io/library/alpine:3.22"};
    // a changed spec is carried out without the operation annotation
    bool auto_reconcile{true};
    bool automount_token{true};  // ServiceAccount.automountServiceAccountToken
};
Result<Settings> read_settings(const json::Value& config);

struct Member {
    std::string name;  // etcd's name for it, the EtcdMember's and the Lease's
    std::string pod;
    std::string peer_url;
    std::string client_url;
};

struct Cluster {
    const api::Etcd* etcd{nullptr};  // borrowed
    std::string name;
    std::string ns;
    std::int32_t replicas{0};
    std::vector<Member> members;  // one per replica, by ordinal
    std::int32_t client_port{2379};
    std::int32_t peer_port{2380};
    std::int32_t api_port{8080};
    std::int32_t launcher_port{9095};
    std::int32_t health_port{9096};  // etcd's /health and /metrics inside the pod, without TLS
    std::int64_t quota_bytes{8589934592};
    std::string etcd_image;
    std::string steward_image;
    std::string chown_image;
    std::int64_t delta_memory_bytes{100 * 1024 * 1024};
    std::string claim_name;
    std::string storage_capacity;
    bool automount_token{true};

    bool client_tls() const { return etcd->spec.etcd.client_url_tls.has_value(); }
    bool backup_tls() const { return etcd->spec.backup.tls.has_value(); }
    bool peer_tls() const { return etcd->spec.etcd.peer_url_tls.has_value(); }
    std::string client_scheme() const { return client_tls() ? "https://" : "http://"; }
    std::string peer_scheme() const { return peer_tls() ? "https://" : "http://"; }
    std::string client_service() const { return name + "-client"; }
    std::string peer_service() const { return name + "-peer"; }
    std::string config_map() const { return name + "-config"; }
    // Secret with the token of the stewards' API; without TLS of that API only.
    std::string api_token() const { return api_token_of(name); }
    static std::string api_token_of(const std::string& etcd) { return etcd + "-api-token"; }
    std::string role() const { return "druid.gardener.cloud:etcd:" + name; }
    std::string local_host() const { return name + "-local"; }

    json::Value default_labels() const;  // the two labels of every child
    json::Value pod_selector() const;    // those of every pod
    json::Value owner_references() const;
    // metadata of a child: name, namespace, labels with name and component, owner.
    json::Value metadata(std::string_view child, std::string_view component) const;
};

// Requires: a decoded Etcd that outlives the result. Errors: invalid (a quantity, or more than
// kReplicasMax members), unsupported (see refusal()).
Result<Cluster> resolve(const api::Etcd& etcd, const Settings& settings);

// Something in the spec that this version does not do.
struct Refusal {
    std::string reason;   // condition reason, TitleCase
    std::string message;  // one sentence
};
// What keeps the Etcd from being carried out at all; nullopt: nothing. `members`: those there are.
std::optional<Refusal> refusal(const api::Etcd& etcd,
                               bool member_gate,
                               const std::vector<api::EtcdMember>& members = {});

}  // namespace capstan::etcd
