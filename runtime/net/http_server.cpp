#include "runtime/net/http_server.hpp"

#include "runtime/net/server_connection.hpp"

#include <cstring>
#include <utility>

namespace capstan::net {

namespace {

class HttpServerImpl final : public HttpServer {
public:
    HttpServerImpl(std::shared_ptr<ServerCore> core, std::uint16_t port)
        : core_(std::move(core)), port_(port) {}
    ~HttpServerImpl() override {
        core_->acceptor.reset();
        const Error why{Code::cancelled, "the server is closed", std::chrono::milliseconds{0}};
        while (!core_->connections.empty()) {
            const auto connection = core_->connections.begin()->second;
            connection->close(why, true);
        }
    }
    HttpServerImpl(const HttpServerImpl&) = delete;
    HttpServerImpl& operator=(const HttpServerImpl&) = delete;

    std::uint16_t port() const noexcept override { return port_; }

    Result<void> set_certificate(std::string certificate_pem, std::string key_pem) override {
        return set_tls({std::move(certificate_pem), std::move(key_pem), core_->client_ca_pem});
    }

    Result<void> set_tls(const ServerTls& tls) {
        const HttpServerOptions& options = core_->options;
        if (options.certificate_pem.empty()) {
            return fail(Code::invalid, "this server speaks plain HTTP");
        }
        CAPSTAN_TRY(auto made,
                    TlsServer::create(
                        tls.certificate_pem, tls.key_pem, tls.client_ca_pem, options.client_auth));
        core_->tls = std::move(made);
        core_->client_ca_pem = tls.client_ca_pem;
        return ok();
    }

    void on_no_room(std::function<void(const std::string&)> tell) {
        core_->no_room = tell;
        if (core_->acceptor) {
            core_->acceptor->on_trouble([tell = std::move(tell)](int number) {
                tell(std::string("accept: ") + std::strerror(number));
            });
        }
    }

    void stop_accepting() override {
        core_->stopping = true;
        core_->acceptor.reset();
        const auto connections = core_->connections;
        const Error why{Code::cancelled, "the server stops", std::chrono::milliseconds{0}};
        for (const auto& [raw, connection] : connections) {
            if (connection->is_idle()) {
                connection->close(why, true);
            }
        }
    }

private:
    // shared with the connections' exchanges, which handlers may keep
    std::shared_ptr<ServerCore> core_;
    const std::uint16_t port_;
};

}  // namespace

Result<void> set_server_tls(HttpServer& server, const ServerTls& tls) {
    return static_cast<HttpServerImpl&>(server).set_tls(tls);
}

void on_no_room(HttpServer& server, std::function<void(const std::string&)> tell) {
    static_cast<HttpServerImpl&>(server).on_no_room(std::move(tell));
}

ServerConnection* ServerCore::longest_idle() const noexcept {
    ServerConnection* found = nullptr;
    MonotonicTime since = kNever;
    for (const auto& [raw, connection] : connections) {
        // One with bytes that wait to be read is about to be asked something.
        if (raw->idle_since() < since && raw->is_quiet()) {
            found = raw;
            since = raw->idle_since();
        }
    }
    return found;
}

void ServerCore::on_idle() {
    if (acceptor) {
        (void)acceptor->resume();  // it can make room
    }
}

void ServerCore::accept(std::unique_ptr<Transport> transport, std::string remote) {
    if (connections.size() >= options.connections_max) {
        if (ServerConnection* idle = longest_idle()) {
            idle->close(Error{Code::cancelled, "others need its place", {}}, true);
        }
    }
    auto connection =
        std::make_shared<ServerConnection>(*this, std::move(transport), std::move(remote));
    connections.emplace(connection.get(), connection);
    if (connections.size() >= options.connections_max && longest_idle() == nullptr) {
        acceptor->pause();
        if (no_room) {
            no_room("it has " + std::to_string(connections.size()) + " connections, its limit");
        }
    }
    connection->start();
}

void ServerCore::forget(ServerConnection* connection) {
    connections.erase(connection);
    if (acceptor && connections.size() < options.connections_max) {
        (void)acceptor->resume();
    }
}

Result<std::unique_ptr<HttpServer>> make_http_server(IoLoop& loop,
                                                     HttpServerOptions options,
                                                     ServerHandler handler) {
    std::shared_ptr<TlsServer> tls;
    if (options.connections_max == 0) {
        return fail(Code::invalid, "connections_max is 0");
    }
    const std::string where = join_host_port(options.address, options.port);
    if (!options.certificate_pem.empty()) {
        auto made = TlsServer::create(
            options.certificate_pem, options.key_pem, options.client_ca_pem, options.client_auth);
        if (!made) {
            return fail(with_context(made.error(), "listen on " + where));
        }
        tls = std::move(made).value();
    } else if (options.client_auth != ClientAuth::none) {
        return fail(Code::invalid, "listen on " + where + ": client certificates need TLS");
    }
    auto core = std::make_shared<ServerCore>(loop, std::move(options), std::move(handler));
    core->tls = std::move(tls);
    const auto accepted = [raw = core.get()](std::unique_ptr<Transport> transport,
                                             std::string remote) {
        raw->accept(std::move(transport), std::move(remote));
    };
    CAPSTAN_TRY(core->acceptor,
                Acceptor::listen(loop, core->options.address, core->options.port, accepted));
    const std::uint16_t port = core->acceptor->port();
    return std::unique_ptr<HttpServer>(std::make_unique<HttpServerImpl>(std::move(core), port));
}

}  // namespace capstan::net
