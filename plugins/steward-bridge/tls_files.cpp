#include "plugins/steward-bridge/tls_files.hpp"

#include "plugins/steward-bridge/files.hpp"
#include "plugins/steward-bridge/stream/base64.hpp"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

namespace capstan::steward {

std::string host_of(std::string_view url) {
    const std::size_t scheme = url.find("://");
    const std::size_t start = scheme == std::string_view::npos ? 0 : scheme + 3;
    const std::size_t end = std::min(url.find_first_of(":/", start), url.size());
    return std::string(url.substr(start, end - start));
}

namespace {

Result<std::string> text_of(const json::Value& secret,
                            const std::string& name,
                            const std::string& key) {
    const auto text = json::View(secret)["data"][key].as_string();
    if (!text) {
        return fail(Code::not_found,
                    "Secret " + name + " has no \"" + key + "\"; remedy: add it to its data");
    }
    auto bytes = from_base64(text.value());
    if (!bytes || bytes->empty()) {
        return fail(Code::invalid, "Secret " + name + ": \"" + key + "\" is empty or no base64");
    }
    return std::move(*bytes);
}

Result<void> write_changed(const std::string& path, const std::string& text) {
    const auto present = read_file(path);
    if (present && present.value() == text) {
        return ok();
    }
    return write_file(path, text);
}

// What was written last; nullopt: not all of it is there.
std::optional<HttpTls> files_of(const Configuration& configuration, const std::string& directory) {
    if (configuration.peer_tls && !read_file(directory + "/peer/tls.crt")) {
        return std::nullopt;
    }
    HttpTls client;
    if (!configuration.client_tls) {
        return client;
    }
    const auto server = read_file(directory + "/client/tls.crt");
    auto ca = read_file(directory + "/client/ca.crt");
    auto certificate = read_file(directory + "/client/client.crt");
    auto key = read_file(directory + "/client/client.key");
    const bool pair = certificate && key;
    if (!server || !ca || (!pair && !configuration.client_tls->client_secret.empty())) {
        return std::nullopt;
    }
    client.ca_pem = std::move(ca).value();
    if (pair) {
        client.certificate_pem = std::move(certificate).value();
        client.key_pem = std::move(key).value();
    }
    return client;
}

}  // namespace

Result<std::string> read_secret(Call& call,
                                const std::string& ns,
                                const std::string& name,
                                const std::string& key) {
    CAPSTAN_TRY(const json::Value secret, call.client().get_value("v1/Secret", {ns, name}));
    return text_of(secret, name, key);
}

Result<HttpTls> write_tls_group(Call& call,
                                const std::string& ns,
                                const TlsGroup& group,
                                const std::string& directory) {
    std::error_code error;
    std::filesystem::create_directories(directory, error);
    if (error) {
        return fail(Code::unavailable, directory + ": " + error.message());
    }
    const auto secret = [&](const std::string& name) {
        return call.client().get_value("v1/Secret", {ns, name});
    };
    HttpTls client;
    CAPSTAN_TRY(client.ca_pem, read_secret(call, ns, group.ca_secret, group.ca_key));
    CAPSTAN_TRY(const json::Value server, secret(group.server_secret));
    CAPSTAN_TRY(const std::string certificate, text_of(server, group.server_secret, "tls.crt"));
    CAPSTAN_TRY(const std::string key, text_of(server, group.server_secret, "tls.key"));
    if (!group.client_secret.empty()) {
        CAPSTAN_TRY(const json::Value pair, secret(group.client_secret));
        CAPSTAN_TRY(client.certificate_pem, text_of(pair, group.client_secret, "tls.crt"));
        CAPSTAN_TRY(client.key_pem, text_of(pair, group.client_secret, "tls.key"));
    }
    // Certificate and key of one renewal: a reader between the two sees a pair that does not fit
    // for a moment, which a new connection survives.
    CAPSTAN_TRY(write_changed(directory + "/ca.crt", client.ca_pem));
    if (!client.certificate_pem.empty()) {
        CAPSTAN_TRY(write_changed(directory + "/client.key", client.key_pem));
        CAPSTAN_TRY(write_changed(directory + "/client.crt", client.certificate_pem));
    }
    CAPSTAN_TRY(write_changed(directory + "/tls.key", key));
    CAPSTAN_TRY(write_changed(directory + "/tls.crt", certificate));
    return client;
}

Result<HttpTls> TlsFiles::read_all(Call& call,
                                   const Configuration& configuration,
                                   const std::string& directory) {
    const std::string& ns = member_.identity().ns;
    HttpTls client;
    if (configuration.client_tls) {
        CAPSTAN_TRY(client,
                    write_tls_group(call, ns, *configuration.client_tls, directory + "/client"));
    }
    if (configuration.peer_tls) {
        CAPSTAN_TRY(write_tls_group(call, ns, *configuration.peer_tls, directory + "/peer"));
    }
    return client;
}

Result<void> TlsFiles::refresh(Call& call, const Configuration& configuration, const PodMap& map) {
    if (!configuration.client_tls && !configuration.peer_tls) {
        member_.set_client_tls({});
        return ok();
    }
    const std::string directory = map.path(member_.identity().run_dir) + "/tls";
    Result<HttpTls> client = read_all(call, configuration, directory);
    if (!client) {
        const Code code = client.error().code;
        const bool unreachable = code == Code::unavailable || code == Code::timeout;
        auto kept = unreachable ? files_of(configuration, directory) : std::nullopt;
        if (!kept) {
            return fail(client.error());
        }
        client = std::move(*kept);
    }
    if (configuration.client_tls) {
        client.value().server_name = host_of(configuration.local_endpoint);
    }
    member_.set_client_tls(std::move(client).value());
    next_ = call.now() + kSecretsPeriod;
    return ok();
}

void TlsFiles::keep_fresh(Call& call, const Configuration& configuration, const PodMap& map) {
    if ((!configuration.client_tls && !configuration.peer_tls) || call.now() < next_) {
        return;
    }
    const MonotonicTime begun = call.now();
    next_ = begun + kSecretsPeriod;
    const auto refreshed = refresh(call, configuration, map);
    // An API that does not answer must not hold up everything else this thread does.
    next_ = std::max(next_, call.now() + 4 * (call.now() - begun));
    const std::string problem = refreshed ? std::string() : refreshed.error().message;
    if (!problem.empty() && problem != last_problem_) {
        call.log(LogLevel::warn,
                 "certificates cannot be renewed, the present ones stay",
                 {{"error", problem}});
    }
    last_problem_ = problem;
}

}  // namespace capstan::steward
