#include "plugins/etcd/components/components.hpp"

namespace capstan::etcd {

// Without a spec: holder and renew time are the steward's.
json::Value member_lease(const Cluster& cluster, const Member& member) {
    return {
        {"apiVersion", "coordination.k8s.io/v1"},
        {"kind", "Lease"},
        {"metadata", cluster.metadata(member.name, "etcd-member-lease")},
    };
}

}  // namespace capstan::etcd
