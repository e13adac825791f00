#include "runtime/cli/connection.hpp"

#include "capstan/json.hpp"

#include <cstdlib>

namespace capstan::cli {
namespace {

// {"apiServer": {"url", "caFile", "tokenFile"}}: written by the local node for each pod.
Result<kube::ConnectionConfig> from_pod_map(const std::string& path) {
    CAPSTAN_TRY(const std::string text, kube::read_small_file(path));
    CAPSTAN_TRY(const json::Value map, json::parse(text));
    const json::View server = json::View(map)["apiServer"];
    CAPSTAN_TRY(const std::string_view url, server["url"].as_string());
    CAPSTAN_TRY(const std::string_view ca_file, server["caFile"].as_string());
    CAPSTAN_TRY(const std::string_view token_file, server["tokenFile"].as_string());
    kube::ConnectionConfig connection;
    connection.http.endpoint = url;
    connection.files.ca = ca_file;
    CAPSTAN_TRY(connection.http.tls.ca_pem, kube::read_small_file(connection.files.ca));
    connection.host = url.substr(url.find("//") + 2);
    connection.ns = environment("POD_NAMESPACE").value_or("default");
    connection.user = "this pod";
    connection.token_file = token_file;
    if (const auto token = kube::read_token(connection.token_file, kube::read_small_file); !token) {
        return fail(with_context(token.error(), "apiServer.tokenFile"));
    }
    return connection;
}

Result<kube::ConnectionConfig> look_around(const std::string& kubeconfig,
                                           const std::string& context) {
    if (!kubeconfig.empty()) {
        return kube::load_kubeconfig(kubeconfig, context);
    }
    if (const auto map = environment("CAPSTAN_POD_MAP")) {
        auto connection = from_pod_map(*map);
        if (!connection) {
            return fail(with_context(connection.error(), "CAPSTAN_POD_MAP " + *map));
        }
        return connection;
    }
    auto in_cluster = kube::load_in_cluster(environment);
    if (in_cluster || in_cluster.error().code != Code::not_found) {
        return in_cluster;
    }
    if (const auto file = environment("KUBECONFIG"); file && !file->empty()) {
        auto connection = kube::load_kubeconfig(*file, context);
        if (!connection) {
            return fail(with_context(connection.error(), "$KUBECONFIG"));
        }
        return connection;
    }
    return fail(Code::not_found,
                "no API server: " + in_cluster.error().message +
                    ", and neither `kubeconfig` in the configuration nor $KUBECONFIG is set; "
                    "remedy: --kubeconfig FILE (~/.kube/config is not read by itself)");
}

}  // namespace

std::optional<std::string> environment(const std::string& name) {
    const char* value = std::getenv(name.c_str());
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

Result<kube::ConnectionConfig> find_connection(const std::string& kubeconfig,
                                               const std::string& context) {
    CAPSTAN_TRY(kube::ConnectionConfig connection, look_around(kubeconfig, context));
    CAPSTAN_TRY(kube::use_environment_proxy(connection, environment));
    return connection;
}

}  // namespace capstan::cli
