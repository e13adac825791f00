// The real HttpClient: HTTP/1.1 over TCP, TLS (OpenSSL) or a Unix socket. Contract: http.hpp.
//
// A kept connection may have been closed by the server. It is not used when that is known before
// anything is written, whatever the method. When it shows later and no byte of an answer has come,
// nobody knows whether the request was carried out: one that only reads (GET, HEAD, OPTIONS) is
// sent once more on a new connection, every other one is reported (unavailable). A PUT or DELETE is
// idempotent only while nobody else writes: sent again it can delete an object made in between, or
// be refused for its own first effect. Whoever has made it conditional may repeat it
// (kube/client.hpp).
#pragma once

#include "capstan/error.hpp"
#include "runtime/net/http.hpp"
#include "runtime/net/io_loop.hpp"

#include <functional>
#include <memory>

namespace capstan::net {

// `loop` must come from make_loop() and outlive the client. Nothing is connected yet. The answer to
// "Accept-Encoding: gzip" is decoded; body_bytes_max and pieces are of the text then.
// Errors: invalid (endpoint or PEM malformed, certificate and key do not match).
Result<std::unique_ptr<HttpClient>> make_http_client(IoLoop& loop, HttpClientOptions options);

// Whether a client can be made of these: PEM that can be read, a certificate with its key.
// Errors: invalid.
Result<void> check_tls(const TlsClientOptions& options);

// What parts of the runtime that make their own clients are given; a simulation gives its own.
using HttpClientFactory = std::function<Result<std::unique_ptr<HttpClient>>(HttpClientOptions)>;

}  // namespace capstan::net
