// How to reach and authenticate to an API server: a kubeconfig file, or the pod's service account.
// Thread: [startup].
#pragma once

#include "capstan/clock.hpp"
#include "capstan/error.hpp"
#include "runtime/kube/credentials.hpp"
#include "runtime/kube/exec_plugin.hpp"
#include "runtime/kube/tls_rotation.hpp"
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
    std::string host;            // "127.0.0.1:6443"
    std::string ns;              // the context's namespace; "default" when it names none
    std::string base_path;       // "/k8s/clusters/c-1": before every target; usually ""
    std::string user;            // for errors: "kubeconfig user \"a\""
    std::string token;           // literal
    std::string token_file;      // re-read every minute
    TlsFiles files;              // where the PEM texts came from, to be read again
    net::Headers headers;        // of every request: impersonation, basic authentication
    bool secret_headers{false};  // a password is among them
    // Large answers may come as gzip. Not in a cluster and not from this machine, where bytes cost
    // less than the CPU time of packing them (docs/operations.md).
    bool compress{false};
    std::optional<ExecConfig> exec;  // a program that prints credentials

    // nullptr: neither token nor file (Connection, connection.hpp, cares for exec too)
    std::unique_ptr<TokenSource> make_tokens(const Clock& clock, TokenTold told = {}) const;
};

// `text`: YAML or JSON. `directory`: relative paths start here. `context` empty: current-context.
// Errors: invalid with the entry and field named ("kubeconfig user \"a\": …"), unsupported
// (auth-provider, exec plugins that need a terminal).
Result<ConnectionConfig> parse_kubeconfig(std::string_view text,
                                          std::string_view directory,
                                          std::string_view context = {},
                                          const ReadFile& read = read_small_file);
// `paths`: a file, or as $KUBECONFIG files separated by ":", of which absent ones are left out; the
// first that defines an entry wins, and relative paths start at the file they stand in. Errors
// begin with the file.
Result<ConnectionConfig> load_kubeconfig(const std::string& paths,
                                         std::string_view context = {},
                                         const ReadFile& read = read_small_file);

using Environment = std::function<std::optional<std::string>(const std::string& name)>;
// The pod's service account. Errors: not_found ("not in a cluster: KUBERNETES_SERVICE_HOST is not
// set"), invalid.
Result<ConnectionConfig> load_in_cluster(
    const Environment& environment,
    const ReadFile& read = read_small_file,
    const std::string& directory = "/var/run/secrets/kubernetes.io/serviceaccount");
// HTTPS_PROXY, HTTP_PROXY and NO_PROXY, unless the kubeconfig names a proxy.
// Errors: invalid.
Result<void> use_environment_proxy(ConnectionConfig& config, const Environment& environment);

}  // namespace capstan::kube
