#include "plugins/etcd/components/components.hpp"

namespace capstan::etcd {

json::Value api_token_secret(const Cluster& cluster) {
    return {
        {"apiVersion", "v1"},
        {"kind", "Secret"},
        {"metadata", cluster.metadata(cluster.api_token(), "etcd-api-token")},
        {"type", "Opaque"},
        {"immutable", true},
    };
}

}  // namespace capstan::etcd
