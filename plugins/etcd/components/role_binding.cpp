#include "plugins/etcd/components/components.hpp"

namespace capstan::etcd {

json::Value role_binding(const Cluster& cluster) {
    return {
        {"apiVersion", "rbac.authorization.k8s.io/v1"},
        {"kind", "RoleBinding"},
        {"metadata", cluster.metadata(cluster.role(), "etcd-role-binding")},
        {"roleRef",
         {
             {"apiGroup", "rbac.authorization.k8s.io"},
             {"kind", "Role"},
             {"name", cluster.role()},
         }},
        {"subjects",
         json::list({
             {{"kind", "ServiceAccount"}, {"name", cluster.name}, {"namespace", cluster.ns}},
         })},
    };
}

}  // namespace capstan::etcd
