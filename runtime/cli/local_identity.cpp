#include "runtime/cli/local_identity.hpp"

#include "capstan/json.hpp"
#include "runtime/local/node/files.hpp"

#include <openssl/evp.h>
#include <openssl/rand.h>

#include <array>

namespace capstan::cli {
namespace {

using std::chrono::days;

constexpr days kCaLife{3650}, kLeafLife{365}, kRenewBefore{30};

net::Validity valid_from(WallTime now, days life) {
    return {now - days(1), now + life};
}

// The pair in DIR/NAME.{crt,key}; made by `make` when neither is there or `renew` says so.
template <class Make>
Result<net::KeyPair> load_pair(
    const std::string& dir, const std::string& name, WallTime now, bool renew, Make&& make) {
    const std::string certificate_path = dir + "/" + name + ".crt",
                      key_path = dir + "/" + name + ".key";
    auto certificate = local::read_file(certificate_path);
    auto key = local::read_file(key_path);
    const bool absent = !certificate && certificate.error().code == Code::not_found && !key &&
                        key.error().code == Code::not_found;
    if (!absent) {
        CAPSTAN_TRY(certificate);
        CAPSTAN_TRY(key);
        const auto info = net::read_certificate(certificate.value());
        if (!info) {
            return fail(Code::invalid,
                        certificate_path + ": " + info.error().message +
                            "; remedy: remove it and its .key to have new ones made");
        }
        if (!renew || info.value().validity.not_after - now > kRenewBefore) {
            return net::KeyPair{std::move(certificate).value(), std::move(key).value()};
        }
    }
    CAPSTAN_TRY(net::KeyPair made, make());
    CAPSTAN_TRY(local::write_file(key_path, made.key_pem, 0600));
    CAPSTAN_TRY(local::write_file(certificate_path, made.certificate_pem, 0600));
    return made;
}

Result<std::string> load_token_key(const std::string& path) {
    auto key = local::read_file(path);
    if (key || key.error().code != Code::not_found) {
        return key;
    }
    std::array<unsigned char, 32> raw{};
    if (RAND_bytes(raw.data(), static_cast<int>(raw.size())) != 1) {
        return fail(Code::internal, "OpenSSL gave no random bytes");
    }
    const std::string made =
        base64(std::string_view(reinterpret_cast<const char*>(raw.data()), raw.size()));
    CAPSTAN_TRY(local::write_file(path, made, 0600));
    return made;
}

}  // namespace

std::string base64(std::string_view bytes) {
    std::string out(4 * ((bytes.size() + 2) / 3) + 1, '\0');
    const int length = EVP_EncodeBlock(reinterpret_cast<unsigned char*>(out.data()),
                                       reinterpret_cast<const unsigned char*>(bytes.data()),
                                       static_cast<int>(bytes.size()));
    out.resize(static_cast<std::size_t>(length));
    return out;
}

Result<LocalIdentity> LocalIdentity::load_or_create(const std::string& root, WallTime now) {
    const std::string dir = root + "/pki";
    CAPSTAN_TRY(local::make_dirs(dir));
    LocalIdentity identity;
    CAPSTAN_TRY(const net::KeyPair ca, load_pair(dir, "ca", now, false, [&] {
                    return net::make_ca("capstan local", valid_from(now, kCaLife));
                }));
    identity.ca_pem = ca.certificate_pem;
    const auto issue = [&](const char* name, std::vector<std::string> groups, bool server) {
        return load_pair(dir, name, now, true, [&] {
            net::CertificateOptions options;
            options.common_name = std::string("capstan-") + name;
            options.organizations = groups;
            options.server = server;
            options.client = !server;
            if (server) {
                options.dns_names = {
                    "localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"};
                options.ip_addresses = {"127.0.0.1"};
            }
            return net::issue_certificate(ca, options, valid_from(now, kLeafLife));
        });
    };
    CAPSTAN_TRY(identity.server, issue("server", {}, true));
    CAPSTAN_TRY(identity.admin, issue("admin", {"system:masters"}, false));
    CAPSTAN_TRY(identity.operator_, issue("operator", {}, false));
    CAPSTAN_TRY(identity.token_key, load_token_key(dir + "/tokens.key"));
    identity.steward_token_file = root + "/steward-token";
    CAPSTAN_TRY(load_token_key(identity.steward_token_file));
    return identity;
}

std::string make_kubeconfig(const std::string& server,
                            const std::string& ca_pem,
                            const net::KeyPair& client,
                            const std::string& user) {
    const json::Value config = {
        {"apiVersion", "v1"},
        {"kind", "Config"},
        {"current-context", "capstan"},
        {"clusters",
         json::list({{
             {"name", "capstan"},
             {"cluster", {{"server", server}, {"certificate-authority-data", base64(ca_pem)}}},
         }})},
        {"users",
         json::list({{
             {"name", user},
             {"user",
              {{"client-certificate-data", base64(client.certificate_pem)},
               {"client-key-data", base64(client.key_pem)}}},
         }})},
        {"contexts",
         json::list({{
             {"name", "capstan"},
             {"context", {{"cluster", "capstan"}, {"user", user}, {"namespace", "default"}}},
         }})},
    };
    return json::dump_pretty(config) + "\n";
}

}  // namespace capstan::cli
