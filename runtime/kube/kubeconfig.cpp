#include "runtime/kube/kubeconfig.hpp"

#include "capstan/json.hpp"
#include "runtime/config/yaml.hpp"
#include "runtime/net/url.hpp"

#include <array>
#include <utility>

namespace capstan::kube {
namespace {

// kubectl and kind write YAML, other tools JSON; YAML covers both, but the JSON parser is tried
// first: it is the faster one and has no opinion on scalars.
Result<json::Value> parse_document(std::string_view text) {
    if (text.starts_with('{')) {
        return json::parse(text);
    }
    CAPSTAN_TRY(config::Document document, config::load(text, "kubeconfig"));
    return std::move(document.value);
}

std::optional<std::string> decode_base64(std::string_view text) {
    std::string out;
    std::uint32_t bits = 0;
    int count = 0;
    std::size_t padding = 0;
    for (const char c : text) {
        if (c == '\n' || c == '\r' || c == ' ') {
            continue;
        }
        constexpr std::string_view kAlphabet =
            "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        const std::size_t value = kAlphabet.find(c);
        if (c == '=') {
            ++padding;
            continue;
        }
        if (value == std::string_view::npos || padding > 0) {
            return std::nullopt;
        }
        bits = bits << 6 | static_cast<std::uint32_t>(value);
        if (++count == 4) {
            out += {static_cast<char>(bits >> 16),
                    static_cast<char>(bits >> 8),
                    static_cast<char>(bits)};
            bits = 0;
            count = 0;
        }
    }
    if (count == 1 || padding > 2 ||
        (padding > 0 && (static_cast<std::size_t>(count) + padding) != 4)) {
        return std::nullopt;
    }
    if (count >= 2) {
        bits <<= 6 * (4 - count);
        out += static_cast<char>(bits >> 16);
        if (count == 3) {
            out += static_cast<char>(bits >> 8);
        }
    }
    return out;
}

// One entry of clusters, users or contexts, with what errors call it.
struct Entry {
    json::View view;
    std::string name;  // kubeconfig user "a"

    std::string text(std::string_view field) const {
        return std::string(view[field].string_or(""));
    }
    Error error(std::string_view field, std::string_view what, Code code = Code::invalid) const {
        return Error{code, name + ": " + std::string(field) + " " + std::string(what), {}};
    }
};

Result<Entry> find_entry(json::View config,
                         const char* list,
                         const char* kind,
                         std::string_view name) {
    const std::string shown = "kubeconfig " + std::string(kind) + " \"" + std::string(name) + "\"";
    for (const json::Value& item : config[std::string_view(list)].array()) {
        const json::View entry(item);
        if (entry["name"].string_or("") == name) {
            return Entry{entry[std::string_view(kind)], shown};
        }
    }
    return fail(Code::invalid, shown + " is not defined");
}

// `<field>-data` (base64) wins over the file `<field>`; "" when neither is there.
Result<std::string> pem(const Entry& entry,
                        const std::string& field,
                        std::string_view directory,
                        const ReadFile& read) {
    if (const std::string data = entry.text(field + "-data"); !data.empty()) {
        auto decoded = decode_base64(data);
        if (!decoded) {
            return fail(entry.error(field + "-data", "is not base64"));
        }
        return std::move(*decoded);
    }
    std::string path = entry.text(field);
    if (path.empty()) {
        return std::string();
    }
    if (path.front() != '/') {
        path = std::string(directory) + "/" + path;
    }
    auto text = read(path);
    if (!text) {
        return fail(with_context(text.error(), entry.name + ": " + field));
    }
    return text;
}

Result<void> read_cluster(const Entry& cluster,
                          std::string_view directory,
                          const ReadFile& read,
                          ConnectionConfig& config) {
    std::string server = cluster.text("server");
    if (server.empty()) {
        return fail(cluster.error("server", "is missing"));
    }
    if (!cluster.text("proxy-url").empty()) {
        return fail(cluster.error("proxy-url", "is not supported yet", Code::unsupported));
    }
    while (server.ends_with('/')) {
        server.pop_back();
    }
    if (server.find("://") == std::string::npos) {
        server.insert(0, "https://");
    }
    if (server.find('/', server.find("://") + 3) != std::string::npos) {
        return fail(cluster.error("server", "with a path is not supported yet", Code::unsupported));
    }
    const auto endpoint = net::parse_endpoint(server);
    if (!endpoint) {
        return fail(with_context(endpoint.error(), cluster.name + ": server"));
    }
    config.host = net::join_host_port(endpoint.value().host, endpoint.value().port);
    config.http.endpoint = server;
    config.http.tls.server_name = cluster.text("tls-server-name");
    config.http.tls.insecure = cluster.view["insecure-skip-tls-verify"].bool_or(false);
    CAPSTAN_TRY(config.http.tls.ca_pem, pem(cluster, "certificate-authority", directory, read));
    if (config.http.tls.insecure && !config.http.tls.ca_pem.empty()) {
        return fail(cluster.error("insecure-skip-tls-verify",
                                  "cannot be combined with a certificate authority"));
    }
    return ok();
}

Result<void> read_user(const Entry& user,
                       std::string_view directory,
                       const ReadFile& read,
                       ConnectionConfig& config) {
    for (const char* field : {"exec",
                              "auth-provider",
                              "username",
                              "password",
                              "as",
                              "as-uid",
                              "as-groups",
                              "as-user-extra"}) {
        if (user.view[std::string_view(field)].present()) {
            return fail(
                user.error(field,
                           "is not supported yet; use a client certificate, token or tokenFile",
                           Code::unsupported));
        }
    }
    CAPSTAN_TRY(config.http.tls.certificate_pem, pem(user, "client-certificate", directory, read));
    CAPSTAN_TRY(config.http.tls.key_pem, pem(user, "client-key", directory, read));
    if (config.http.tls.certificate_pem.empty() != config.http.tls.key_pem.empty()) {
        return fail(user.error("client-certificate", "and client-key are needed together"));
    }
    config.token = user.text("token");
    config.token_file = user.text("tokenFile");
    if (!config.token_file.empty() && config.token_file.front() != '/') {
        config.token_file = std::string(directory) + "/" + config.token_file;
    }
    const bool plain = config.http.endpoint.starts_with("http://");
    if (plain && (!config.token.empty() || !config.token_file.empty())) {
        return fail(user.error("token", "is never sent over plain http"));
    }
    return ok();
}

}  // namespace

std::unique_ptr<TokenSource> ConnectionConfig::make_tokens(const Clock& clock) const {
    if (!token_file.empty()) {
        return make_file_token(clock, token_file, token);
    }
    return token.empty() ? nullptr : make_fixed_token(token);
}

Result<ConnectionConfig> parse_kubeconfig(std::string_view text,
                                          std::string_view directory,
                                          std::string_view context,
                                          const ReadFile& read) {
    auto parsed = parse_document(text);
    if (!parsed) {
        return fail(parsed.error());
    }
    const json::View root(parsed.value());
    const std::string_view wanted =
        context.empty() ? root["current-context"].string_or("") : context;
    if (wanted.empty()) {
        return fail(Code::invalid, "kubeconfig: current-context is not set");
    }
    CAPSTAN_TRY(const Entry chosen, find_entry(root, "contexts", "context", wanted));
    ConnectionConfig config;
    config.ns = chosen.view["namespace"].string_or("default");
    CAPSTAN_TRY(const Entry cluster,
                find_entry(root, "clusters", "cluster", chosen.text("cluster")));
    CAPSTAN_TRY(read_cluster(cluster, directory, read, config));
    if (const std::string user_name = chosen.text("user"); !user_name.empty()) {
        CAPSTAN_TRY(const Entry user, find_entry(root, "users", "user", user_name));
        CAPSTAN_TRY(read_user(user, directory, read, config));
    }
    return config;
}

Result<ConnectionConfig> load_kubeconfig(const std::string& path,
                                         std::string_view context,
                                         const ReadFile& read) {
    CAPSTAN_TRY(const std::string text, read(path));
    const std::size_t slash = path.rfind('/');
    auto config = parse_kubeconfig(
        text, slash == std::string::npos ? "." : path.substr(0, slash), context, read);
    if (!config) {
        return fail(with_context(config.error(), path));
    }
    return config;
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
    config.token_file = directory + "/token";
    const auto ns = read(directory + "/namespace");
    config.ns = ns && !ns.value().empty() ? ns.value() : "default";
    while (!config.ns.empty() && (config.ns.back() == '\n' || config.ns.back() == ' ')) {
        config.ns.pop_back();
    }
    return config;
}

}  // namespace capstan::kube
