// HTTP/1.1 as the runtime uses it: one client per endpoint with a keep-alive pool,
// and one kind of server.
//
// Interfaces only; nothing here includes Asio or Beast. `make_http_client` and `make_http_server`
// (http_client.hpp, http_server.hpp) give the real ones; an in-process transport implements
// HttpClient for simulation.
// Thread: every call and every callback on the loop thread [io]. Callbacks never run inside the
// call that registered them.
#pragma once

#include "capstan/clock.hpp"
#include "capstan/error.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace capstan::net {

inline constexpr std::size_t kHeaderBytesMax = 64 * 1024;
// a unary answer; a list page is far below
inline constexpr std::size_t kBodyBytesMax = 256u * 1024 * 1024;

using Headers = std::vector<std::pair<std::string, std::string>>;  // names compare without case
// "" when absent
std::string_view find_header(const Headers& headers, std::string_view name) noexcept;

struct HttpRequest {
    std::string method{"GET"};
    std::string target;  // path and query, already escaped: "/api/v1/pods?limit=500"
    Headers headers;     // Host, Content-Length and Connection are ours
    std::string body;
    // of the whole exchange (unary) or of the response head (stream)
    MonotonicTime deadline{kNever};
    std::size_t body_bytes_max{kBodyBytesMax};
};

struct HttpResponse {
    int status{0};
    Headers headers;
    std::string body;
};

// One request in flight. Destroying it cancels: the connection is closed unless the exchange had
// ended, and no callback follows.
class HttpExchange {
public:
    virtual ~HttpExchange() = default;
};

// A streaming exchange. Body bytes arrive only on demand, so a slow reader holds back the peer.
class HttpStream : public HttpExchange {
public:
    // Asks for more body: exactly one on_data or on_end follows. Requires: no read pending.
    virtual void read() = 0;
    // Request body, for requests opened with body_follows; `done` when it may be
    // followed by the next piece.
    virtual void write(std::string bytes, bool last, std::function<void(Result<void>)> done) = 0;
};

struct StreamHandler {
    // once, unless on_end comes first
    std::function<void(int status, const Headers& headers)> on_head;
    // borrowed for the call; 1 byte to 64 KiB
    std::function<void(std::string_view bytes)> on_data;
    // last callback; error: unavailable, timeout
    std::function<void(Result<void>)> on_end;
};

struct StreamOptions {
    bool body_follows{false};     // HttpRequest::body is ignored; use HttpStream::write
    std::int64_t body_bytes{-1};  // -1: chunked
    // longest wait for bytes while a read is pending; passed: on_end(timeout)
    MonotonicTime idle_max{kNever};
};

struct TlsClientOptions;

class HttpClient {
public:
    virtual ~HttpClient() = default;  // cancels every exchange
    // `done` runs once. Errors: unavailable (refused, reset, TLS; the text says which and names the
    // endpoint), timeout, too_large. Any status is a success here.
    [[nodiscard]] virtual std::unique_ptr<HttpExchange> send(
        HttpRequest request, std::function<void(Result<HttpResponse>)> done) = 0;
    [[nodiscard]] virtual std::unique_ptr<HttpStream> stream(HttpRequest request,
                                                             StreamOptions options,
                                                             StreamHandler handler) = 0;
    // Other roots, another identity: new connections use `tls`, idle ones close, exchanges under
    // way end on the connection they have, which closes after them. Errors: invalid (PEM),
    // unsupported (no TLS); nothing has changed then.
    virtual Result<void> set_tls(const TlsClientOptions&) {
        return fail(Code::unsupported, "this client speaks no TLS");
    }
};

// The client side of TLS. Everything PEM text, not paths: rotation is the owner's
// affair (HttpClient::set_tls).
struct TlsClientOptions {
    std::string ca_pem;           // empty: the system's store
    std::string certificate_pem;  // with key_pem: presented to the server
    std::string key_pem;
    std::string server_name;  // for SNI and verification; empty: the host of the endpoint
    bool insecure{false};     // no verification at all; the owner warns
};

struct HttpClientOptions {
    // "https://127.0.0.1:6443", "http://[::1]:2379", "unix:///run/x.sock"; no path
    std::string endpoint;
    TlsClientOptions tls;
    // "http://[user:password@]proxy:3128": reached through its CONNECT; empty: directly
    std::string proxy;
    // The server's certificate was refused. True: set_tls() was called meanwhile, and the request,
    // of which nothing was sent, is worth one more connection.
    std::function<bool()> on_untrusted;
    std::size_t connections_max{64};  // streams included
    std::size_t idle_connections_max{16};
    std::chrono::milliseconds idle_timeout{30'000};     // of an idle connection in the pool
    std::chrono::milliseconds connect_timeout{10'000};  // name, TCP and TLS together
};

// One request at the server. Held by the handler until answered; destroying
// it unanswered sends 500.
class ServerExchange {
public:
    virtual ~ServerExchange() = default;

    virtual const std::string& method() const noexcept = 0;
    virtual const std::string& target() const noexcept = 0;  // as sent, still escaped
    virtual const Headers& headers() const noexcept = 0;
    virtual const std::string& remote() const noexcept = 0;  // "127.0.0.1:40210"
    // Subject of a verified client certificate; empty when none was presented.
    virtual const std::string& certificate_common_name() const noexcept = 0;
    virtual const std::vector<std::string>& certificate_organizations() const noexcept = 0;
    virtual bool over_tls() const noexcept { return false; }
    // A client certificate was presented and verified, whatever its subject.
    virtual bool certified() const noexcept { return !certificate_common_name().empty(); }

    // Next piece of the body: up to `bytes_max`; empty: the end. One at a time.
    virtual void read(std::size_t bytes_max, std::function<void(Result<std::string>)> done) = 0;
    // The whole body; too_large (and 413 sent, exchange over) above `bytes_max`.
    virtual void read_all(std::size_t bytes_max, std::function<void(Result<std::string>)> done) = 0;

    // Unary answer. Ends the exchange.
    virtual void respond(int status, Headers headers, std::string body) = 0;
    // Streaming answer: start, then write until end. Chunked unless `headers` has Content-Length.
    virtual void start(int status, Headers headers) = 0;
    // flushed when done runs
    virtual void write(std::string bytes, std::function<void(Result<void>)> done) = 0;
    virtual void end() = 0;
    // Called once when the peer goes away before the answer ended.
    virtual void on_closed(std::function<void()> closed) = 0;
};

// shared: handler and its callbacks
using ServerHandler = std::function<void(std::shared_ptr<ServerExchange>)>;

enum class ClientAuth : std::uint8_t { none, request, require };

struct HttpServerOptions {
    std::string address{"127.0.0.1"};
    std::uint16_t port{0};        // 0: any free port
    std::string certificate_pem;  // empty: plain HTTP
    std::string key_pem;
    std::string client_ca_pem;  // for ClientAuth
    ClientAuth client_auth{ClientAuth::none};
    std::size_t connections_max{4096};
    std::chrono::milliseconds head_timeout{10'000};  // TLS handshake and request head, each
    // keep-alive between requests; reading and writing of bodies
    std::chrono::milliseconds idle_timeout{120'000};
};

class HttpServer {
public:
    virtual ~HttpServer() = default;  // closes everything
    virtual std::uint16_t port() const noexcept = 0;
    // New connections use the new pair; running ones go on. Errors: invalid (bad
    // PEM), the old pair stays.
    virtual Result<void> set_certificate(std::string certificate_pem, std::string key_pem) = 0;
    virtual void stop_accepting() = 0;  // running exchanges finish; idle connections close
};

}  // namespace capstan::net
