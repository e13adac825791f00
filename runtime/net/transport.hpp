// One connected byte stream: TCP or Unix, with or without TLS. What HTTP is written on.
//
// Thread: loop. Callbacks never run inside the call that registered them, and never after
// the object is destroyed.
#pragma once

#include "capstan/error.hpp"
#include "runtime/net/io_loop.hpp"
#include "runtime/net/proxy.hpp"
#include "runtime/net/tls.hpp"
#include "runtime/net/url.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace capstan::net {

inline constexpr std::chrono::milliseconds kLingerMax{1'000};  // of close_gently()

struct IoError {
    enum class Kind : std::uint8_t { none, end, failed };  // end: the peer sends nothing more
    Kind kind{Kind::none};
    std::string text;
    bool untrusted{false};  // the peer's certificate was refused by us
    explicit operator bool() const noexcept { return kind != Kind::none; }
};

class Transport {
public:
    virtual ~Transport() = default;  // closes at once

    // Up to 16 KiB; `bytes` is borrowed for the call. One at a time.
    virtual void read(std::function<void(const IoError& error, std::string_view bytes)> done) = 0;
    // All of `bytes`, then `done`: they are with the kernel. One at a time.
    virtual void write(std::string bytes, std::function<void(const IoError& error)> done) = 0;
    // Server side of the handshake; the client side belongs to connect().
    virtual void accept_tls(SslPtr ssl, std::function<void(const IoError& error)> done) = 0;
    // Ends our side, drops what still arrives for at most kLingerMax, so that the peer
    // can read our last words.
    // Requires: no write pending. Nothing else may be called afterwards but the destructor.
    virtual void close_gently() = 0;
    // When it closes, the kernel takes back what it has not sent yet and resets the connection.
    virtual void drop_unsent() noexcept = 0;
    // Open, and nothing waits to be read: not the peer's end either, though no read told of it yet.
    virtual bool is_quiet() const noexcept = 0;
    virtual PeerSubject subject() const = 0;
};

// Wraps a connected socket. Takes ownership of `fd`.
Result<std::unique_ptr<Transport>> adopt_socket(IoLoop& loop, int fd, int family);

class Connecting {
public:
    virtual ~Connecting() = default;  // cancels, no callback follows
    // "look up", "connect", "TLS"; on the way to a proxy "proxy: HOST:PORT" and perhaps one of them
    virtual std::string_view phase() const noexcept = 0;
    virtual bool untrusted() const noexcept = 0;  // failed: the certificate was refused by us
};

// Whom to connect to, and how. The TLS settings are shared: newer ones may replace them meanwhile.
struct Route {
    Endpoint endpoint;
    std::shared_ptr<const TlsClient> tls;  // null: without
    std::optional<Proxy> proxy;
    std::shared_ptr<const TlsClient> proxy_tls;  // of an https proxy
};

// Errors: unavailable; the text says what failed.
std::unique_ptr<Connecting> connect(IoLoop& loop,
                                    Route route,
                                    std::function<void(Result<std::unique_ptr<Transport>>)> done);

}  // namespace capstan::net
