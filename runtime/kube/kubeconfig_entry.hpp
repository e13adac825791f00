// Inside of kubeconfig loading: one entry of clusters, users or contexts. Not for other folders.
#pragma once

#include "capstan/json.hpp"
#include "runtime/kube/kubeconfig.hpp"

#include <string>
#include <string_view>

namespace capstan::kube {

// One entry with what errors call it, and where relative paths of its file start.
struct Entry {
    json::View view;
    std::string name;  // kubeconfig user "a"
    std::string directory;

    std::string text(std::string_view field) const {
        return std::string(view[field].string_or(""));
    }
    std::string path(std::string_view field) const;  // "" when absent
    Error error(std::string_view field, std::string_view what, Code code = Code::invalid) const {
        return Error{code, name + ": " + std::string(field) + " " + std::string(what), {}};
    }
};

Result<void> read_cluster(const Entry& cluster, const ReadFile& read, ConnectionConfig& config);
// After read_cluster. `cluster`: for exec plugins that want to know it.
Result<void> read_user(const Entry& user,
                       const Entry& cluster,
                       const ReadFile& read,
                       ConnectionConfig& config);

}  // namespace capstan::kube
