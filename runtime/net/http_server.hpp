// The real HttpServer: HTTP/1.1 over TCP or TLS (OpenSSL). See http.hpp for the contract.
#pragma once

#include "capstan/error.hpp"
#include "runtime/net/http.hpp"
#include "runtime/net/io_loop.hpp"

#include <functional>
#include <memory>
#include <string>

namespace capstan::net {

// options.address may be "unix:PATH" (acceptor.hpp).
// Listens at once; `handler` is called for each request from then on. `loop` must come from
// make_loop() and outlive the server. Errors: invalid (address or PEM malformed, certificate and
// key do not match), unavailable (address in use or not assignable, port below 1024 without
// permission); the text names address:port and a remedy.
Result<std::unique_ptr<HttpServer>> make_http_server(IoLoop& loop,
                                                     HttpServerOptions options,
                                                     ServerHandler handler);

// What a TLS server shows and whom it believes; PEM text.
struct ServerTls {
    std::string certificate_pem, key_pem;
    std::string client_ca_pem;  // empty unless the server asks for client certificates
    friend bool operator==(const ServerTls&, const ServerTls&) = default;
};

// HttpServer::set_certificate that changes the clients' CA as well. `server` must come from
// make_http_server. Errors: invalid, what was in use stays.
Result<void> set_server_tls(HttpServer& server, const ServerTls& tls);

// `tell`: when connections begin to wait in the kernel's queue, for want of descriptors or because
// connections_max are there and none of them is idle; why, in a phrase. `server` must come from
// make_http_server.
void on_no_room(HttpServer& server, std::function<void(const std::string& why)> tell);

}  // namespace capstan::net
