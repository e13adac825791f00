// Where names, paths and addresses of the pod contract really are.
//
// On Kubernetes they are what they say and this map is empty. In local mode the node describes the
// pod's world in the file named by CAPSTAN_POD_MAP: directories behind mount paths, addresses
// behind in-cluster names. Values.
#pragma once

#include "capstan/error.hpp"
#include "capstan/json.hpp"

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace capstan::steward {

class PodMap {
public:
    PodMap() = default;  // Kubernetes: maps everything to itself
    // {"paths": {"/var/etcd": "/dir"}, "names": {"main-0.main-peer.ns.svc": "127.77.0.2"
    // or [..]}, "podIP": ".."}
    static Result<PodMap> decode(const json::Value& value);
    // the file of CAPSTAN_POD_MAP, empty when unset. Errors: invalid, unavailable
    static Result<PodMap> load();

    std::string path(std::string_view path) const;  // longest mapped prefix wins
    // "http://name:2380" -> "http://127.77.0.2:2380"; 0.0.0.0 -> the pod's address. Errors:
    // not_found, a name that has no address yet.
    Result<std::string> url(std::string_view url) const;
    // All addresses behind one URL's name: a Service has one for each ready pod. Empty: none ready.
    std::vector<std::string> urls(std::string_view url) const;
    bool local() const noexcept { return local_; }
    // Of the token that the stewards on this machine share; "" when there is none.
    const std::string& steward_token_file() const noexcept { return steward_token_file_; }

private:
    const std::vector<std::string>* addresses(std::string_view host) const;
    bool local_{false};
    std::string pod_ip_, steward_token_file_;
    std::vector<std::pair<std::string, std::string>> paths_;
    std::vector<std::pair<std::string, std::vector<std::string>>> names_;
};

}  // namespace capstan::steward
