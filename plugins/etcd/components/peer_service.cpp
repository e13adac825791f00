#include "plugins/etcd/components/components.hpp"

namespace capstan::etcd {

// Headless, and it names pods that are not ready: members must find each other
// before there is a quorum.
json::Value peer_service(const Cluster& cluster) {
    return {
        {"apiVersion", "v1"},
        {"kind", "Service"},
        {"metadata", cluster.metadata(cluster.peer_service(), "etcd-peer-service")},
        {"spec",
         {
             {"type", "ClusterIP"},
             {"clusterIP", "None"},
             {"sessionAffinity", "None"},
             {"publishNotReadyAddresses", true},
             {"selector", cluster.pod_selector()},
             {"ports",
              json::list({{
                  {"name", "peer"},
                  {"port", cluster.peer_port},
                  {"protocol", "TCP"},
                  {"targetPort", cluster.peer_port},
              }})},
         }},
    };
}

}  // namespace capstan::etcd
