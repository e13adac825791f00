// A proxy for the tests of this folder: CONNECT or SOCKS5, on the client's own loop. Whatever is
// asked for leads to one port of loopback, so that no name need exist here.
#pragma once

#include "runtime/net/acceptor.hpp"
#include "runtime/net/pki.hpp"
#include "runtime/net/transport.hpp"

#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace capstan::net::testing {

struct FakeProxyOptions {
    ProxyKind kind{ProxyKind::http};
    KeyPair pair;             // https: its certificate
    std::uint16_t target{0};  // port on 127.0.0.1
    std::string login;        // "user:password" that a SOCKS5 client must give
    bool slow{false};         // its own words come one byte at a time
};

class FakeProxy {
public:
    FakeProxy(IoLoop& loop, FakeProxyOptions options) : loop_(loop), options_(std::move(options)) {
        if (!options_.pair.certificate_pem.empty()) {
            tls_ = TlsServer::create(
                       options_.pair.certificate_pem, options_.pair.key_pem, "", ClientAuth::none)
                       .value();
        }
        acceptor_ = Acceptor::listen(loop,
                                     "127.0.0.1",
                                     0,
                                     [this](std::unique_ptr<Transport> transport,
                                            const std::string&) { take(std::move(transport)); })
                        .value();
    }

    std::uint16_t port() const noexcept { return acceptor_->port(); }
    std::string where() const { return "127.0.0.1:" + std::to_string(port()); }
    std::size_t accepted() const noexcept { return peers_.size(); }

    std::string asked;  // everything clients said before their tunnels

private:
    struct Peer {
        std::unique_ptr<Transport> client;
        std::unique_ptr<Connecting> connecting;
        std::unique_ptr<Transport> server;
        std::string in;
        bool greeted{false};
        bool known{false};  // SOCKS5: needs no login any more
    };

    void take(std::unique_ptr<Transport> transport) {
        peers_.push_back(std::make_unique<Peer>());
        Peer& peer = *peers_.back();
        peer.client = std::move(transport);
        if (tls_ == nullptr) {
            return listen(peer);
        }
        peer.client->accept_tls(tls_->connection().value(), [this, &peer](const IoError& error) {
            if (error) {
                peer.client.reset();
            } else {
                listen(peer);
            }
        });
    }
    void listen(Peer& peer) {
        peer.client->read([this, &peer](const IoError& error, std::string_view bytes) {
            peer.in.append(bytes);
            asked.append(bytes);
            if (error) {
                peer.client.reset();
            } else if (options_.kind == ProxyKind::socks5) {
                socks(peer);
            } else if (peer.in.ends_with("\r\n\r\n")) {
                open(peer, "HTTP/1.1 200 Connection established\r\nVia: a proxy\r\n\r\n");
            } else {
                listen(peer);
            }
        });
    }
    // Our client's messages come whole: it writes each at once.
    void socks(Peer& peer) {
        using namespace std::string_literals;
        const std::string in = std::exchange(peer.in, {});
        if (!std::exchange(peer.greeted, true)) {
            peer.known = options_.login.empty();
            return say(peer, peer.known ? "\5\0"s : "\5\2"s, [this, &peer] { listen(peer); });
        }
        if (peer.known) {
            return open(peer, "\5\0\0\1\0\0\0\0\0\0"s);
        }
        const std::size_t size = static_cast<unsigned char>(in.at(1));
        peer.known = in.substr(2, size) + ":" + in.substr(3 + size) == options_.login;
        say(peer, peer.known ? "\1\0"s : "\1\1"s, [this, &peer] { listen(peer); });
    }
    void open(Peer& peer, const std::string& answer) {
        Route route;
        route.endpoint =
            parse_endpoint("http://127.0.0.1:" + std::to_string(options_.target)).value();
        peer.connecting =
            connect(loop_, route, [this, &peer, answer](Result<std::unique_ptr<Transport>> server) {
                peer.server = std::move(server).value();
                say(peer, answer, [this, &peer] {
                    relay(peer, peer.client, peer.server);
                    relay(peer, peer.server, peer.client);
                });
            });
    }
    void say(Peer& peer, std::string bytes, std::function<void()> then) {
        const std::size_t size = options_.slow ? 1 : bytes.size();
        const std::string rest = bytes.substr(size);
        bytes.resize(size);
        peer.client->write(std::move(bytes), [this, &peer, rest, then](const IoError& error) {
            if (error) {
                peer.client.reset();
            } else if (rest.empty()) {
                then();
            } else {
                say(peer, rest, then);
            }
        });
    }
    void relay(Peer& peer, std::unique_ptr<Transport>& from, std::unique_ptr<Transport>& to) {
        const auto give_up = [&peer] {
            peer.client.reset();
            peer.server.reset();
        };
        from->read(
            [this, give_up, &peer, &from, &to](const IoError& error, std::string_view bytes) {
                if (error) {
                    return give_up();
                }
                to->write(std::string(bytes),
                          [this, give_up, &peer, &from, &to](const IoError& failed) {
                              if (failed) {
                                  give_up();
                              } else {
                                  relay(peer, from, to);
                              }
                          });
            });
    }

    IoLoop& loop_;
    const FakeProxyOptions options_;
    std::shared_ptr<TlsServer> tls_;  // shared with connections
    std::vector<std::unique_ptr<Peer>> peers_;
    std::unique_ptr<Acceptor> acceptor_;
};

}  // namespace capstan::net::testing
