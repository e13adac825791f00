#include "runtime/kube/connection.hpp"

#include "runtime/kube/status.hpp"
#include "runtime/net/command.hpp"
#include "runtime/net/http_client.hpp"

#include <utility>

namespace capstan::kube {
namespace {

std::string certificate_place(const ConnectionConfig& config) {
    return config.files.certificate.empty()
               ? "of " + (config.exec ? "plugin " + config.exec->argv.front() : config.user)
               : "in " + config.files.certificate;
}

}  // namespace

Connection::Connection(net::Loop& loop, ConnectionConfig config)
    : loop_(loop), config_(std::move(config)) {}
Connection::~Connection() = default;

void Connection::close() noexcept {
    if (tokens_ != nullptr) {
        tokens_->close();
    }
}

// "the client certificate in /c.pem", `link` and "has ended at 2026-01-01T00:00:00Z"; "" when none
// has.
std::string Connection::ended_certificate(std::string_view link) const {
    const auto ends = rotation_ == nullptr ? std::nullopt : rotation_->certificate_ends();
    if (!ends || *ends > loop_.wall_now()) {
        return {};
    }
    return "the client certificate " + certificate_place(config_) + std::string(link) +
           "has ended at " + to_rfc3339(*ends);
}

// What the server is shown, for a person: "the token in /t".
std::string Connection::credential() const {
    std::string text;
    const auto add = [&text](const std::string& what) {
        text += (text.empty() ? "" : " and ") + what;
    };
    const std::string ended = ended_certificate();
    if (config_.exec) {
        add("what the credential plugin " + config_.exec->argv.front() + " gave" +
            (ended.empty() ? "" : " (" + ended + ")"));
    } else if (rotation_ != nullptr && rotation_->certificate_ends()) {
        add(ended.empty() ? "the client certificate " + certificate_place(config_)
                          : ended_certificate(", which "));
    }
    if (!config_.token_file.empty()) {
        add("the token in " + config_.token_file);
    } else if (!config_.token.empty()) {
        add("the token of " + config_.user);
    }
    if (config_.secret_headers) {
        add("the password of " + config_.user);
    }
    if (text.empty()) {
        return config_.user.empty()
                   ? "requests without credentials; remedy: name a user in the context"
                   : "requests without credentials; remedy: give " + config_.user + " some";
    }
    const std::string trouble = tokens_ == nullptr ? std::string() : tokens_->trouble();
    return trouble.empty() ? text : text + ", and there is no newer one: " + trouble;
}

Error Connection::explain(Error error) const {
    if (is_unauthenticated(error)) {
        return not_accepted(std::move(error), credential());
    }
    // In the words of the API server's authorizers; a quota or a webhook says 403 as well.
    const bool no_right = error.code == Code::forbidden &&
                          error.message.find(" cannot ") != std::string::npos &&
                          error.message.find(" resource ") != std::string::npos;
    if (no_right && !rights_remedy_.empty()) {
        error.message += "; remedy: " + rights_remedy_;
        return error;
    }
    // A server that looks at certificates itself ends the handshake with an alert.
    const bool handshake =
        error.code == Code::unavailable && (error.message.find("alert") != std::string::npos ||
                                            error.message.find("TLS") != std::string::npos);
    if (const std::string ended = handshake ? ended_certificate() : ""; !ended.empty()) {
        error.message += "; " + ended;
    }
    return error;
}

bool Connection::refresh() {
    return rotation_ != nullptr && rotation_->refresh();
}

Result<std::unique_ptr<Connection>> Connection::open(net::IoLoop& loop,
                                                     ConnectionConfig config,
                                                     ConnectionOptions options) {
    // tidy: allow new, private constructor
    std::unique_ptr<Connection> made(new Connection(loop, std::move(config)));
    Connection* self = made.get();
    self->rights_remedy_ = std::move(options.rights_remedy);
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
        self->tokens_ =
            self->config_.make_tokens(loop, [observer = options.rotation](const Error* problem) {
                if (observer != nullptr && problem != nullptr) {
                    observer->failed(*problem);
                } else if (observer != nullptr) {
                    observer->changed("token file");
                }
            });
    }
    ClientOptions client;
    client.host = self->config_.host;
    client.user_agent = options.user_agent;
    client.base_path = self->config_.base_path;
    client.headers = self->config_.headers;
    if (self->config_.compress) {
        client.headers.emplace_back("Accept-Encoding", "gzip");
    }
    client.tokens = self->tokens_.get();
    client.refresh = [self] { return self->refresh(); };
    client.explain = [self](Error error) { return self->explain(std::move(error)); };
    client.random = options.random;
    client.observer = options.observer;
    client.gate = options.gate;
    self->client_ = std::make_unique<Client>(loop, *self->http_, std::move(client));
    return made;
}

}  // namespace capstan::kube
