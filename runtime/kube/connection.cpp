#include "runtime/kube/connection.hpp"

#include "runtime/net/command.hpp"
#include "runtime/net/http_client.hpp"

#include <utility>

namespace capstan::kube {

Connection::Connection(ConnectionConfig config) : config_(std::move(config)) {}
Connection::~Connection() = default;

bool Connection::refresh() {
    return rotation_ != nullptr && rotation_->refresh();
}

Result<std::unique_ptr<Connection>> Connection::open(net::IoLoop& loop,
                                                     ConnectionConfig config,
                                                     ConnectionOptions options) {
    // tidy: allow new, private constructor
    std::unique_ptr<Connection> made(new Connection(std::move(config)));
    Connection* self = made.get();
    net::HttpClientOptions http = self->config_.http;
    http.on_untrusted = [self] { return self->refresh(); };
    CAPSTAN_TRY(self->http_, net::make_http_client(loop, http));
    if (http.endpoint.starts_with("https://")) {
        self->rotation_ = std::make_unique<TlsRotation>(
            loop,
            *self->http_,
            http.tls,
            self->config_.files,
            options.rotation,
            [self] { self->client_->renew_watches(); },
            options.read);
    }
    if (self->config_.exec) {
        self->tokens_ = make_exec_tokens(
            loop,
            *self->config_.exec,
            [&loop](net::Command command, net::CommandDone done) {
                return net::run_command(loop, std::move(command), std::move(done));
            },
            [self](std::string certificate_pem, std::string key_pem) -> Result<void> {
                if (self->rotation_ == nullptr) {
                    return fail(Code::invalid, "is of no use over plain http");
                }
                return self->rotation_->set_pair(std::move(certificate_pem), std::move(key_pem));
            },
            options.exec);
    } else {
        self->tokens_ = self->config_.make_tokens(loop);
    }
    ClientOptions client;
    client.host = self->config_.host;
    client.user_agent = options.user_agent;
    client.base_path = self->config_.base_path;
    client.headers = self->config_.headers;
    client.tokens = self->tokens_.get();
    client.refresh = [self] { return self->refresh(); };
    client.random = options.random;
    client.observer = options.observer;
    client.gate = options.gate;
    self->client_ = std::make_unique<Client>(loop, *self->http_, std::move(client));
    return made;
}

}  // namespace capstan::kube
