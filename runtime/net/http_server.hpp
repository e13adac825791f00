// The real HttpServer: HTTP/1.1 over TCP or TLS (OpenSSL). See http.hpp for the contract.
#pragma once

#include "capstan/error.hpp"
#include "runtime/net/http.hpp"
#include "runtime/net/io_loop.hpp"

#include <memory>

namespace capstan::net {

// Listens at once; `handler` is called for each request from then on. `loop` must come from
// make_loop() and outlive the server. Errors: invalid (address or PEM malformed, certificate and
// key do not match), unavailable (address in use or not assignable, port below 1024 without
// permission); the text names address:port and a remedy.
Result<std::unique_ptr<HttpServer>> make_http_server(IoLoop& loop,
                                                     HttpServerOptions options,
                                                     ServerHandler handler);

}  // namespace capstan::net
