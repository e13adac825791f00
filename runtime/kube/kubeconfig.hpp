// How to reach and authenticate to an API server: a kubeconfig file, or the pod's service account.
// Thread: [startup].
#pragma once

#include "capstan/clock.hpp"
#include "capstan/error.hpp"
#include "runtime/kube/credentials.hpp"
#include "runtime/net/http.hpp"

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace capstan::kube {

// Everything needed for net::make_http_client and Client. PEM texts are loaded already.
struct ConnectionConfig {
    net::HttpClientOptions http;
    std::string host;        // "127.0.0.1:6443"
    std::string ns;          // the context's namespace; "default" when it names none
    std::string token;       // literal
    std::string token_file;  // re-read every minute

    // nullptr: neither token nor file
    std::unique_ptr<TokenSource> make_tokens(const Clock& clock) const;
};

// `text`: YAML or JSON. `directory`: relative paths start here. `context` empty: current-context.
// Errors: invalid with the entry and field named ("kubeconfig user \"a\": …"), unsupported (exec,
// auth-provider, username/password, impersonation, proxy-url: "… is not supported yet").
Result<ConnectionConfig> parse_kubeconfig(std::string_view text,
                                          std::string_view directory,
                                          std::string_view context = {},
                                          const ReadFile& read = read_small_file);
Result<ConnectionConfig> load_kubeconfig(const std::string& path,
                                         std::string_view context = {},
                                         const ReadFile& read = read_small_file);

using Environment = std::function<std::optional<std::string>(const std::string& name)>;
// The pod's service account. Errors: not_found ("not in a cluster: KUBERNETES_SERVICE_HOST is not
// set"), invalid.
Result<ConnectionConfig> load_in_cluster(
    const Environment& environment,
    const ReadFile& read = read_small_file,
    const std::string& directory = "/var/run/secrets/kubernetes.io/serviceaccount");

}  // namespace capstan::kube
