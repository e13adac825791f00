#include "plugins/etcd/components/components.hpp"

namespace capstan::etcd {

json::Value service_account(const Cluster& cluster) {
    return {
        {"apiVersion", "v1"},
        {"kind", "ServiceAccount"},
        {"metadata", cluster.metadata(cluster.name, "etcd-service-account")},
        {"automountServiceAccountToken", cluster.automount_token},
    };
}

}  // namespace capstan::etcd
