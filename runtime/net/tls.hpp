// TLS contexts of client and server (OpenSSL 3), made from PEM text.
//
// TLS 1.2 or newer; ALPN http/1.1. Thread: the loop thread.
#pragma once

#include "capstan/clock.hpp"
#include "capstan/error.hpp"
#include "runtime/net/http.hpp"

#include <openssl/ssl.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace capstan::net {

struct SslDelete {
    void operator()(SSL* p) const noexcept { SSL_free(p); }
    void operator()(SSL_CTX* p) const noexcept { SSL_CTX_free(p); }
    void operator()(SSL_SESSION* p) const noexcept { SSL_SESSION_free(p); }
};
using SslPtr = std::unique_ptr<SSL, SslDelete>;
using SslContextPtr = std::unique_ptr<SSL_CTX, SslDelete>;
using SslSessionPtr = std::unique_ptr<SSL_SESSION, SslDelete>;

class TlsClient {
public:
    // `host`: what the certificate must name, and SNI unless it is an address. Errors: invalid.
    static Result<std::unique_ptr<TlsClient>> create(const TlsClientOptions& options,
                                                     std::string_view host);
    // For an https proxy: the system's store is trusted besides `ca_pem`; no client certificate.
    static Result<std::unique_ptr<TlsClient>> create_for_proxy(std::string_view ca_pem,
                                                               std::string_view host);
    TlsClient(const TlsClient&) = delete;
    TlsClient& operator=(const TlsClient&) = delete;

    ~TlsClient();  // connections made by it live on

    // A connection ready for the handshake, resuming the last session if there is one.
    Result<SslPtr> connection() const;

private:
    TlsClient(SslContextPtr context, std::string host, bool insecure);
    static int keep_session(SSL* ssl, SSL_SESSION* session) noexcept;
    static int note_refused(int good, X509_STORE_CTX* context) noexcept;
    friend std::string verify_problem(const SSL* ssl, WallTime now);

    const SslContextPtr context_;
    const std::string host_;
    const bool insecure_;
    SslSessionPtr session_;
    std::shared_ptr<X509> refused_;  // the last one; shared: OpenSSL counts its references itself
};

class TlsServer {
public:
    // Errors: invalid.
    static Result<std::shared_ptr<TlsServer>> create(std::string_view certificate_pem,
                                                     std::string_view key_pem,
                                                     std::string_view client_ca_pem,
                                                     ClientAuth auth);
    explicit TlsServer(SslContextPtr context) : context_(std::move(context)) {}
    Result<SslPtr> connection() const;

private:
    const SslContextPtr context_;
};

// Subject of the verified peer certificate; empty when there is none.
struct PeerSubject {
    bool tls{false};        // there is TLS
    bool certified{false};  // with a verified certificate of the peer
    std::string common_name;
    std::vector<std::string> organizations;
};
PeerSubject peer_subject(const SSL* ssl);

// Why the peer's certificate was refused, and the remedy: "hostname mismatch: the certificate is
// for localhost"; "" when it was not. `now`: of the local clock, for the text only.
std::string verify_problem(const SSL* ssl, WallTime now);
std::string openssl_error();  // the first queued error of this thread, and clears the queue

}  // namespace capstan::net
