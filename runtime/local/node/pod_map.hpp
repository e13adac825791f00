// What CAPSTAN_POD_MAP tells a container: where its paths, its names and its API server are. Pure.
//
//     {"paths": {"/var/etcd/data": "/home/me/.capstan/volumes/…"},
//      "names": {"main-0.main-peer.shop.svc": "127.77.0.2",
//                "main-client.shop.svc": ["127.77.0.2", "127.77.0.3"],
//                "main-local": "127.77.0.2"},
//      "podIP": "127.77.0.2",
//      "apiServer": {"url": "https://127.0.0.1:6443", "caFile": "…", "tokenFile": "…"},
//      "stewardTokenFile": "/home/me/.capstan/steward-token"}
//
// Names come in every form a resolver in a pod accepts: alone and with namespace, ".svc",
// ".svc.cluster.local". A name of a pod is text, a name of a Service is a list: of its ready pods,
// or all with publishNotReadyAddresses.
#pragma once

#include "capstan/json.hpp"
#include "capstan/object_ref.hpp"
#include "runtime/local/node/path_map.hpp"

#include <string>
#include <vector>

namespace capstan::local {

struct NamedPod {
    ObjectKey key;
    std::string hostname;
    std::string subdomain;  // empty: no name of its own
    std::string address;
    bool ready{false};
    bool ending{false};
    const json::Value* labels{nullptr};  // nullptr: expected, but not there yet
};

struct NamedService {
    ObjectKey key;
    const json::Value* selector{nullptr};
    bool publish_not_ready{false};
};

struct PodMapInput {
    std::string ns;  // of the pod whose map it is: names in it also go without namespace
    std::string pod_ip;
    std::vector<std::string> aliases;
    const PathMap* paths{nullptr};
    std::string api_url;
    std::string ca_file;
    std::string token_file;
    std::string steward_token_file;  // empty: none
};

json::Value build_pod_map(const PodMapInput& input,
                          const std::vector<NamedPod>& pods,
                          const std::vector<NamedService>& services);

}  // namespace capstan::local
