#include "runtime/kube/kubeconfig.hpp"

#include "capstan/json.hpp"
#include "runtime/config/yaml.hpp"
#include "runtime/kube/kubeconfig_entry.hpp"
#include "runtime/net/proxy.hpp"
#include "runtime/net/url.hpp"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

namespace capstan::kube {
namespace {

constexpr std::size_t kFilesMax = 32;  // of a path list
constexpr std::size_t kNamesShown = 10;

// One file of the path list.
struct Source {
    json::Value root;
    std::string directory;
    std::string path;  // for errors; "" when only the text is known
};

std::string directory_of(const std::string& path) {
    const std::size_t slash = path.rfind('/');
    return slash == std::string::npos ? "." : path.substr(0, slash);
}

// kubectl and kind write YAML, other tools JSON; YAML covers both, but the JSON parser is tried
// first: it is the faster one and has no opinion on scalars.
Result<json::Value> parse_document(std::string_view text) {
    json::Value root;
    if (text.starts_with('{')) {
        CAPSTAN_TRY(root, json::parse(text));
    } else if (text.find_first_not_of(" \t\r\n") != std::string_view::npos) {
        CAPSTAN_TRY(config::Document document, config::load(text, "kubeconfig"));
        root = std::move(document.value);
    }
    if (!root.is_object() && !root.is_null()) {
        return fail(Code::invalid, "kubeconfig: is no map");
    }
    for (const char* list : {"clusters", "contexts", "users"}) {
        const json::View value = json::View(root)[std::string_view(list)];
        if (value.present() && !value.as_array()) {
            return fail(Code::invalid, "kubeconfig: " + std::string(list) + " must be a list");
        }
    }
    return root;
}

// The first file that defines an entry wins entirely.
Result<Entry> find_entry(const std::vector<Source>& sources,
                         const char* list,
                         const char* kind,
                         std::string_view name) {
    std::string shown = "kubeconfig " + std::string(kind) + " \"" + std::string(name) + "\"";
    std::string others;
    std::size_t seen = 0;
    for (const Source& source : sources) {
        for (const json::Value& item : json::View(source.root)[std::string_view(list)].array()) {
            const json::View entry(item);
            const std::string_view defined = entry["name"].string_or("");
            if (defined == name) {
                if (sources.size() > 1) {
                    shown += " of " + source.path;
                }
                return Entry{entry[std::string_view(kind)], shown, source.directory};
            }
            if (++seen <= kNamesShown) {
                others += (others.empty() ? "; there is: " : ", ") + std::string(defined);
            }
        }
    }
    return fail(Code::invalid,
                shown + " is not defined" + others + (seen > kNamesShown ? ", …" : ""));
}

Result<ConnectionConfig> connection_of(const std::vector<Source>& sources,
                                       std::string_view context,
                                       const ReadFile& read) {
    std::string wanted(context);
    for (const Source& source : sources) {
        if (wanted.empty()) {
            wanted = json::View(source.root)["current-context"].string_or("");
        }
    }
    if (wanted.empty()) {
        return fail(Code::invalid, "kubeconfig: current-context is not set");
    }
    CAPSTAN_TRY(const Entry chosen, find_entry(sources, "contexts", "context", wanted));
    ConnectionConfig config;
    config.ns = chosen.text("namespace");
    if (config.ns.empty()) {
        config.ns = "default";
    }
    CAPSTAN_TRY(const Entry cluster,
                find_entry(sources, "clusters", "cluster", chosen.text("cluster")));
    CAPSTAN_TRY(read_cluster(cluster, read, config));
    if (const std::string user_name = chosen.text("user"); !user_name.empty()) {
        CAPSTAN_TRY(const Entry user, find_entry(sources, "users", "user", user_name));
        CAPSTAN_TRY(read_user(user, cluster, read, config));
    }
    return config;
}

}  // namespace

std::unique_ptr<TokenSource> ConnectionConfig::make_tokens(const Clock& clock,
                                                           TokenTold told) const {
    if (!token_file.empty()) {
        return make_file_token(clock, token_file, token, read_small_file, std::move(told));
    }
    return token.empty() ? nullptr : make_fixed_token(token);
}

Result<ConnectionConfig> parse_kubeconfig(std::string_view text,
                                          std::string_view directory,
                                          std::string_view context,
                                          const ReadFile& read) {
    std::vector<Source> sources(1);
    CAPSTAN_TRY(sources[0].root, parse_document(text));
    sources[0].directory = directory;
    return connection_of(sources, context, read);
}

Result<ConnectionConfig> load_kubeconfig(const std::string& paths,
                                         std::string_view context,
                                         const ReadFile& read) {
    std::vector<Source> sources;
    std::optional<Error> unread;
    std::string_view rest = paths;
    const bool single = rest.find(':') == std::string_view::npos;
    while (!rest.empty() && sources.size() < kFilesMax) {
        const std::size_t end = std::min(rest.find(':'), rest.size());
        const std::string path(rest.substr(0, end));
        rest.remove_prefix(std::min(end + 1, rest.size()));
        if (path.empty()) {
            continue;
        }
        const auto text = read(path);
        if (!text) {  // of a list, files that are not there are left out
            unread = text.error();
            continue;
        }
        auto root = parse_document(text.value());
        if (!root) {
            return fail(with_context(root.error(), path));
        }
        sources.push_back({std::move(root).value(), directory_of(path), path});
    }
    if (sources.empty()) {
        return fail(unread ? *unread
                           : Error{Code::invalid, "no kubeconfig in \"" + paths + "\"", {}});
    }
    auto config = connection_of(sources, context, read);
    if (!config) {
        return fail(with_context(config.error(), single ? paths : "$KUBECONFIG"));
    }
    return config;
}

Result<void> use_environment_proxy(ConnectionConfig& config, const Environment& environment) {
    if (!config.http.proxy.empty()) {
        return ok();
    }
    CAPSTAN_TRY(const net::Endpoint endpoint, net::parse_endpoint(config.http.endpoint));
    config.http.proxy = net::proxy_from_environment(endpoint, environment);
    if (!config.http.proxy.empty()) {
        if (const auto proxy = net::parse_proxy(config.http.proxy); !proxy) {
            return fail(with_context(proxy.error(), "$HTTPS_PROXY or $HTTP_PROXY"));
        }
    }
    return ok();
}

Result<ConnectionConfig> load_in_cluster(const Environment& environment,
                                         const ReadFile& read,
                                         const std::string& directory) {
    for (const char* name : {"KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"}) {
        if (environment(name).value_or("").empty()) {
            return fail(Code::not_found, "not in a cluster: " + std::string(name) + " is not set");
        }
    }
    ConnectionConfig config;
    std::string host = *environment("KUBERNETES_SERVICE_HOST");
    const bool v6 = host.find(':') != std::string::npos && host.front() != '[';
    config.host = (v6 ? "[" + host + "]" : host) + ":" + *environment("KUBERNETES_SERVICE_PORT");
    config.http.endpoint = "https://" + config.host;
    CAPSTAN_TRY(config.http.tls.ca_pem, read(directory + "/ca.crt"));
    config.files.ca = directory + "/ca.crt";
    config.user = "the pod's service account";
    config.token_file = directory + "/token";
    if (const auto token = read_token(config.token_file, read); !token) {
        return fail(with_context(token.error(), config.user));
    }
    const auto ns = read(directory + "/namespace");
    config.ns = ns && !ns.value().empty() ? ns.value() : "default";
    while (!config.ns.empty() && (config.ns.back() == '\n' || config.ns.back() == ' ')) {
        config.ns.pop_back();
    }
    return config;
}

}  // namespace capstan::kube
