#include "plugins/etcd/components/components.hpp"

namespace capstan::etcd {

namespace {

json::Value port(std::string_view name, std::int32_t number) {
    return {
        {"name", name},
        {"port", number},
        {"protocol", "TCP"},
        {"targetPort", number},
    };
}

}  // namespace

json::Value client_service(const Cluster& cluster) {
    json::Value metadata = cluster.metadata(cluster.client_service(), "etcd-client-service");
    json::Value spec = {
        {"type", "ClusterIP"},
        {"sessionAffinity", "None"},
        {"selector", cluster.pod_selector()},
        {"ports",
         json::list({
             port("client", cluster.client_port),
             port("server", cluster.peer_port),
             port("backuprestore", cluster.api_port),
         })},
    };
    if (const auto& wish = cluster.etcd->spec.etcd.client_service) {
        for (const auto& [key, value] : wish->labels) {
            metadata["labels"].set(key, value);
        }
        if (!wish->annotations.empty()) {
            metadata.set("annotations", api::encode(wish->annotations));
        }
        if (wish->traffic_distribution) {
            spec.set("trafficDistribution", to_string(*wish->traffic_distribution));
        }
    }
    return {
        {"apiVersion", "v1"},
        {"kind", "Service"},
        {"metadata", metadata},
        {"spec", spec},
    };
}

}  // namespace capstan::etcd
