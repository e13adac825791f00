// Inside the HTTP client: the pool of connections to one endpoint, and one
// exchange on a connection.
//
// Thread: the loop thread.
#pragma once

#include "runtime/net/gunzip.hpp"
#include "runtime/net/http.hpp"
#include "runtime/net/http1.hpp"
#include "runtime/net/transport.hpp"

#include <deque>
#include <list>
#include <memory>
#include <unordered_map>

namespace capstan::net {

inline constexpr std::size_t kWaitingMax = 10'000;       // exchanges that wait for a connection
inline constexpr std::size_t kDataBytesMax = 64 * 1024;  // of one on_data

class ClientExchange;

// A connection with what it has received and nobody has parsed yet.
class ClientConnection {
public:
    ClientConnection(std::unique_ptr<Transport> t, std::uint64_t g)
        : transport(std::move(t)), generation(g) {}
    // Calls `waiter` once more bytes are in `in`, or with the error. Replaces a waiter
    // that was not called yet.
    void want(std::function<void(const IoError&)> waiter);

    const std::unique_ptr<Transport> transport;
    const std::uint64_t generation;  // of the pool's TLS settings
    std::string in;
    bool answered{false};  // bytes arrived since it was handed out

private:
    bool reading_{false};
    std::function<void(const IoError&)> waiter_;
};

class ClientPool : public std::enable_shared_from_this<ClientPool> {
public:
    ClientPool(IoLoop& l, HttpClientOptions o, Route r);

    // Gives the exchange a connection, lets it connect, or queues it.
    void admit(const std::shared_ptr<ClientExchange>& exchange);
    // The exchange is done with its connection; null: the connection is closed.
    void release(std::unique_ptr<ClientConnection> connection);
    void close();
    Result<void> set_tls(const TlsClientOptions& tls);
    const Route& route() const noexcept { return route_; }
    std::uint64_t generation() const noexcept { return generation_; }

    void add(const std::shared_ptr<ClientExchange>& exchange) {
        exchanges_[exchange.get()] = exchange;
    }
    void remove(const ClientExchange* exchange) { exchanges_.erase(exchange); }

    IoLoop& loop;
    const HttpClientOptions options;
    const std::string host;  // header

private:
    struct Idle {
        std::unique_ptr<ClientConnection> connection;
        std::unique_ptr<Timer> expiry;
    };
    void keep(std::unique_ptr<ClientConnection> connection);

    Route route_;
    std::uint64_t generation_{0};  // counts set_tls()
    bool closed_{false};
    std::size_t busy_{0};
    std::list<Idle> idle_;  // oldest first
    std::deque<std::weak_ptr<ClientExchange>> waiting_;
    std::unordered_map<const ClientExchange*, std::weak_ptr<ClientExchange>> exchanges_;
};

// One request and its answer, unary or streaming. Owned by its handle; callbacks
// that run keep it alive.
class ClientExchange : public std::enable_shared_from_this<ClientExchange> {
public:
    ClientExchange(std::shared_ptr<ClientPool> pool,
                   HttpRequest request,
                   std::function<void(Result<HttpResponse>)> done);
    ClientExchange(std::shared_ptr<ClientPool> pool,
                   HttpRequest request,
                   const StreamOptions& options,
                   StreamHandler handler);

    void start();
    void read();
    void write(std::string bytes, bool last, std::function<void(Result<void>)> done);
    void cancel();  // no callback follows

    // For the pool.
    bool is_queued() const noexcept { return state_ == State::queued; }
    bool wants_fresh() const noexcept { return retried_; }
    void connect();
    void connected(Result<std::unique_ptr<Transport>> transport, std::uint64_t generation);
    void begin(std::unique_ptr<ClientConnection> connection, bool reused);
    void refuse(Error error);

private:
    enum class State : std::uint8_t { queued, connecting, open, ended };

    std::string request_head() const;
    std::string context() const;  // "GET https://host:1/path"
    void send(std::string bytes);
    void on_written(const IoError& error);
    void finish_write(Result<void> result);
    void wait_for_bytes();
    void on_bytes(const IoError& error);
    void on_end_of_bytes(const IoError& error);
    void pump();
    bool parse_some();  // false: failed, over
    void take_head();
    bool begin_decoding(Headers& headers);                 // false: failed, over
    bool unpack(std::size_t bytes_max, std::string& out);  // false: failed, over
    void take_unary_body();
    void deliver();  // stream: one on_data or on_end, when asked for
    void succeed_unary();
    void give_back();  // the answer is complete: the connection may serve others
    bool may_retry() const noexcept;
    void retry();
    void leave();  // ends: timers, connection, pool
    void fail_with(Code code, std::string_view text);

    // Constant after construction.
    const std::shared_ptr<ClientPool> pool_;
    const HttpRequest request_;
    const StreamOptions options_;
    const bool unary_;

    State state_{State::queued};
    std::function<void(Result<HttpResponse>)> done_;
    StreamHandler handler_;
    std::unique_ptr<Timer> deadline_;
    std::unique_ptr<Timer> connect_timer_;
    std::unique_ptr<Timer> idle_timer_;
    std::unique_ptr<Connecting> connecting_;
    std::unique_ptr<ClientConnection> connection_;
    std::unique_ptr<Http1Parser> parser_;
    std::unique_ptr<Gunzip> gunzip_;  // the answer is packed, as was asked for
    HttpResponse response_;
    bool busy_{false};  // counted by the pool
    bool reused_{false};
    bool retried_{false};
    bool trusted_again_{false};
    bool head_taken_{false};
    bool complete_{false};  // the whole answer is parsed
    bool read_wanted_{false};
    bool sending_{false};
    bool request_sent_{false};  // all of it is with the kernel
    bool send_failed_{false};
    bool write_last_{false};
    std::string pending_;  // a piece of body given before there was a connection
    bool has_pending_{false};
    std::function<void(Result<void>)> write_done_;
};

}  // namespace capstan::net
