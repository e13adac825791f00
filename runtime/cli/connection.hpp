// Which API server `capstan run` talks to, and as whom. Thread: [startup].
#pragma once

#include "capstan/error.hpp"
#include "runtime/kube/kubeconfig.hpp"

#include <optional>
#include <string>

namespace capstan::cli {

// Of a host whose credentials may not do what its plugins ask (an election says its own).
inline constexpr const char* kRightsRemedy = "apply the rules that `capstan rbac --config` prints";

std::optional<std::string> environment(const std::string& name);  // of this process

// `kubeconfig` when given, a file or several as in $KUBECONFIG; else the pod map of local mode
// (CAPSTAN_POD_MAP); else the pod's service account; else $KUBECONFIG. `context` empty: the
// current one. A proxy of the environment is filled in. Errors: invalid, unsupported or not_found,
// with what was tried and the remedy.
Result<kube::ConnectionConfig> find_connection(const std::string& kubeconfig,
                                               const std::string& context = {});

}  // namespace capstan::cli
