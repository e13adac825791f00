// Inside the HTTP server: one connection and the exchange that runs on it.
//
// Thread: the loop thread.
#pragma once

#include "runtime/net/acceptor.hpp"
#include "runtime/net/http.hpp"
#include "runtime/net/http1.hpp"
#include "runtime/net/tls.hpp"
#include "runtime/net/transport.hpp"

#include <deque>
#include <memory>
#include <unordered_map>

namespace capstan::net {

// kept of requests that wait for their turn
inline constexpr std::size_t kPipelinedBytesMax = 64 * 1024;
// of one connection; above it the peer is too slow
inline constexpr std::size_t kUnsentBytesMax = 64u * 1024 * 1024;

class ServerConnection;
class ServerExchangeImpl;

// What all connections of a server share.
struct ServerCore {
    ServerCore(IoLoop& l, HttpServerOptions o, ServerHandler h)
        : loop(l),
          options(std::move(o)),
          handler(std::move(h)),
          client_ca_pem(options.client_ca_pem) {}

    // With connections_max there, in the place of the one that is kept for its peer's next request
    // the longest; while all work, new ones wait in the kernel's queue.
    void accept(std::unique_ptr<Transport> transport, std::string remote);
    void forget(ServerConnection* connection);
    void on_idle();                                   // one of them is kept from now on
    ServerConnection* longest_idle() const noexcept;  // nullptr: none is idle

    IoLoop& loop;
    const HttpServerOptions options;
    const ServerHandler handler;
    std::string client_ca_pem;  // in use now; that of the options is the first one
    std::shared_ptr<TlsServer> tls;
    std::unique_ptr<Acceptor> acceptor;  // null: not accepting any more
    bool stopping{false};
    std::function<void(const std::string&)> no_room;  // may be empty
    std::unordered_map<ServerConnection*, std::shared_ptr<ServerConnection>> connections;
};

class ServerConnection : public std::enable_shared_from_this<ServerConnection> {
public:
    ServerConnection(ServerCore& core, std::unique_ptr<Transport> transport, std::string remote);

    void start();
    // Closes at once and leaves the server. The exchange, if any, is told unless `silent`.
    void close(const Error& why, bool silent);
    bool is_idle() const noexcept { return state_ == State::head && in_.empty(); }
    // Answered, and no byte of a next request has come; kNever: not so.
    MonotonicTime idle_since() const noexcept { return idle_since_; }
    bool is_quiet() const noexcept { return transport_ && transport_->is_quiet(); }

    // For the exchange.
    void send(std::string bytes, std::function<void(Result<void>)> done);
    void finish();     // the answer is complete once everything is sent
    void want_body();  // exchange->on_body() follows
    void abandon();    // the handler let go in the middle of its answer
    bool body_done() const noexcept { return parser_->done(); }
    std::string& body() noexcept { return parser_->body(); }
    bool is_stopping() const noexcept { return core_.stopping; }
    ServerCore& core() noexcept { return core_; }

private:
    enum class State : std::uint8_t { handshake, head, exchange, closing, closed };
    struct Piece {
        std::string bytes;
        std::function<void(Result<void>)> done;
    };

    void next_request();
    void read_more();
    void on_read(const IoError& error, std::string_view bytes);
    void parse_head();
    void begin_exchange();
    void pump_body();
    void refuse(int status, std::string_view text);
    void pump_out();
    void on_sent(const IoError& error);
    void end_exchange();
    void end_gently();
    void arm(std::chrono::milliseconds limit, std::string_view what);

    ServerCore& core_;
    std::unique_ptr<Transport> transport_;
    const std::string remote_;
    PeerSubject subject_;
    State state_{State::handshake};
    std::string in_;
    std::unique_ptr<Http1Parser> parser_;
    std::weak_ptr<ServerExchangeImpl> exchange_;
    std::deque<Piece> out_;
    std::size_t out_bytes_{0};
    std::function<void(Result<void>)> sent_;  // of the piece that is being written
    std::unique_ptr<Timer> read_timer_;
    std::unique_ptr<Timer> write_timer_;
    MonotonicTime idle_since_{kNever};
    bool reading_{false};
    bool writing_{false};
    bool body_wanted_{false};
    bool finishing_{false};
    bool peer_ended_{false};
    bool keep_alive_{true};
    bool first_{true};
};

class ServerExchangeImpl final : public ServerExchange,
                                 public std::enable_shared_from_this<ServerExchangeImpl> {
public:
    ServerExchangeImpl(std::shared_ptr<ServerConnection> connection,
                       Head head,
                       std::string remote,
                       PeerSubject subject);
    ~ServerExchangeImpl() override;
    ServerExchangeImpl(const ServerExchangeImpl&) = delete;
    ServerExchangeImpl& operator=(const ServerExchangeImpl&) = delete;

    const std::string& method() const noexcept override { return head_.method; }
    const std::string& target() const noexcept override { return head_.target; }
    const Headers& headers() const noexcept override { return head_.headers; }
    const std::string& remote() const noexcept override { return remote_; }
    const std::string& certificate_common_name() const noexcept override {
        return subject_.common_name;
    }
    const std::vector<std::string>& certificate_organizations() const noexcept override {
        return subject_.organizations;
    }
    bool over_tls() const noexcept override { return subject_.tls; }
    bool certified() const noexcept override { return subject_.certified; }

    void read(std::size_t bytes_max, std::function<void(Result<std::string>)> done) override;
    void read_all(std::size_t bytes_max, std::function<void(Result<std::string>)> done) override;
    void respond(int status, Headers headers, std::string body) override;
    void start(int status, Headers headers) override;
    void write(std::string bytes, std::function<void(Result<void>)> done) override;
    void end() override;
    void on_closed(std::function<void()> closed) override { closed_ = std::move(closed); }

    // From the connection.
    void on_body();
    void on_body_failed(const Error& why);
    void on_gone(const Error& why, bool silent);  // the connection is no more
    void on_peer_ended();                         // the peer sends nothing more; it may still read

private:
    std::string response_head(int status, const Headers& headers, std::int64_t length);
    void finish_read(Result<std::string> result);
    void complete();

    const Head head_;
    const std::string remote_;
    const PeerSubject subject_;
    IoLoop& loop_;
    // null: over. Shared: the server may forget it first
    std::shared_ptr<ServerConnection> connection_;
    std::function<void(Result<std::string>)> read_done_;
    std::size_t read_max_{0};
    bool read_all_{false};
    std::string collected_;
    std::function<void()> closed_;
    bool continued_{false};
    bool started_{false};
    bool chunked_{false};
    bool until_close_{false};
};

}  // namespace capstan::net
