#include "plugins/etcd/components/components.hpp"

#include "api/etcd_member.hpp"

namespace capstan::etcd {

json::Value etcd_member(const Cluster& cluster,
                        const Member& member,
                        const std::string& config_hash) {
    json::Value metadata = cluster.metadata(member.name, "etcd-member");
    metadata["labels"].set(kLabelOwnedBy, cluster.name);
    if (member.name != member.pod) {
        metadata["labels"].set(kLabelPodName, member.pod);
    }
    metadata.set("annotations", {{kAnnotationConfigHash, config_hash}});
    return {
        {"apiVersion", api::kApiVersion},
        {"kind", api::kEtcdMemberKind},
        {"metadata", metadata},
    };
}

}  // namespace capstan::etcd
