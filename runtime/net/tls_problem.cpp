// What is wrong with a certificate that was refused, for a person.
#include "runtime/net/pki.hpp"
#include "runtime/net/tls.hpp"

#include <openssl/pem.h>

namespace capstan::net {

namespace {

std::string pem_of(X509* certificate) {
    const std::unique_ptr<BIO, int (*)(BIO*)> bio(BIO_new(BIO_s_mem()), &BIO_free);
    if (!bio || PEM_write_bio_X509(bio.get(), certificate) != 1) {
        return {};
    }
    char* data = nullptr;
    const long size = BIO_get_mem_data(bio.get(), &data);
    return {data, static_cast<std::size_t>(size)};
}

std::string issuer_of(const X509* certificate) {
    const X509_NAME* issuer = X509_get_issuer_name(certificate);
    std::string text(256, '\0');
    const int size = X509_NAME_get_text_by_NID(
        issuer, NID_commonName, text.data(), static_cast<int>(text.size()));
    text.resize(size > 0 ? static_cast<std::size_t>(size) : 0);
    return text;
}

std::string names_of(const CertificateInfo& info) {
    std::string text;
    for (const auto* list : {&info.dns_names, &info.ip_addresses}) {
        for (const std::string& name : *list) {
            text += (text.empty() ? "" : ", ") + name;
        }
    }
    return text.empty() ? "no name at all" : text;
}

}  // namespace

std::string verify_problem(const SSL* ssl, WallTime now) {
    const long result = SSL_get_verify_result(ssl);
    if (result == X509_V_OK) {
        return {};
    }
    std::string text = X509_verify_cert_error_string(result);
    const auto* client = static_cast<const TlsClient*>(SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl)));
    if (client == nullptr || client->refused_ == nullptr) {
        return text;
    }
    const auto info = read_certificate(pem_of(client->refused_.get()));
    if (!info) {
        return text;
    }
    const std::string local = ", the local clock says " + to_rfc3339(now);
    switch (result) {
        case X509_V_ERR_CERT_HAS_EXPIRED:
            text += " (valid until " + to_rfc3339(info.value().validity.not_after) + local +
                    "); remedy: renew it, or set the clock";
            break;
        case X509_V_ERR_CERT_NOT_YET_VALID:
            text += " (valid from " + to_rfc3339(info.value().validity.not_before) + local +
                    "); remedy: set the clock";
            break;
        case X509_V_ERR_HOSTNAME_MISMATCH:
        case X509_V_ERR_IP_ADDRESS_MISMATCH:
            text += ": asked for " + client->host_ + ", the certificate is for " +
                    names_of(info.value());
            break;
        case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
        case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
        case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
            text += ": signed by \"" + issuer_of(client->refused_.get()) +
                    "\", which is not among the trusted CAs";
            break;
        default: break;
    }
    return text;
}

}  // namespace capstan::net
