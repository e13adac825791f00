// An API server with credentials that rotate: everything a Client needs, put together.
//
// Token file, CA, client certificate and credential plugin are renewed while it runs; requests
// under way are not disturbed, idle connections of the old identity close, and open watches move
// to new connections from where they are. Thread: [io].
#pragma once

#include "runtime/kube/client.hpp"
#include "runtime/kube/kubeconfig.hpp"
#include "runtime/net/io_loop.hpp"

#include <functional>
#include <memory>
#include <string>

namespace capstan::kube {

struct ConnectionOptions {
    std::string user_agent{"capstan"};
    // Borrowed; outlive the connection; may be nullptr.
    ClientObserver* observer{nullptr};
    RotationObserver* rotation{nullptr};
    ExecObserver* exec{nullptr};
    WriteGate* gate{nullptr};  // of the client
    // What explain() adds where the API server says which right is missing; empty: nothing.
    std::string rights_remedy;
    std::function<double()> random;  // [0, 1), for jitter
    ReadFile read{read_small_file};
};

class Connection {
public:
    // Nothing is connected yet. Errors: invalid.
    static Result<std::unique_ptr<Connection>> open(net::IoLoop& loop,
                                                    ConnectionConfig config,
                                                    ConnectionOptions options);
    ~Connection();
    Connection(const Connection&) = delete;
    Connection& operator=(const Connection&) = delete;

    Client& client() noexcept { return *client_; }
    // For requests outside of Client: the bare connection, and what it must add.
    net::HttpClient& http() noexcept { return *http_; }
    TokenSource* tokens() noexcept { return tokens_.get(); }  // nullptr: none
    // Names the credentials in an error of the server that refused them, and what is wrong with
    // them: a certificate that has ended, a token file that cannot be read. Where only a right is
    // missing, adds ConnectionOptions::rights_remedy.
    Error explain(Error error) const;
    // Ends a credential plugin that runs. For the end of the process: no request is made after it.
    void close() noexcept;
    const ConnectionConfig& config() const noexcept { return config_; }

private:
    Connection(net::Loop& loop, ConnectionConfig config);
    bool refresh();
    std::string credential() const;
    std::string ended_certificate(std::string_view link = " ") const;

    net::Loop& loop_;
    ConnectionConfig config_;
    std::string rights_remedy_;
    std::unique_ptr<net::HttpClient> http_;
    std::unique_ptr<TlsRotation> rotation_;
    std::unique_ptr<TokenSource> tokens_;
    std::unique_ptr<Client> client_;
};

}  // namespace capstan::kube
