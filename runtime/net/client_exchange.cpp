// One exchange of the client: its place in the pool, its request, its end. The answer:
// client_exchange_answer.cpp.
#include "runtime/net/client_exchange.hpp"

#include <algorithm>
#include <utility>

namespace capstan::net {

namespace {

// RFC 9110 9.2.1: changes nothing, so it may be sent again when nobody knows whether it arrived.
bool is_safe(std::string_view method) noexcept {
    for (const std::string_view known : {"GET", "HEAD", "OPTIONS"}) {
        if (method == known) {
            return true;
        }
    }
    return false;
}

bool is_ours(std::string_view name) noexcept {
    for (const std::string_view ours :
         {"Host", "Content-Length", "Connection", "Transfer-Encoding"}) {
        if (equal_names(name, ours)) {
            return true;
        }
    }
    return false;
}

}  // namespace

ClientExchange::ClientExchange(std::shared_ptr<ClientPool> pool,
                               HttpRequest request,
                               std::function<void(Result<HttpResponse>)> done)
    : pool_(std::move(pool)),
      request_(std::move(request)),
      options_(),
      unary_(true),
      done_(std::move(done)) {}

ClientExchange::ClientExchange(std::shared_ptr<ClientPool> pool,
                               HttpRequest request,
                               const StreamOptions& options,
                               StreamHandler handler)
    : pool_(std::move(pool)),
      request_(std::move(request)),
      options_(options),
      unary_(false),
      handler_(std::move(handler)) {}

void ClientExchange::start() {
    pool_->add(shared_from_this());
    if (request_.deadline != kNever) {
        deadline_ = pool_->loop.at(request_.deadline, [this, self = weak_from_this()] {
            if (const auto alive = self.lock()) {
                fail_with(Code::timeout, "deadline passed");
            }
        });
    }
    pool_->loop.post([weak = weak_from_this()] {
        const auto self = weak.lock();
        if (self && self->is_queued()) {
            self->pool_->admit(self);
        }
    });
}

void ClientExchange::connect() {
    state_ = State::connecting;
    busy_ = true;
    const auto limit = pool_->options.connect_timeout;
    connect_timer_ =
        pool_->loop.at(pool_->loop.now() + limit, [this, weak = weak_from_this(), limit] {
            const auto self = weak.lock();
            if (!self || !connecting_) {
                return;
            }
            const std::string phase(connecting_->phase());
            fail_with(Code::unavailable,
                      phase + ": no answer within " + std::to_string(limit.count()) + " ms");
        });
    connecting_ = net::connect(pool_->loop,
                               pool_->route(),
                               [this, weak = weak_from_this(), generation = pool_->generation()](
                                   Result<std::unique_ptr<Transport>> transport) {
                                   const auto self = weak.lock();
                                   if (self && state_ == State::connecting) {
                                       connected(std::move(transport), generation);
                                   }
                               });
}

void ClientExchange::connected(Result<std::unique_ptr<Transport>> transport,
                               std::uint64_t generation) {
    connect_timer_.reset();
    const auto connecting = std::move(connecting_);
    if (transport) {
        begin(std::make_unique<ClientConnection>(std::move(transport).value(), generation), false);
        return;
    }
    const auto& ask = pool_->options.on_untrusted;
    if (connecting->untrusted() && !std::exchange(trusted_again_, true) && ask && ask()) {
        connect();
        return;
    }
    fail_with(Code::unavailable,
              std::string(connecting->phase()) + ": " + transport.error().message);
}

std::string ClientExchange::request_head() const {
    std::string head = request_.method + " " + request_.target + " HTTP/1.1\r\n";
    append_header(head, "Host", pool_->host);
    for (const auto& [name, value] : request_.headers) {
        if (!is_ours(name)) {
            append_header(head, name, value);
        }
    }
    if (options_.body_follows && options_.body_bytes < 0) {
        append_header(head, "Transfer-Encoding", "chunked");
    } else if (options_.body_follows) {
        append_header(head, "Content-Length", std::to_string(options_.body_bytes));
    } else if (!request_.body.empty() || request_.method == "POST" || request_.method == "PUT" ||
               request_.method == "PATCH") {
        append_header(head, "Content-Length", std::to_string(request_.body.size()));
    }
    head += "\r\n";
    return head;
}

void ClientExchange::begin(std::unique_ptr<ClientConnection> connection, bool reused) {
    state_ = State::open;
    busy_ = true;
    reused_ = reused;
    connection_ = std::move(connection);
    if (pool_->loop.now() >= request_.deadline) {
        // A process that was stopped for a while: its timers come after its sockets.
        fail_with(Code::timeout, "deadline passed");
        return;
    }
    parser_ =
        std::make_unique<Http1Parser>(Role::response, kHeaderBytesMax, request_.method == "HEAD");
    std::string bytes = request_head();
    if (!options_.body_follows) {
        bytes += request_.body;
    }
    send(std::move(bytes));
    wait_for_bytes();
}

void ClientExchange::send(std::string bytes) {
    sending_ = true;
    connection_->transport->write(std::move(bytes),
                                  [this, weak = weak_from_this()](const IoError& error) {
                                      if (const auto self = weak.lock()) {
                                          on_written(error);
                                      }
                                  });
}

void ClientExchange::on_written(const IoError& error) {
    if (state_ != State::open) {
        return;
    }
    sending_ = false;
    if (error) {
        // The peer may have said why before it closed: the reading side decides.
        send_failed_ = true;
        finish_write(fail(Code::unavailable, context() + ": " + error.text));
        return;
    }
    if (!options_.body_follows) {
        request_sent_ = true;
    }
    if (has_pending_) {
        has_pending_ = false;
        if (!pending_.empty()) {
            return send(std::exchange(pending_, {}));
        }
    }
    if (write_last_) {
        request_sent_ = true;
    }
    if (complete_) {
        give_back();
    }
    finish_write(ok());
}

void ClientExchange::finish_write(Result<void> result) {
    const auto call = std::exchange(write_done_, nullptr);
    if (call) {
        call(std::move(result));
    }
}

void ClientExchange::write(std::string bytes, bool last, std::function<void(Result<void>)> done) {
    CAPSTAN_CHECK(options_.body_follows && !write_done_ && !write_last_, "write() out of turn");
    write_done_ = std::move(done);
    write_last_ = last;
    std::string framed;
    if (options_.body_bytes >= 0) {
        framed = std::move(bytes);
    } else {
        if (!bytes.empty()) {
            framed = chunk(bytes);
        }
        if (last) {
            framed += kLastChunk;
        }
    }
    const bool dead =
        state_ == State::ended || send_failed_ || (state_ == State::open && !connection_);
    if (dead || (framed.empty() && state_ == State::open && !sending_)) {
        if (!dead && last) {
            request_sent_ = true;
        }
        pool_->loop.post([this, weak = weak_from_this(), dead] {
            const auto self = weak.lock();
            if (!self) {
                return;
            }
            if (dead) {
                finish_write(fail(Code::unavailable, context() + ": the exchange is over"));
            } else {
                finish_write(ok());
            }
        });
        return;
    }
    if (state_ == State::open && !sending_) {
        return send(std::move(framed));
    }
    pending_ = std::move(framed);  // sent after the head
    has_pending_ = true;
}

void ClientExchange::give_back() {
    if (!connection_ || !busy_) {
        return;
    }
    const bool reusable = request_sent_ && !sending_ && parser_->head().keep_alive &&
                          parser_->head().status != 101 && connection_->in.empty();
    busy_ = false;
    idle_timer_.reset();
    pool_->release(reusable ? std::move(connection_) : nullptr);
    if (connection_) {
        // A write may be under way: this closes the connection and silences it.
        sending_ = false;
        connection_.reset();
    }
}

bool ClientExchange::may_retry() const noexcept {
    return reused_ && !retried_ && !connection_->answered && !options_.body_follows &&
           is_safe(request_.method);
}

void ClientExchange::retry() {
    retried_ = true;
    state_ = State::queued;
    sending_ = false;
    request_sent_ = false;
    send_failed_ = false;
    connection_.reset();
    busy_ = false;
    pool_->release(nullptr);
    pool_->admit(shared_from_this());
}

void ClientExchange::leave() {
    state_ = State::ended;
    deadline_.reset();
    connect_timer_.reset();
    idle_timer_.reset();
    connecting_.reset();
    if (complete_) {
        give_back();
    }
    if (connection_ && request_.method != "GET" && request_.method != "HEAD") {
        // Given up: the kernel must not go on trying to deliver it.
        connection_->transport->drop_unsent();
    }
    connection_.reset();
    if (std::exchange(busy_, false)) {
        pool_->release(nullptr);
    }
    pool_->remove(this);
}

void ClientExchange::cancel() {
    // Kept until here: their captures may own this exchange's handle.
    const auto self = shared_from_this();
    const auto done = std::exchange(done_, nullptr);
    const auto handler = std::exchange(handler_, {});
    const auto write_done = std::exchange(write_done_, nullptr);
    if (state_ != State::ended) {
        leave();
    }
}

std::string ClientExchange::context() const {
    const std::string_view path =
        std::string_view(request_.target).substr(0, request_.target.find('?'));
    return request_.method + " " + pool_->options.endpoint + std::string(path);
}

void ClientExchange::fail_with(Code code, std::string_view text) {
    refuse(Error{code, context() + ": " + std::string(text), std::chrono::milliseconds{0}});
}

void ClientExchange::refuse(Error error) {
    if (state_ == State::ended) {
        return;
    }
    const auto self = shared_from_this();
    complete_ = false;  // whatever came: the connection is not fit for others
    leave();
    finish_write(fail(error));  // may let go of the exchange: then nothing follows
    const auto done = std::exchange(done_, nullptr);
    const auto end = std::exchange(handler_.on_end, nullptr);
    if (done) {
        done(fail(error));
    }
    if (end) {
        end(fail(error));
    }
}

}  // namespace capstan::net
