#include "plugins/etcd/components/components.hpp"

namespace capstan::etcd {

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
    return {
        {"apiVersion", "rbac.authorization.k8s.io/v1"},
        {"kind", "Role"},
        {"metadata", cluster.metadata(cluster.role(), "etcd-role")},
        {"rules", rules},
    };
}

}  // namespace capstan::etcd
