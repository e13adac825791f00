#include "runtime/net/tls.hpp"

#include "runtime/net/url.hpp"

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <climits>

namespace capstan::net {

namespace {

struct Delete {
    void operator()(BIO* p) const noexcept { BIO_free(p); }
    void operator()(X509* p) const noexcept { X509_free(p); }
    void operator()(EVP_PKEY* p) const noexcept { EVP_PKEY_free(p); }
};
using BioPtr = std::unique_ptr<BIO, Delete>;
using X509Ptr = std::unique_ptr<X509, Delete>;
using KeyPtr = std::unique_ptr<EVP_PKEY, Delete>;

constexpr unsigned char kAlpn[] = {8, 'h', 't', 't', 'p', '/', '1', '.', '1'};
constexpr unsigned char kSessionContext[] = {'c', 'a', 'p', 's', 't', 'a', 'n'};

auto tls_failure(std::string_view what) {
    const std::string reason = openssl_error();
    return fail(Code::invalid, std::string(what) + (reason.empty() ? "" : ": " + reason));
}

BioPtr memory(std::string_view text) {
    if (text.size() > INT_MAX) {
        return nullptr;
    }
    return BioPtr(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

// Every certificate of the text, in order.
Result<std::vector<X509Ptr>> read_certificates(std::string_view pem, std::string_view what) {
    std::vector<X509Ptr> certificates;
    const BioPtr bio = memory(pem);
    while (bio) {
        X509Ptr certificate(PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr));
        if (!certificate) {
            break;
        }
        certificates.push_back(std::move(certificate));
    }
    const bool only_end = ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
    if (certificates.empty() || !only_end) {
        return tls_failure("malformed PEM in " + std::string(what));
    }
    ERR_clear_error();
    return certificates;
}

int no_passphrase(char*, int, int, void*) {
    return 0;
}

Result<void> use_pair(SSL_CTX* context,
                      std::string_view certificate_pem,
                      std::string_view key_pem) {
    CAPSTAN_TRY(auto chain, read_certificates(certificate_pem, "the certificate"));
    const BioPtr bio = memory(key_pem);
    const KeyPtr key(bio ? PEM_read_bio_PrivateKey(bio.get(), nullptr, no_passphrase, nullptr)
                         : nullptr);
    if (!key) {
        return tls_failure("malformed PEM in the private key");
    }
    if (SSL_CTX_use_certificate(context, chain.front().get()) != 1) {
        return tls_failure("use the certificate");
    }
    if (X509_check_private_key(chain.front().get(), key.get()) != 1) {
        return tls_failure("certificate and private key do not match");
    }
    if (SSL_CTX_use_PrivateKey(context, key.get()) != 1) {
        return tls_failure("use the private key");
    }
    for (std::size_t i = 1; i < chain.size(); ++i) {
        if (SSL_CTX_add1_chain_cert(context, chain[i].get()) != 1) {
            return tls_failure("use the certificate chain");
        }
    }
    return ok();
}

Result<void> trust(SSL_CTX* context, std::string_view ca_pem, std::string_view what) {
    CAPSTAN_TRY(auto authorities, read_certificates(ca_pem, what));
    X509_STORE* store = SSL_CTX_get_cert_store(context);
    for (const X509Ptr& authority : authorities) {
        if (X509_STORE_add_cert(store, authority.get()) != 1) {
            return tls_failure("use " + std::string(what));
        }
    }
    return ok();
}

Result<SslContextPtr> make_context(const SSL_METHOD* method) {
    SslContextPtr context(SSL_CTX_new(method));
    if (!context || SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION) != 1) {
        return tls_failure("make a TLS context");
    }
    SSL_CTX_set_mode(context.get(),
                     SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                         SSL_MODE_RELEASE_BUFFERS);
    SSL_CTX_set_options(context.get(), SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION);
    return context;
}

int choose_alpn(SSL*,
                const unsigned char** out,
                unsigned char* size,
                const unsigned char* in,
                unsigned int in_size,
                void*) {
    unsigned char* chosen = nullptr;
    if (SSL_select_next_proto(&chosen, size, kAlpn, sizeof kAlpn, in, in_size) !=
        OPENSSL_NPN_NEGOTIATED) {
        return SSL_TLSEXT_ERR_NOACK;
    }
    *out = chosen;
    return SSL_TLSEXT_ERR_OK;
}

std::string entry_text(const X509_NAME_ENTRY* entry) {
    unsigned char* utf8 = nullptr;
    const int size = ASN1_STRING_to_UTF8(&utf8, X509_NAME_ENTRY_get_data(entry));
    if (size < 0) {
        return {};
    }
    std::string text(utf8, utf8 + size);
    OPENSSL_free(utf8);
    return text;
}

}  // namespace

std::string openssl_error() {
    const unsigned long code = ERR_peek_error();
    ERR_clear_error();
    if (code == 0) {
        return {};
    }
    const char* reason = ERR_reason_error_string(code);
    return reason != nullptr ? reason : "OpenSSL error " + std::to_string(code);
}

TlsClient::TlsClient(SslContextPtr context, std::string host, bool insecure)
    : context_(std::move(context)), host_(std::move(host)), insecure_(insecure) {
    SSL_CTX_set_app_data(context_.get(), this);
    SSL_CTX_set_session_cache_mode(context_.get(),
                                   SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
    SSL_CTX_sess_set_new_cb(context_.get(), &TlsClient::keep_session);
    SSL_CTX_set_verify(
        context_.get(), insecure_ ? SSL_VERIFY_NONE : SSL_VERIFY_PEER, &TlsClient::note_refused);
}

// Connections hold the context, and the context would still name us.
TlsClient::~TlsClient() {
    SSL_CTX_sess_set_new_cb(context_.get(), nullptr);
    SSL_CTX_set_app_data(context_.get(), nullptr);
}

int TlsClient::note_refused(int good, X509_STORE_CTX* context) noexcept {
    const auto* ssl = static_cast<const SSL*>(
        X509_STORE_CTX_get_ex_data(context, SSL_get_ex_data_X509_STORE_CTX_idx()));
    X509* certificate = X509_STORE_CTX_get_current_cert(context);
    if (good != 1 && ssl != nullptr && certificate != nullptr) {
        auto* self = static_cast<TlsClient*>(SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl)));
        if (self != nullptr) {
            X509_up_ref(certificate);
            self->refused_ = std::shared_ptr<X509>(certificate, &X509_free);
        }
    }
    return good;
}

int TlsClient::keep_session(SSL* ssl, SSL_SESSION* session) noexcept {
    auto* self = static_cast<TlsClient*>(SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl)));
    self->session_.reset(session);  // takes the reference: hence 1
    return 1;
}

Result<std::unique_ptr<TlsClient>> TlsClient::create(const TlsClientOptions& options,
                                                     std::string_view host) {
    CAPSTAN_TRY(auto context, make_context(TLS_client_method()));
    if (!options.ca_pem.empty()) {
        CAPSTAN_TRY(trust(context.get(), options.ca_pem, "the CA"));
    } else if (!options.insecure && SSL_CTX_set_default_verify_paths(context.get()) != 1) {
        return tls_failure("load the system's CA store");
    }
    if (options.certificate_pem.empty() != options.key_pem.empty()) {
        return fail(Code::invalid, "client certificate and key go together");
    }
    if (!options.certificate_pem.empty()) {
        CAPSTAN_TRY(use_pair(context.get(), options.certificate_pem, options.key_pem));
    }
    SSL_CTX_set_alpn_protos(context.get(), kAlpn, sizeof kAlpn);
    const std::string name = options.server_name.empty() ? std::string(host) : options.server_name;
    // tidy: allow new, private constructor
    return std::unique_ptr<TlsClient>(new TlsClient(std::move(context), name, options.insecure));
}

Result<std::unique_ptr<TlsClient>> TlsClient::create_for_proxy(std::string_view ca_pem,
                                                               std::string_view host) {
    TlsClientOptions options;
    options.ca_pem = ca_pem;
    CAPSTAN_TRY(auto client, create(options, host));
    if (SSL_CTX_set_default_verify_paths(client->context_.get()) != 1) {
        return tls_failure("load the system's CA store");
    }
    return client;
}

Result<SslPtr> TlsClient::connection() const {
    SslPtr ssl(SSL_new(context_.get()));
    if (!ssl) {
        return tls_failure("make a TLS connection");
    }
    const bool address = is_ip_address(host_);
    if (!address && !host_.empty()) {
        // SSL_set_tlsext_host_name is this call behind an old-style cast.
        SSL_ctrl(ssl.get(),
                 SSL_CTRL_SET_TLSEXT_HOSTNAME,
                 TLSEXT_NAMETYPE_host_name,
                 const_cast<char*>(host_.c_str()));
    }
    if (!insecure_) {
        X509_VERIFY_PARAM* param = SSL_get0_param(ssl.get());
        X509_VERIFY_PARAM_set_hostflags(
            param, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS | X509_CHECK_FLAG_NEVER_CHECK_SUBJECT);
        const int set = address ? X509_VERIFY_PARAM_set1_ip_asc(param, host_.c_str())
                                : X509_VERIFY_PARAM_set1_host(param, host_.data(), host_.size());
        if (set != 1) {
            return tls_failure("verify the name " + host_);
        }
    }
    if (session_) {
        SSL_set_session(ssl.get(), session_.get());
    }
    return ssl;
}

Result<std::shared_ptr<TlsServer>> TlsServer::create(std::string_view certificate_pem,
                                                     std::string_view key_pem,
                                                     std::string_view client_ca_pem,
                                                     ClientAuth auth) {
    CAPSTAN_TRY(auto context, make_context(TLS_server_method()));
    CAPSTAN_TRY(use_pair(context.get(), certificate_pem, key_pem));
    int mode = SSL_VERIFY_NONE;
    if (auth != ClientAuth::none) {
        if (client_ca_pem.empty()) {
            return fail(Code::invalid, "asking for client certificates needs client_ca_pem");
        }
        CAPSTAN_TRY(trust(context.get(), client_ca_pem, "the client CA"));
        mode =
            SSL_VERIFY_PEER | (auth == ClientAuth::require ? SSL_VERIFY_FAIL_IF_NO_PEER_CERT : 0);
        CAPSTAN_TRY(auto names, read_certificates(client_ca_pem, "the client CA"));
        for (const X509Ptr& name : names) {
            SSL_CTX_add_client_CA(context.get(), name.get());
        }
    }
    SSL_CTX_set_verify(context.get(), mode, nullptr);
    SSL_CTX_set_session_id_context(context.get(), kSessionContext, sizeof kSessionContext);
    SSL_CTX_set_alpn_select_cb(context.get(), choose_alpn, nullptr);
    return std::make_shared<TlsServer>(std::move(context));
}

Result<SslPtr> TlsServer::connection() const {
    SslPtr ssl(SSL_new(context_.get()));
    if (!ssl) {
        return tls_failure("make a TLS connection");
    }
    return ssl;
}

PeerSubject peer_subject(const SSL* ssl) {
    PeerSubject subject;
    subject.tls = true;
    const X509Ptr certificate(SSL_get1_peer_certificate(ssl));
    if (!certificate || SSL_get_verify_result(ssl) != X509_V_OK) {
        return subject;
    }
    subject.certified = true;
    const X509_NAME* name = X509_get_subject_name(certificate.get());
    for (int i = 0; i < X509_NAME_entry_count(name); ++i) {
        const X509_NAME_ENTRY* entry = X509_NAME_get_entry(name, i);
        const int kind = OBJ_obj2nid(X509_NAME_ENTRY_get_object(entry));
        if (kind == NID_commonName) {
            subject.common_name = entry_text(entry);
        }
        if (kind == NID_organizationName) {
            subject.organizations.push_back(entry_text(entry));
        }
    }
    return subject;
}

}  // namespace capstan::net
