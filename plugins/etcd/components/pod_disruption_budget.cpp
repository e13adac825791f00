#include "plugins/etcd/components/components.hpp"

namespace capstan::etcd {

json::Value pod_disruption_budget(const Cluster& cluster) {
    const std::int32_t quorum = cluster.replicas <= 1 ? 0 : cluster.replicas / 2 + 1;
    json::Value spec = {
        {"minAvailable", quorum},
        {"selector", {{"matchLabels", cluster.default_labels()}}},
    };
    if (cluster.etcd->metadata.annotations.contains(std::string(kAnnotationUnhealthyEviction))) {
        spec.set("unhealthyPodEvictionPolicy", "AlwaysAllow");
    }
    return {
        {"apiVersion", "policy/v1"},
        {"kind", "PodDisruptionBudget"},
        {"metadata", cluster.metadata(cluster.name, "etcd-pdb")},
        {"spec", spec},
    };
}

}  // namespace capstan::etcd
