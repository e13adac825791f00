#include "runtime/net/pki.hpp"

#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>

#include <arpa/inet.h>

#include <array>
#include <climits>
#include <ctime>
#include <memory>

namespace capstan::net {

namespace {

constexpr std::size_t kNamePartBytesMax = 64;  // ub-common-name, RFC 5280
constexpr std::size_t kSerialBytes = 16;

struct Delete {
    void operator()(BIO* p) const noexcept { BIO_free(p); }
    void operator()(X509* p) const noexcept { X509_free(p); }
    void operator()(EVP_PKEY* p) const noexcept { EVP_PKEY_free(p); }
    void operator()(X509_EXTENSION* p) const noexcept { X509_EXTENSION_free(p); }
    void operator()(GENERAL_NAMES* p) const noexcept { GENERAL_NAMES_free(p); }
    void operator()(ASN1_OCTET_STRING* p) const noexcept { ASN1_OCTET_STRING_free(p); }
};
template <class T>
using Ptr = std::unique_ptr<T, Delete>;

auto openssl_failure(std::string_view what) {
    std::array<char, 256> text{};
    ERR_error_string_n(ERR_peek_error(), text.data(), text.size());
    ERR_clear_error();
    return fail(Code::internal, std::string(what) + ": " + text.data());
}

Ptr<BIO> memory(std::string_view text) {
    return Ptr<BIO>(text.size() > INT_MAX
                        ? nullptr
                        : BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

std::string contents(BIO* bio) {
    char* data = nullptr;
    const long size = BIO_get_mem_data(bio, &data);
    return {data, static_cast<std::size_t>(size)};
}

Result<Ptr<EVP_PKEY>> make_key() {
    Ptr<EVP_PKEY> key(EVP_EC_gen("P-256"));
    if (!key) {
        return openssl_failure("make a key");
    }
    return key;
}

Result<std::string> key_pem(EVP_PKEY* key) {
    const Ptr<BIO> bio(BIO_new(BIO_s_mem()));
    if (!bio ||
        PEM_write_bio_PKCS8PrivateKey(bio.get(), key, nullptr, nullptr, 0, nullptr, nullptr) != 1) {
        return openssl_failure("write a key");
    }
    return contents(bio.get());
}

Result<Ptr<X509>> parse_certificate(std::string_view pem) {
    const Ptr<BIO> bio = memory(pem);
    Ptr<X509> certificate(bio ? PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr) : nullptr);
    ERR_clear_error();
    if (!certificate) {
        return fail(Code::invalid, "malformed certificate PEM");
    }
    return certificate;
}

int no_passphrase(char*, int, int, void*) {
    return 0;
}

Result<Ptr<EVP_PKEY>> parse_key(std::string_view pem) {
    const Ptr<BIO> bio = memory(pem);
    Ptr<EVP_PKEY> key(bio ? PEM_read_bio_PrivateKey(bio.get(), nullptr, no_passphrase, nullptr)
                          : nullptr);
    ERR_clear_error();
    if (!key) {
        return fail(Code::invalid, "malformed private key PEM");
    }
    return key;
}

Result<void> add_name(X509_NAME* name, const char* part, std::string_view text) {
    if (text.empty() || text.size() > kNamePartBytesMax) {
        return fail(Code::invalid,
                    std::string(part) + " \"" + std::string(text.substr(0, kNamePartBytesMax)) +
                        "\" has not 1 to 64 bytes");
    }
    const std::string copy(text);
    const auto* bytes = reinterpret_cast<const unsigned char*>(copy.data());
    if (X509_NAME_add_entry_by_txt(
            name, part, MBSTRING_UTF8, bytes, static_cast<int>(copy.size()), -1, 0) != 1) {
        ERR_clear_error();
        return fail(Code::invalid, std::string(part) + " is not UTF-8 text");
    }
    return ok();
}

Result<void> add_extension(X509* certificate, X509* issuer, int kind, const std::string& value) {
    X509V3_CTX context;
    X509V3_set_ctx_nodb(&context);
    X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
    const Ptr<X509_EXTENSION> extension(
        X509V3_EXT_conf_nid(nullptr, &context, kind, value.c_str()));
    if (!extension || X509_add_ext(certificate, extension.get(), -1) != 1) {
        return openssl_failure("add an extension");
    }
    return ok();
}

// Built as objects, not as configuration text: a name can hold commas.
Result<void> add_alternative_names(X509* certificate, const CertificateOptions& options) {
    if (options.dns_names.empty() && options.ip_addresses.empty()) {
        return ok();
    }
    const Ptr<GENERAL_NAMES> names(GENERAL_NAMES_new());
    const auto push = [&names](int kind, ASN1_STRING* value, const void* data, std::size_t size) {
        ASN1_STRING_set(value, data, static_cast<int>(size));
        GENERAL_NAME* entry = GENERAL_NAME_new();
        GENERAL_NAME_set0_value(entry, kind, value);
        sk_GENERAL_NAME_push(names.get(), entry);
    };
    for (const std::string& name : options.dns_names) {
        push(GEN_DNS, ASN1_IA5STRING_new(), name.data(), name.size());
    }
    for (const std::string& address : options.ip_addresses) {
        std::array<unsigned char, 16> bytes{};
        const bool v4 = ::inet_pton(AF_INET, address.c_str(), bytes.data()) == 1;
        if (!v4 && ::inet_pton(AF_INET6, address.c_str(), bytes.data()) != 1) {
            return fail(Code::invalid, "\"" + address + "\" is no IP address");
        }
        push(GEN_IPADD, ASN1_OCTET_STRING_new(), bytes.data(), v4 ? 4 : 16);
    }
    if (X509_add1_ext_i2d(certificate, NID_subject_alt_name, names.get(), 0, X509V3_ADD_APPEND) !=
        1) {
        return openssl_failure("add alternative names");
    }
    return ok();
}

std::time_t seconds_of(WallTime time) {
    return static_cast<std::time_t>(
        std::chrono::floor<std::chrono::seconds>(time.time_since_epoch()).count());
}

Result<Ptr<X509>> start_certificate(EVP_PKEY* key, const Validity& validity) {
    Ptr<X509> certificate(X509_new());
    std::array<unsigned char, kSerialBytes> serial{};
    if (!certificate || RAND_bytes(serial.data(), serial.size()) != 1) {
        return openssl_failure("make a certificate");
    }
    // positive and of full length
    serial[0] = static_cast<unsigned char>((serial[0] & 0x7F) | 0x40);
    BIGNUM* number = BN_bin2bn(serial.data(), serial.size(), nullptr);
    BN_to_ASN1_INTEGER(number, X509_get_serialNumber(certificate.get()));
    BN_free(number);
    X509_set_version(certificate.get(), X509_VERSION_3);
    ASN1_TIME_set(X509_getm_notBefore(certificate.get()), seconds_of(validity.not_before));
    ASN1_TIME_set(X509_getm_notAfter(certificate.get()), seconds_of(validity.not_after));
    if (X509_set_pubkey(certificate.get(), key) != 1) {
        return openssl_failure("make a certificate");
    }
    return certificate;
}

Result<KeyPair> sign(X509* certificate, EVP_PKEY* key, EVP_PKEY* issuer_key) {
    if (X509_sign(certificate, issuer_key, EVP_sha256()) == 0) {
        return openssl_failure("sign a certificate");
    }
    const Ptr<BIO> bio(BIO_new(BIO_s_mem()));
    if (!bio || PEM_write_bio_X509(bio.get(), certificate) != 1) {
        return openssl_failure("write a certificate");
    }
    CAPSTAN_TRY(auto pem, key_pem(key));
    return KeyPair{contents(bio.get()), std::move(pem)};
}

std::string usage_of(const CertificateOptions& options) {
    std::string usage = options.server ? "serverAuth" : "";
    if (options.client) {
        usage += usage.empty() ? "clientAuth" : ",clientAuth";
    }
    return usage;
}

Result<WallTime> to_wall(const ASN1_TIME* time) {
    std::tm parts{};
    if (ASN1_TIME_to_tm(time, &parts) != 1) {
        return fail(Code::invalid, "malformed time in a certificate");
    }
    return WallTime(std::chrono::seconds(::timegm(&parts)));
}

std::string text_of(const ASN1_STRING* value) {
    const auto* data = ASN1_STRING_get0_data(value);
    return {data, data + ASN1_STRING_length(value)};
}

void read_alternative_names(X509* certificate, CertificateInfo& info) {
    const Ptr<GENERAL_NAMES> names(static_cast<GENERAL_NAMES*>(
        X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr)));
    for (int i = 0; names && i < sk_GENERAL_NAME_num(names.get()); ++i) {
        const GENERAL_NAME* name = sk_GENERAL_NAME_value(names.get(), i);
        if (name->type == GEN_DNS) {
            info.dns_names.push_back(text_of(name->d.dNSName));
        }
        if (name->type != GEN_IPADD) {
            continue;
        }
        const std::string bytes = text_of(name->d.iPAddress);
        std::array<char, INET6_ADDRSTRLEN> text{};
        const int family = bytes.size() == 4 ? AF_INET : AF_INET6;
        if (bytes.size() != 4 && bytes.size() != 16) {
            continue;
        }
        if (::inet_ntop(family, bytes.data(), text.data(), text.size()) != nullptr) {
            info.ip_addresses.emplace_back(text.data());
        }
    }
}

}  // namespace

Result<KeyPair> make_ca(std::string_view common_name, const Validity& validity) {
    CAPSTAN_TRY(const auto key, make_key());
    CAPSTAN_TRY(const auto certificate, start_certificate(key.get(), validity));
    X509* raw = certificate.get();
    CAPSTAN_TRY(add_name(X509_get_subject_name(raw), "CN", common_name));
    X509_set_issuer_name(raw, X509_get_subject_name(raw));
    CAPSTAN_TRY(add_extension(raw, raw, NID_basic_constraints, "critical,CA:TRUE"));
    CAPSTAN_TRY(
        add_extension(raw, raw, NID_key_usage, "critical,digitalSignature,keyCertSign,cRLSign"));
    CAPSTAN_TRY(add_extension(raw, raw, NID_subject_key_identifier, "hash"));
    return sign(raw, key.get(), key.get());
}

Result<KeyPair> issue_certificate(const KeyPair& ca,
                                  const CertificateOptions& options,
                                  const Validity& validity) {
    CAPSTAN_TRY(const auto issuer, parse_certificate(ca.certificate_pem));
    CAPSTAN_TRY(const auto issuer_key, parse_key(ca.key_pem));
    if (X509_check_private_key(issuer.get(), issuer_key.get()) != 1) {
        ERR_clear_error();
        return fail(Code::invalid, "certificate and private key of the CA do not match");
    }
    CAPSTAN_TRY(const auto key, make_key());
    CAPSTAN_TRY(const auto certificate, start_certificate(key.get(), validity));
    X509* raw = certificate.get();
    X509_NAME* subject = X509_get_subject_name(raw);
    for (const std::string& organization : options.organizations) {
        CAPSTAN_TRY(add_name(subject, "O", organization));
    }
    CAPSTAN_TRY(add_name(subject, "CN", options.common_name));
    X509_set_issuer_name(raw, X509_get_subject_name(issuer.get()));
    CAPSTAN_TRY(add_extension(raw, issuer.get(), NID_basic_constraints, "critical,CA:FALSE"));
    CAPSTAN_TRY(add_extension(raw, issuer.get(), NID_key_usage, "critical,digitalSignature"));
    CAPSTAN_TRY(add_extension(raw, issuer.get(), NID_subject_key_identifier, "hash"));
    CAPSTAN_TRY(add_extension(raw, issuer.get(), NID_authority_key_identifier, "keyid"));
    const std::string usage = usage_of(options);
    if (!usage.empty()) {
        CAPSTAN_TRY(add_extension(raw, issuer.get(), NID_ext_key_usage, usage));
    }
    CAPSTAN_TRY(add_alternative_names(raw, options));
    return sign(raw, key.get(), issuer_key.get());
}

Result<CertificateInfo> read_certificate(std::string_view certificate_pem) {
    CAPSTAN_TRY(const auto certificate, parse_certificate(certificate_pem));
    CertificateInfo info;
    const X509_NAME* name = X509_get_subject_name(certificate.get());
    for (int i = 0; i < X509_NAME_entry_count(name); ++i) {
        const X509_NAME_ENTRY* entry = X509_NAME_get_entry(name, i);
        const int kind = OBJ_obj2nid(X509_NAME_ENTRY_get_object(entry));
        if (kind == NID_commonName) {
            info.common_name = text_of(X509_NAME_ENTRY_get_data(entry));
        }
        if (kind == NID_organizationName) {
            info.organizations.push_back(text_of(X509_NAME_ENTRY_get_data(entry)));
        }
    }
    read_alternative_names(certificate.get(), info);
    CAPSTAN_TRY(info.validity.not_before, to_wall(X509_get0_notBefore(certificate.get())));
    CAPSTAN_TRY(info.validity.not_after, to_wall(X509_get0_notAfter(certificate.get())));
    info.is_ca = X509_check_ca(certificate.get()) == 1;
    return info;
}

Result<SigningKey> make_signing_key() {
    CAPSTAN_TRY(const auto key, make_key());
    SigningKey result;
    CAPSTAN_TRY(result.private_pem, key_pem(key.get()));
    const Ptr<BIO> bio(BIO_new(BIO_s_mem()));
    if (!bio || PEM_write_bio_PUBKEY(bio.get(), key.get()) != 1) {
        return openssl_failure("write a public key");
    }
    result.public_pem = contents(bio.get());
    return result;
}

}  // namespace capstan::net
