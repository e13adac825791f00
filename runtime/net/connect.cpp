#include "runtime/net/io_loop_impl.hpp"
#include "runtime/net/transport_impl.hpp"

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>

#include <vector>

namespace capstan::net {

namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;

constexpr std::size_t kAddressesMax = 8;  // of one name that are tried

struct ConnectState : std::enable_shared_from_this<ConnectState> {
    ConnectState(IoLoop& l, Route r, std::function<void(Result<std::unique_ptr<Transport>>)> d)
        : loop(l),
          route(std::move(r)),
          done(std::move(d)),
          resolver(context_of(l)),
          phase(on_first_hop("look up")) {}

    void start();
    void take(const error_code& error, const tcp::resolver::results_type& found);
    void try_next(const std::string& problem);
    void connected();
    void tunnel();
    void secure();
    void shake(const TlsClient& tls, void (ConnectState::*then)());
    void finish_connected() { finish(wrap(std::move(socket))); }
    // What the socket is connected to.
    const Endpoint& first_hop() const noexcept {
        return route.proxy ? route.proxy->endpoint : route.endpoint;
    }
    std::string on_first_hop(std::string_view step) const;
    void finish(Result<std::unique_ptr<Transport>> result);
    void fail_with(const std::string& text) { finish(fail(Code::unavailable, text)); }

    IoLoop& loop;
    const Route route;
    std::function<void(Result<std::unique_ptr<Transport>>)> done;  // null: cancelled or over
    tcp::resolver resolver;
    std::vector<asio::generic::stream_protocol::endpoint> addresses;
    std::size_t next{0};
    std::shared_ptr<SocketState> socket;
    std::string phase;
    bool untrusted{false};
};

// Where the address to be dialled is not the server's, errors name it.
std::string ConnectState::on_first_hop(std::string_view step) const {
    if (!route.proxy) {
        return std::string(step);
    }
    const std::string where = "proxy: " + join_host_port(first_hop().host, first_hop().port);
    return step.empty() ? where : where + ": " + std::string(step);
}

void ConnectState::start() {
    phase = on_first_hop("connect");
    error_code error;
    if (first_hop().scheme == Scheme::unix_socket) {
        addresses.emplace_back(asio::local::stream_protocol::endpoint(first_hop().host));
        return try_next("");
    }
    const auto literal = asio::ip::make_address(first_hop().host, error);
    if (!error) {
        addresses.emplace_back(tcp::endpoint(literal, first_hop().port));
        return try_next("");
    }
    phase = on_first_hop("look up");
    resolver.async_resolve(
        first_hop().host,
        std::to_string(first_hop().port),
        tcp::resolver::numeric_service,
        [self = shared_from_this()](const error_code& e, const tcp::resolver::results_type& found) {
            if (self->done) {
                self->take(e, found);
            }
        });
}

void ConnectState::take(const error_code& error, const tcp::resolver::results_type& found) {
    if (error) {
        return fail_with(error.message());
    }
    for (const auto& entry : found) {
        if (addresses.size() < kAddressesMax) {
            addresses.emplace_back(entry.endpoint());
        }
    }
    phase = on_first_hop("connect");
    try_next("no address");
}

void ConnectState::try_next(const std::string& problem) {
    if (next == addresses.size()) {
        return fail_with(problem);
    }
    const auto& address = addresses[next++];
    socket = std::make_shared<SocketState>(loop);
    error_code error;
    socket->socket.open(address.protocol(), error);
    if (error) {
        return try_next(error.message());
    }
    set_tcp_options(socket->socket, address.protocol().family());
    socket->socket.async_connect(
        address, [self = shared_from_this(), attempt = socket](const error_code& e) {
            if (!self->done || self->socket != attempt) {
                return;
            }
            if (e) {
                self->try_next(e.message());
            } else {
                self->connected();
            }
        });
}

void ConnectState::connected() {
    if (!route.proxy) {
        return secure();
    }
    if (route.proxy->kind != ProxyKind::https) {
        return tunnel();
    }
    phase = on_first_hop("TLS");
    shake(*route.proxy_tls, &ConnectState::tunnel);
}

void ConnectState::tunnel() {
    phase = on_first_hop("");
    open_tunnel(
        socket, route.endpoint, *route.proxy, [weak = weak_from_this()](const std::string& why) {
            const auto state = weak.lock();
            if (!state || !state->done) {
                return;
            }
            if (!why.empty()) {
                state->fail_with(why);
            } else {
                state->secure();
            }
        });
}

void ConnectState::secure() {
    if (route.tls == nullptr) {
        return finish_connected();
    }
    phase = "TLS";
    shake(*route.tls, &ConnectState::finish_connected);
}

void ConnectState::shake(const TlsClient& tls, void (ConnectState::*then)()) {
    auto ssl = tls.connection();
    if (!ssl) {
        return finish(fail(ssl.error()));
    }
    socket->ssl = std::move(ssl).value();
    socket->handshake(false, [self = weak_from_this(), then](const IoError& e) {
        const auto state = self.lock();
        if (!state || !state->done) {
            return;
        }
        if (e) {
            state->untrusted = e.untrusted;
            state->fail_with(e.text);
        } else {
            ((*state).*then)();
        }
    });
}

void ConnectState::finish(Result<std::unique_ptr<Transport>> result) {
    const auto call = std::exchange(done, nullptr);
    if (socket) {
        socket->shut();
    }
    call(std::move(result));
}

class ConnectHandle final : public Connecting {
public:
    explicit ConnectHandle(std::shared_ptr<ConnectState> state) : state_(std::move(state)) {}
    ~ConnectHandle() override {
        state_->done = nullptr;
        state_->resolver.cancel();
        if (state_->socket) {
            state_->socket->shut();
        }
    }
    ConnectHandle(const ConnectHandle&) = delete;
    ConnectHandle& operator=(const ConnectHandle&) = delete;
    std::string_view phase() const noexcept override { return state_->phase; }
    bool untrusted() const noexcept override { return state_->untrusted; }

private:
    std::shared_ptr<ConnectState> state_;  // shared with operations in flight
};

}  // namespace

std::unique_ptr<Connecting> connect(IoLoop& loop,
                                    Route route,
                                    std::function<void(Result<std::unique_ptr<Transport>>)> done) {
    CAPSTAN_CHECK(!route.proxy || route.proxy->kind != ProxyKind::https || route.proxy_tls,
                  "TLS settings of the proxy");
    auto state = std::make_shared<ConnectState>(loop, std::move(route), std::move(done));
    // Posted, so that an immediate failure is no callback inside this call.
    loop.post([state] {
        if (state->done) {
            state->start();
        }
    });
    return std::make_unique<ConnectHandle>(std::move(state));
}

}  // namespace capstan::net
