// A small certificate authority: ECDSA P-256 keys and X.509 v3 certificates as PEM text.
//
// For the embedded API server, `--auto-tls` and tests. Pure: validity is handed in,
// nothing is written to disk.
#pragma once

#include "capstan/clock.hpp"
#include "capstan/error.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace capstan::net {

struct KeyPair {
    std::string certificate_pem;
    std::string key_pem;  // PKCS#8, not encrypted: a secret
};

struct Validity {
    WallTime not_before;
    WallTime not_after;
};

struct CertificateOptions {
    std::string common_name;
    std::vector<std::string> organizations;  // Kubernetes reads them as groups
    std::vector<std::string> dns_names;
    std::vector<std::string> ip_addresses;  // "10.0.0.1", "::1"
    bool server{false};                     // extended key usage serverAuth
    bool client{false};                     // extended key usage clientAuth
};

struct CertificateInfo {
    std::string common_name;
    std::vector<std::string> organizations;
    std::vector<std::string> dns_names;
    std::vector<std::string> ip_addresses;
    Validity validity;
    bool is_ca{false};
};

// Errors of all: invalid (malformed PEM, address or text over 64 bytes in a name
// part), internal (OpenSSL).
Result<KeyPair> make_ca(std::string_view common_name, const Validity& validity);
Result<KeyPair> issue_certificate(const KeyPair& ca,
                                  const CertificateOptions& options,
                                  const Validity& validity);
// the first one of the text
Result<CertificateInfo> read_certificate(std::string_view certificate_pem);

// An ECDSA P-256 key alone (service account signing): PKCS#8 and SubjectPublicKeyInfo PEM.
struct SigningKey {
    std::string private_pem;
    std::string public_pem;
};
Result<SigningKey> make_signing_key();

}  // namespace capstan::net
