// CONNECT (RFC 9110 9.3.6): a tunnel through an HTTP proxy, on a socket connected to it.
#include "runtime/net/http1.hpp"
#include "runtime/net/transport_impl.hpp"

#include <boost/asio/write.hpp>

#include <algorithm>

namespace capstan::net {

namespace {

namespace asio = boost::asio;
using boost::system::error_code;

constexpr std::size_t kStatusLineBytesMax = 120;  // of it, quoted in an error

struct Tunnel : std::enable_shared_from_this<Tunnel> {
    std::shared_ptr<SocketState> socket;
    std::string where;  // "proxy.example:3128"
    std::string in;
    std::function<void(const std::string&)> done;

    void finish(const std::string& problem) {
        const auto call = std::exchange(done, nullptr);
        if (call && !socket->closed) {
            call(problem.empty() ? problem : where + ": " + problem);
        }
    }
    void read() {
        socket->socket.async_read_some(
            asio::buffer(socket->in),
            [self = shared_from_this()](const error_code& error, std::size_t count) {
                if (error) {
                    self->finish(error == asio::error::eof ? "closed the connection"
                                                           : error.message());
                    return;
                }
                self->in.append(self->socket->in.data(), count);
                self->take();
            });
    }
    void take() {
        const std::size_t end = in.find("\r\n\r\n");
        if (end == std::string::npos && in.size() < kProxyHeadBytesMax) {
            return read();
        }
        const std::string line = in.substr(0, std::min(in.find("\r\n"), kStatusLineBytesMax));
        const bool http = line.starts_with("HTTP/1.1 ") || line.starts_with("HTTP/1.0 ");
        if (end == std::string::npos || !http) {
            return finish("does not answer as an HTTP proxy");
        }
        if (line.size() < 12 || line[9] != '2') {
            std::string said = line.substr(9);
            std::replace_if(
                said.begin(), said.end(), [](char c) { return c < ' ' || c > '~'; }, ' ');
            return finish("the proxy refuses: " + said);
        }
        // The other end of a tunnel for TLS or HTTP speaks second.
        finish(end + 4 == in.size() ? "" : "sends more than its answer");
    }
};

}  // namespace

void open_tunnel(const std::shared_ptr<SocketState>& state,
                 const Endpoint& target,
                 const Proxy& proxy,
                 std::function<void(const std::string& problem)> done) {
    auto tunnel = std::make_shared<Tunnel>();
    tunnel->socket = state;
    tunnel->where = join_host_port(proxy.endpoint.host, proxy.endpoint.port);
    tunnel->done = std::move(done);
    const std::string authority = join_host_port(target.host, target.port);
    std::string head = "CONNECT " + authority + " HTTP/1.1\r\n";
    append_header(head, "Host", authority);
    if (!proxy.authorization.empty()) {
        append_header(head, "Proxy-Authorization", proxy.authorization);
    }
    state->out = head + "\r\n";
    asio::async_write(
        state->socket, asio::buffer(state->out), [tunnel](const error_code& error, std::size_t) {
            tunnel->socket->out.clear();
            if (error) {
                tunnel->finish(error.message());
            } else {
                tunnel->read();
            }
        });
}

}  // namespace capstan::net
