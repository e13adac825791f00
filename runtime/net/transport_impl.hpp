// The Asio side of Transport.
#pragma once

#include "runtime/net/transport.hpp"

#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ssl/stream.hpp>

#include <array>
#include <optional>

namespace capstan::net {

using Socket = boost::asio::generic::stream_protocol::socket;
using TlsStream = boost::asio::ssl::stream<Socket&>;
using InnerTlsStream = boost::asio::ssl::stream<TlsStream&>;

// Shared by the handle (SocketTransport) and the operations in flight, so that
// cancelled ones end in peace.
struct SocketState : std::enable_shared_from_this<SocketState> {
    explicit SocketState(IoLoop& l) : loop(l), socket(context(l)) {}
    static boost::asio::io_context& context(IoLoop& loop);

    void read();
    void write();
    // With TLS already: a second one inside, to the target behind an https proxy.
    void handshake(bool as_server, std::function<void(const IoError&)> done);
    SSL* innermost();  // requires: TLS
    void shut();       // silences and closes
    void begin_linger();
    void drain();

    IoLoop& loop;
    Socket socket;
    SslPtr ssl;                           // owned here until the stream takes it
    std::optional<TlsStream> tls;         // refers to `socket`
    std::optional<InnerTlsStream> inner;  // refers to `tls`
    bool closed{false};
    std::array<char, 16 * 1024> in{};
    std::string out;
    std::function<void(const IoError&, std::string_view)> on_read;
    std::function<void(const IoError&)> on_write;
    std::function<void(const IoError&)> on_handshake;
    std::unique_ptr<Timer> linger;
};

std::unique_ptr<Transport> wrap(std::shared_ptr<SocketState> state);
// Asks the proxy at the other end of `state` for a tunnel to `target`. `done` gets what went
// wrong, or "" when the socket now leads to the target; it is not called once the socket is shut.
void open_tunnel(const std::shared_ptr<SocketState>& state,
                 const Endpoint& target,
                 const Proxy& proxy,
                 std::function<void(const std::string& problem)> done);
void set_tcp_options(Socket& socket, int family) noexcept;

}  // namespace capstan::net
