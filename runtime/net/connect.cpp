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
    ConnectState(IoLoop& l,
                 Endpoint e,
                 std::shared_ptr<const TlsClient> t,
                 std::optional<Proxy> p,
                 std::function<void(Result<std::unique_ptr<Transport>>)> d)
        : loop(l),
          endpoint(std::move(e)),
          tls(std::move(t)),
          proxy(std::move(p)),
          done(std::move(d)),
          resolver(context_of(l)) {}

    void start();
    void take(const error_code& error, const tcp::resolver::results_type& found);
    void try_next(const std::string& problem);
    void connected();
    void secure();
    // What the socket is connected to.
    const Endpoint& next_hop() const noexcept { return proxy ? proxy->endpoint : endpoint; }
    void finish(Result<std::unique_ptr<Transport>> result);
    void fail_with(const std::string& text) { finish(fail(Code::unavailable, text)); }

    IoLoop& loop;
    const Endpoint endpoint;
    const std::shared_ptr<const TlsClient> tls;  // shared with the pool, which may get another
    const std::optional<Proxy> proxy;
    std::function<void(Result<std::unique_ptr<Transport>>)> done;  // null: cancelled or over
    tcp::resolver resolver;
    std::vector<asio::generic::stream_protocol::endpoint> addresses;
    std::size_t next{0};
    std::shared_ptr<SocketState> socket;
    std::string_view phase{"look up"};
    bool untrusted{false};
};

void ConnectState::start() {
    phase = "connect";
    error_code error;
    if (next_hop().scheme == Scheme::unix_socket) {
        addresses.emplace_back(asio::local::stream_protocol::endpoint(next_hop().host));
        return try_next("");
    }
    const auto literal = asio::ip::make_address(next_hop().host, error);
    if (!error) {
        addresses.emplace_back(tcp::endpoint(literal, next_hop().port));
        return try_next("");
    }
    phase = "look up";
    resolver.async_resolve(
        next_hop().host,
        std::to_string(next_hop().port),
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
    phase = "connect";
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
    if (!proxy) {
        return secure();
    }
    phase = "proxy";
    open_tunnel(socket, endpoint, *proxy, [weak = weak_from_this()](const std::string& problem) {
        const auto state = weak.lock();
        if (!state || !state->done) {
            return;
        }
        if (!problem.empty()) {
            state->fail_with(problem);
        } else {
            state->secure();
        }
    });
}

void ConnectState::secure() {
    if (tls == nullptr) {
        return finish(wrap(std::move(socket)));
    }
    phase = "TLS";
    auto ssl = tls->connection();
    if (!ssl) {
        return finish(fail(ssl.error()));
    }
    socket->ssl = std::move(ssl).value();
    socket->handshake(false, [self = weak_from_this()](const IoError& e) {
        const auto state = self.lock();
        if (!state || !state->done) {
            return;
        }
        if (e) {
            state->untrusted = e.untrusted;
            state->fail_with(e.text);
        } else {
            state->finish(wrap(std::move(state->socket)));
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
                                    const Endpoint& endpoint,
                                    std::shared_ptr<const TlsClient> tls,
                                    const std::optional<Proxy>& proxy,
                                    std::function<void(Result<std::unique_ptr<Transport>>)> done) {
    auto state =
        std::make_shared<ConnectState>(loop, endpoint, std::move(tls), proxy, std::move(done));
    // Posted, so that an immediate failure is no callback inside this call.
    loop.post([state] {
        if (state->done) {
            state->start();
        }
    });
    return std::make_unique<ConnectHandle>(std::move(state));
}

}  // namespace capstan::net
