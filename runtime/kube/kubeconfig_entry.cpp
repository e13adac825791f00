#include "runtime/kube/kubeconfig_entry.hpp"

#include "runtime/net/proxy.hpp"
#include "runtime/net/url.hpp"

#include <algorithm>
#include <initializer_list>
#include <optional>
#include <utility>

namespace capstan::kube {
namespace {

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

// A field of another type would be taken for one that is absent.
Result<void> check_types(const Entry& entry,
                         std::initializer_list<const char*> texts,
                         std::initializer_list<const char*> switches) {
    for (const char* field : texts) {
        const json::View value = entry.view[std::string_view(field)];
        if (value.present() && !value.as_string()) {
            return fail(entry.error(field, "must be text"));
        }
    }
    for (const char* field : switches) {
        const json::View value = entry.view[std::string_view(field)];
        if (value.present() && !value.as_bool()) {
            return fail(entry.error(field, "must be true or false"));
        }
    }
    return ok();
}

// `<field>-data` (base64) wins over the file `<field>`; "" when neither is there. `path`: of the
// file the text came from, which may change.
Result<std::string> pem(const Entry& entry,
                        const std::string& field,
                        const ReadFile& read,
                        std::string& path) {
    if (const std::string data = entry.text(field + "-data"); !data.empty()) {
        auto decoded = decode_base64(data);
        if (!decoded) {
            return fail(entry.error(field + "-data", "is not base64"));
        }
        return std::move(*decoded);
    }
    path = entry.path(field);
    if (path.empty()) {
        return std::string();
    }
    auto text = read(path);
    if (!text) {
        return fail(with_context(text.error(), entry.name + ": " + field));
    }
    return text;
}

// A header name may hold letters, digits and a few signs; the rest is percent-encoded (Kubernetes,
// user impersonation).
std::string header_name(std::string_view key) {
    constexpr std::string_view kHex = "0123456789ABCDEF";
    std::string out;
    for (const char c : key) {
        const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                           (c >= '0' && c <= '9') ||
                           std::string_view("!#$&'*+-.^_`|~").find(c) != std::string_view::npos;
        if (plain) {
            out += c;
            continue;
        }
        const auto byte = static_cast<unsigned char>(c);
        out += {'%', kHex[byte >> 4], kHex[byte & 15u]};
    }
    return out;
}

bool is_header_value(std::string_view text) {
    return std::none_of(text.begin(), text.end(), [](char c) {
        return (c >= 0 && c < ' ' && c != '\t') || c == 0x7f;
    });
}

Result<void> read_impersonation(const Entry& user, ConnectionConfig& config) {
    net::Headers& headers = config.headers;
    if (const std::string as = user.text("as"); !as.empty()) {
        headers.emplace_back("Impersonate-User", as);
    }
    if (const std::string uid = user.text("as-uid"); !uid.empty()) {
        headers.emplace_back("Impersonate-Uid", uid);
    }
    for (const json::Value& group : user.view["as-groups"].array()) {
        headers.emplace_back("Impersonate-Group", json::View(group).string_or(""));
    }
    for (const json::Member& extra : user.view["as-user-extra"].object()) {
        for (const json::Value& value : json::View(extra.value).array()) {
            headers.emplace_back("Impersonate-Extra-" + header_name(extra.key),
                                 json::View(value).string_or(""));
        }
    }
    if (headers.empty()) {
        return ok();
    }
    if (user.text("as").empty()) {
        return fail(user.error("as", "is needed for as-uid, as-groups and as-user-extra"));
    }
    if (!std::all_of(headers.begin(), headers.end(), [](const auto& header) {
            return is_header_value(header.second);
        })) {
        return fail(user.error("as", "and its companions cannot hold control characters"));
    }
    return ok();
}

Result<void> read_basic(const Entry& user, ConnectionConfig& config) {
    const std::string name = user.text("username");
    const std::string password = user.text("password");
    if (name.empty() && password.empty()) {
        return ok();
    }
    if (name.empty() || name.find(':') != std::string::npos) {
        return fail(user.error("username", "is needed with a password, and without a colon"));
    }
    config.headers.emplace_back("Authorization",
                                "Basic " + net::encode_base64(name + ":" + password));
    config.secret_headers = true;
    return ok();
}

// What the plugin is told about the cluster (ExecCredential, spec.cluster).
json::Value exec_cluster(const Entry& cluster, const ConnectionConfig& config) {
    json::Value told = {{"server", cluster.text("server")}};
    if (config.http.tls.insecure) {
        told.set("insecure-skip-tls-verify", true);
    }
    for (const char* field : {"tls-server-name", "proxy-url"}) {
        if (const std::string text = cluster.text(field); !text.empty()) {
            told.set(field, text);
        }
    }
    if (!config.http.tls.ca_pem.empty()) {
        told.set("certificate-authority-data", net::encode_base64(config.http.tls.ca_pem));
    }
    if (cluster.view["disable-compression"].bool_or(false)) {
        told.set("disable-compression", true);
    }
    for (const json::Value& item : cluster.view["extensions"].array()) {
        const json::View extension(item);
        if (extension["name"].string_or("") == "client.authentication.k8s.io/exec" &&
            extension["extension"].present()) {
            told.set("config", *extension["extension"].value());
        }
    }
    return told;
}

Result<void> read_exec(const Entry& user, const Entry& cluster, ConnectionConfig& config) {
    const json::View exec = user.view["exec"];
    const bool other = !config.token.empty() || !config.token_file.empty() ||
                       config.secret_headers || !config.http.tls.certificate_pem.empty();
    if (!exec.present() || other) {  // another credential wins, as in client-go
        return ok();
    }
    auto parsed = parse_exec(exec, user.directory);
    if (!parsed) {
        return fail(with_context(parsed.error(), user.name));
    }
    config.exec = std::move(parsed).value();
    if (exec["provideClusterInfo"].bool_or(false)) {
        config.exec->cluster = exec_cluster(cluster, config);
    }
    return ok();
}

Result<void> read_server(const Entry& cluster, ConnectionConfig& config) {
    std::string server = cluster.text("server");
    if (server.empty()) {
        return fail(cluster.error("server", "is missing"));
    }
    while (server.ends_with('/')) {
        server.pop_back();
    }
    if (server.find("://") == std::string::npos) {
        server.insert(0, "https://");
    }
    if (const std::size_t slash = server.find('/', server.find("://") + 3);
        slash != std::string::npos) {
        config.base_path = server.substr(slash);
        server.erase(slash);
        if (!net::parse_target(config.base_path) ||
            config.base_path.find_first_of("?# ") != std::string::npos) {
            return fail(cluster.error("server", "has a path that cannot be part of a URL"));
        }
    }
    const auto endpoint = net::parse_endpoint(server);
    if (!endpoint) {
        return fail(with_context(endpoint.error(), cluster.name + ": server"));
    }
    config.host = net::join_host_port(endpoint.value().host, endpoint.value().port);
    config.http.endpoint = server;
    return ok();
}

// http to this machine is no worse than a Unix socket; to others it shows secrets to all between.
bool shows_secrets(const ConnectionConfig& config) {
    const auto endpoint = net::parse_endpoint(config.http.endpoint);
    return endpoint && endpoint.value().scheme == net::Scheme::http &&
           !net::is_loopback(endpoint.value().host);
}

}  // namespace

std::string Entry::path(std::string_view field) const {
    const std::string given = text(field);
    return given.empty() || given.front() == '/' ? given : directory + "/" + given;
}

Result<void> read_cluster(const Entry& cluster, const ReadFile& read, ConnectionConfig& config) {
    CAPSTAN_TRY(check_types(cluster,
                            {"server",
                             "certificate-authority",
                             "certificate-authority-data",
                             "tls-server-name",
                             "proxy-url"},
                            {"insecure-skip-tls-verify", "disable-compression"}));
    CAPSTAN_TRY(read_server(cluster, config));
    if (config.http.proxy = cluster.text("proxy-url"); !config.http.proxy.empty()) {
        if (const auto proxy = net::parse_proxy(config.http.proxy); !proxy) {
            return fail(with_context(proxy.error(), cluster.name + ": proxy-url"));
        }
    }
    const auto endpoint = net::parse_endpoint(config.http.endpoint);
    config.compress = endpoint && !net::is_loopback(endpoint.value().host) &&
                      !cluster.view["disable-compression"].bool_or(false);
    config.http.tls.server_name = cluster.text("tls-server-name");
    config.http.tls.insecure = cluster.view["insecure-skip-tls-verify"].bool_or(false);
    CAPSTAN_TRY(config.http.tls.ca_pem,
                pem(cluster, "certificate-authority", read, config.files.ca));
    if (config.http.tls.insecure && !config.http.tls.ca_pem.empty()) {
        return fail(cluster.error("insecure-skip-tls-verify",
                                  "cannot be combined with a certificate authority"));
    }
    return ok();
}

Result<void> read_user(const Entry& user,
                       const Entry& cluster,
                       const ReadFile& read,
                       ConnectionConfig& config) {
    CAPSTAN_TRY(check_types(user,
                            {"client-certificate",
                             "client-certificate-data",
                             "client-key",
                             "client-key-data",
                             "token",
                             "tokenFile",
                             "username",
                             "password",
                             "as",
                             "as-uid"},
                            {}));
    if (user.view["auth-provider"].present()) {
        return fail(user.error("auth-provider",
                               "was removed from Kubernetes in 1.26; use exec, a client "
                               "certificate, token or tokenFile",
                               Code::unsupported));
    }
    CAPSTAN_TRY(config.http.tls.certificate_pem,
                pem(user, "client-certificate", read, config.files.certificate));
    CAPSTAN_TRY(config.http.tls.key_pem, pem(user, "client-key", read, config.files.key));
    if (config.http.tls.certificate_pem.empty() != config.http.tls.key_pem.empty()) {
        return fail(user.error("client-certificate", "and client-key are needed together"));
    }
    if (config.files.certificate.empty() || config.files.key.empty()) {
        config.files.certificate.clear();  // half of a pair is not read again
        config.files.key.clear();
    }
    config.user = user.name;
    config.token = user.text("token");
    config.token_file = user.path("tokenFile");
    if (!config.token_file.empty()) {
        if (const auto token = read_token(config.token_file, read); !token) {
            return fail(with_context(token.error(), user.name + ": tokenFile"));
        }
    }
    CAPSTAN_TRY(read_impersonation(user, config));
    CAPSTAN_TRY(read_basic(user, config));
    CAPSTAN_TRY(read_exec(user, cluster, config));
    const bool secret = !config.token.empty() || !config.token_file.empty() ||
                        config.secret_headers || config.exec.has_value();
    if (secret && shows_secrets(config)) {
        return fail(user.error(config.exec             ? "exec"
                               : config.secret_headers ? "password"
                                                       : "token",
                               "is never sent over plain http to another machine"));
    }
    return ok();
}

}  // namespace capstan::kube
