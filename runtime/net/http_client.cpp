#include "runtime/net/http_client.hpp"

#include "runtime/net/client_exchange.hpp"

#include <utility>

namespace capstan::net {

namespace {

std::string host_header(const Endpoint& endpoint) {
    if (endpoint.scheme == Scheme::unix_socket) {
        return "localhost";
    }
    const std::uint16_t usual = endpoint.scheme == Scheme::https ? 443 : 80;
    const std::string joined = join_host_port(endpoint.host, endpoint.port);
    return endpoint.port == usual ? joined.substr(0, joined.rfind(':')) : joined;
}

// Errors: invalid; `route` is then of no use.
Result<void> use_tls(Route& route, const TlsClientOptions& options) {
    if (route.endpoint.scheme == Scheme::https) {
        CAPSTAN_TRY(route.tls, TlsClient::create(options, route.endpoint.host));
    }
    if (route.proxy && route.proxy->kind == ProxyKind::https) {
        CAPSTAN_TRY(route.proxy_tls,
                    TlsClient::create_for_proxy(options.ca_pem, route.proxy->endpoint.host));
    }
    return ok();
}

class ExchangeHandle final : public HttpStream {
public:
    explicit ExchangeHandle(std::shared_ptr<ClientExchange> exchange)
        : exchange_(std::move(exchange)) {}
    ~ExchangeHandle() override { exchange_->cancel(); }
    ExchangeHandle(const ExchangeHandle&) = delete;
    ExchangeHandle& operator=(const ExchangeHandle&) = delete;
    void read() override { exchange_->read(); }
    void write(std::string bytes, bool last, std::function<void(Result<void>)> done) override {
        exchange_->write(std::move(bytes), last, std::move(done));
    }

private:
    // shared with the client and with callbacks that run right now
    std::shared_ptr<ClientExchange> exchange_;
};

class ClientHandle final : public HttpClient {
public:
    explicit ClientHandle(std::shared_ptr<ClientPool> pool) : pool_(std::move(pool)) {}
    ~ClientHandle() override { pool_->close(); }
    ClientHandle(const ClientHandle&) = delete;
    ClientHandle& operator=(const ClientHandle&) = delete;

    std::unique_ptr<HttpExchange> send(HttpRequest request,
                                       std::function<void(Result<HttpResponse>)> done) override {
        auto exchange =
            std::make_shared<ClientExchange>(pool_, std::move(request), std::move(done));
        exchange->start();
        return std::make_unique<ExchangeHandle>(std::move(exchange));
    }
    std::unique_ptr<HttpStream> stream(HttpRequest request,
                                       StreamOptions options,
                                       StreamHandler handler) override {
        auto exchange = std::make_shared<ClientExchange>(
            pool_, std::move(request), options, std::move(handler));
        exchange->start();
        return std::make_unique<ExchangeHandle>(std::move(exchange));
    }
    Result<void> set_tls(const TlsClientOptions& tls) override { return pool_->set_tls(tls); }

private:
    std::shared_ptr<ClientPool> pool_;  // shared with exchanges, which may outlive the client
};

}  // namespace

void ClientConnection::want(std::function<void(const IoError&)> waiter) {
    waiter_ = std::move(waiter);
    if (reading_) {
        return;
    }
    reading_ = true;
    transport->read([this](const IoError& error, std::string_view bytes) {
        reading_ = false;
        in.append(bytes);
        if (!bytes.empty()) {
            answered = true;
        }
        const auto call = std::exchange(waiter_, nullptr);
        // may destroy *this
        if (call) {
            call(error);
        }
    });
}

ClientPool::ClientPool(IoLoop& l, HttpClientOptions o, Route r)
    : loop(l), options(std::move(o)), host(host_header(r.endpoint)), route_(std::move(r)) {}

Result<void> ClientPool::set_tls(const TlsClientOptions& tls) {
    if (route_.tls == nullptr) {
        return fail(Code::unsupported, options.endpoint + ": not an https endpoint");
    }
    Route changed = route_;
    if (const auto made = use_tls(changed, tls); !made) {
        return fail(with_context(made.error(), options.endpoint));
    }
    route_ = std::move(changed);
    ++generation_;
    idle_.clear();
    return ok();
}

void ClientPool::admit(const std::shared_ptr<ClientExchange>& exchange) {
    if (closed_) {
        return;
    }
    while (!exchange->wants_fresh() && !idle_.empty()) {
        auto connection = std::move(idle_.back().connection);
        idle_.pop_back();
        if (!connection->transport->is_quiet()) {
            continue;  // ended, and nobody has said so yet
        }
        ++busy_;
        exchange->begin(std::move(connection), true);
        return;
    }
    if (busy_ + idle_.size() >= options.connections_max && !idle_.empty()) {
        idle_.pop_front();
    }
    if (busy_ + idle_.size() >= options.connections_max) {
        if (waiting_.size() >= kWaitingMax) {
            exchange->refuse(Error{Code::overloaded,
                                   options.endpoint + ": too many requests wait for a connection",
                                   {}});
            return;
        }
        waiting_.push_back(exchange);
        return;
    }
    ++busy_;
    exchange->connect();
}

void ClientPool::release(std::unique_ptr<ClientConnection> connection) {
    CAPSTAN_CHECK(busy_ > 0, options.endpoint);
    --busy_;
    const bool current = connection && connection->generation == generation_;
    if (current && !closed_ && options.idle_connections_max > 0) {
        keep(std::move(connection));
    }
    while (!waiting_.empty() && !closed_ && (!idle_.empty() || busy_ < options.connections_max)) {
        const auto next = waiting_.front().lock();
        waiting_.pop_front();
        if (next && next->is_queued()) {
            admit(next);
        }
    }
}

void ClientPool::keep(std::unique_ptr<ClientConnection> connection) {
    if (idle_.size() >= options.idle_connections_max) {
        idle_.pop_front();
    }
    ClientConnection* raw = connection.get();
    const auto drop = [weak = weak_from_this(), raw] {
        if (const auto pool = weak.lock()) {
            pool->idle_.remove_if([raw](const Idle& i) { return i.connection.get() == raw; });
        }
    };
    connection->answered = false;
    // Watches for the peer's end (or bytes nobody asked for), so that a dead
    // connection is seldom handed out.
    connection->want([drop](const IoError&) { drop(); });
    Idle entry;
    entry.connection = std::move(connection);
    entry.expiry = loop.at(loop.now() + options.idle_timeout, drop);
    idle_.push_back(std::move(entry));
}

void ClientPool::close() {
    closed_ = true;
    idle_.clear();
    waiting_.clear();
    for (const auto& weak : std::exchange(exchanges_, {})) {
        if (const auto exchange = weak.second.lock()) {
            exchange->cancel();
        }
    }
}

Result<void> check_tls(const TlsClientOptions& options) {
    const auto made = TlsClient::create(options, "localhost");
    return made ? ok() : Result<void>(fail(made.error()));
}

Result<std::unique_ptr<HttpClient>> make_http_client(IoLoop& loop, HttpClientOptions options) {
    Route route;
    CAPSTAN_TRY(route.endpoint, parse_endpoint(options.endpoint));
    if (options.connections_max == 0) {
        return fail(Code::invalid, options.endpoint + ": connections_max is 0");
    }
    if (!options.proxy.empty()) {
        CAPSTAN_TRY(route.proxy, parse_proxy(options.proxy));
    }
    if (const auto made = use_tls(route, options.tls); !made) {
        return fail(with_context(made.error(), options.endpoint));
    }
    auto pool = std::make_shared<ClientPool>(loop, std::move(options), std::move(route));
    return std::unique_ptr<HttpClient>(std::make_unique<ClientHandle>(std::move(pool)));
}

}  // namespace capstan::net
