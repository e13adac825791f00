#include "runtime/net/server_connection.hpp"

#include <utility>

namespace capstan::net {

namespace {

Error gone(std::string text) {
    return Error{Code::unavailable, std::move(text), std::chrono::milliseconds{0}};
}

}  // namespace

ServerConnection::ServerConnection(ServerCore& core,
                                   std::unique_ptr<Transport> transport,
                                   std::string remote)
    : core_(core), transport_(std::move(transport)), remote_(std::move(remote)) {}

void ServerConnection::arm(std::chrono::milliseconds limit, std::string_view what) {
    read_timer_ = core_.loop.at(
        core_.loop.now() + limit, [this, weak = weak_from_this(), text = std::string(what)] {
            const auto self = weak.lock();
            if (!self || state_ == State::closed) {
                return;
            }
            close(Error{Code::timeout, text, std::chrono::milliseconds{0}}, false);
        });
}

void ServerConnection::start() {
    if (!core_.tls) {
        return next_request();
    }
    auto ssl = core_.tls->connection();
    if (!ssl) {
        return close(ssl.error(), true);
    }
    arm(core_.options.head_timeout, "TLS handshake took too long");
    transport_->accept_tls(std::move(ssl).value(),
                           [this, weak = weak_from_this()](const IoError& error) {
                               const auto self = weak.lock();
                               if (!self) {
                                   return;
                               }
                               if (error) {
                                   return close(gone(error.text), true);
                               }
                               subject_ = transport_->subject();
                               next_request();
                           });
}

void ServerConnection::next_request() {
    state_ = State::head;
    parser_ = std::make_unique<Http1Parser>(Role::request, kHeaderBytesMax);
    body_wanted_ = false;
    finishing_ = false;
    const bool waiting = !first_ && in_.empty();
    arm(waiting ? core_.options.idle_timeout : core_.options.head_timeout,
        "the request head took too long");
    first_ = false;
    if (in_.empty()) {
        if (peer_ended_) {
            return close(gone("closed by the peer"), true);
        }
        read_more();
        if (waiting) {
            idle_since_ = core_.loop.now();
            core_.on_idle();
        }
        return;
    }
    parse_head();  // a pipelined request
}

void ServerConnection::read_more() {
    if (reading_ || peer_ended_) {
        return;
    }
    reading_ = true;
    transport_->read([this, weak = weak_from_this()](const IoError& error, std::string_view bytes) {
        if (const auto self = weak.lock()) {
            on_read(error, bytes);
        }
    });
}

void ServerConnection::on_read(const IoError& error, std::string_view bytes) {
    reading_ = false;
    idle_since_ = kNever;
    const bool was_empty = in_.empty();
    in_.append(bytes);
    if (error.kind == IoError::Kind::failed) {
        return close(gone(error.text), false);
    }
    if (error.kind == IoError::Kind::end) {
        peer_ended_ = true;
    }
    if (state_ == State::head) {
        if (peer_ended_) {
            return close(gone(error.text), true);
        }
        if (was_empty) {
            arm(core_.options.head_timeout, "the request head took too long");
        }
        return parse_head();
    }
    if (state_ != State::exchange) {
        return;
    }
    const auto exchange = exchange_.lock();
    if (peer_ended_ && !parser_->done()) {
        return close(gone("the peer ended in the middle of the request body"), false);
    }
    if (body_wanted_) {
        return pump_body();
    }
    if (peer_ended_) {
        keep_alive_ = false;
        if (exchange) {
            exchange->on_peer_ended();
        }
        return;
    }
    if (parser_->done() && in_.size() < kPipelinedBytesMax) {
        read_more();
    }
}

void ServerConnection::parse_head() {
    const Http1Parser::Step step = parser_->parse(in_);
    in_.erase(0, step.consumed);
    if (step.problem == Http1Parser::Problem::head_too_large) {
        return refuse(
            431, "the request head is larger than " + std::to_string(kHeaderBytesMax) + " bytes");
    }
    // A malformed body behind a good head would be the next problem: it ends
    // the connection as well.
    if (step.problem != Http1Parser::Problem::none) {
        return refuse(400, "malformed request: " + step.text);
    }
    if (!parser_->head_done()) {
        return read_more();
    }
    begin_exchange();
}

void ServerConnection::begin_exchange() {
    Head& head = parser_->head();
    if (!head.target.starts_with('/') && head.target != "*") {
        return refuse(400, "the request target must be a path");
    }
    if (head.minor >= 1 && find_header(head.headers, "Host").empty()) {
        return refuse(400, "the Host header is missing");
    }
    read_timer_.reset();
    state_ = State::exchange;
    keep_alive_ = head.keep_alive;
    const auto self = shared_from_this();
    auto exchange = std::make_shared<ServerExchangeImpl>(self, std::move(head), remote_, subject_);
    exchange_ = exchange;
    // While the handler works, only the peer's leaving (or the next request) can arrive.
    if (parser_->done() && in_.size() < kPipelinedBytesMax) {
        read_more();
    }
    core_.handler(std::move(exchange));
}

void ServerConnection::want_body() {
    body_wanted_ = true;
    pump_body();
}

void ServerConnection::pump_body() {
    const auto exchange = exchange_.lock();
    if (!exchange || state_ != State::exchange) {
        return;
    }
    if (!parser_->done() && !in_.empty()) {
        const Http1Parser::Step step = parser_->parse(in_);
        in_.erase(0, step.consumed);
        if (step.problem != Http1Parser::Problem::none) {
            return close(Error{Code::invalid,
                               "malformed request body: " + step.text,
                               std::chrono::milliseconds{0}},
                         false);
        }
    }
    if (parser_->body().empty() && !parser_->done()) {
        arm(core_.options.idle_timeout, "the request body took too long");
        return read_more();
    }
    read_timer_.reset();
    body_wanted_ = false;
    const auto self = shared_from_this();
    exchange->on_body();
    if (state_ == State::exchange && parser_->done() && in_.size() < kPipelinedBytesMax) {
        read_more();
    }
}

void ServerConnection::refuse(int status, std::string_view text) {
    keep_alive_ = false;
    state_ = State::exchange;
    std::string out =
        "HTTP/1.1 " + std::to_string(status) + " " + std::string(reason_phrase(status)) + "\r\n";
    append_header(out, "Content-Type", "text/plain");
    append_header(out, "Content-Length", std::to_string(text.size() + 1));
    append_header(out, "Connection", "close");
    out.append("\r\n").append(text).append("\n");
    send(std::move(out), nullptr);
    finish();
}

void ServerConnection::send(std::string bytes, std::function<void(Result<void>)> done) {
    if (state_ == State::closed) {
        return;
    }
    out_bytes_ += bytes.size();
    out_.push_back({std::move(bytes), std::move(done)});
    if (out_bytes_ > kUnsentBytesMax && out_.size() > 1) {
        // Posted: the exchange is told, and must not be inside its own call.
        core_.loop.post([weak = weak_from_this()] {
            if (const auto self = weak.lock()) {
                self->close(gone("the peer reads too slowly"), false);
            }
        });
        return;
    }
    pump_out();
}

void ServerConnection::pump_out() {
    if (writing_ || out_.empty() || state_ == State::closed) {
        return;
    }
    writing_ = true;
    Piece piece = std::move(out_.front());
    out_.pop_front();
    out_bytes_ -= piece.bytes.size();
    sent_ = std::move(piece.done);
    auto sent = [this, weak = weak_from_this()](const IoError& error) {
        if (const auto self = weak.lock()) {
            on_sent(error);
        }
    };
    if (piece.bytes.empty()) {
        core_.loop.post([sent = std::move(sent)] { sent(IoError{}); });
        return;
    }
    write_timer_ = core_.loop.at(core_.loop.now() + core_.options.idle_timeout,
                                 [this, weak = weak_from_this()] {
                                     const auto self = weak.lock();
                                     if (self) {
                                         close(Error{Code::timeout,
                                                     "the peer did not read for too long",
                                                     std::chrono::milliseconds{0}},
                                               false);
                                     }
                                 });
    transport_->write(std::move(piece.bytes), std::move(sent));
}

void ServerConnection::on_sent(const IoError& error) {
    if (state_ == State::closed) {
        return;
    }
    const auto done = std::exchange(sent_, nullptr);
    writing_ = false;
    write_timer_.reset();
    if (error) {
        if (done) {
            done(fail(gone(error.text)));
        }
        return close(gone(error.text), false);
    }
    if (done) {
        done(ok());
    }
    if (state_ == State::closed) {
        return;
    }
    pump_out();
    if (finishing_ && out_.empty() && !writing_) {
        end_exchange();
    }
}

void ServerConnection::finish() {
    finishing_ = true;
    body_wanted_ = false;
    read_timer_.reset();
    exchange_.reset();
    if (out_.empty() && !writing_) {
        core_.loop.post([this, weak = weak_from_this()] {
            const auto self = weak.lock();
            if (self && state_ == State::exchange && finishing_ && out_.empty() && !writing_) {
                end_exchange();
            }
        });
    }
}

void ServerConnection::end_exchange() {
    if (keep_alive_ && parser_->done() && !core_.stopping && !peer_ended_) {
        return next_request();
    }
    end_gently();
}

void ServerConnection::end_gently() {
    const auto self = shared_from_this();
    state_ = State::closing;
    transport_->close_gently();
    state_ = State::closed;
    core_.forget(this);
}

void ServerConnection::abandon() {
    close(gone("the answer was given up"), true);
}

void ServerConnection::close(const Error& why, bool silent) {
    if (state_ == State::closed) {
        return;
    }
    const auto self = shared_from_this();
    state_ = State::closed;
    idle_since_ = kNever;
    read_timer_.reset();
    write_timer_.reset();
    transport_.reset();
    auto unsent = std::exchange(out_, {});
    unsent.push_front({"", std::exchange(sent_, nullptr)});
    const auto exchange = exchange_.lock();
    exchange_.reset();
    core_.forget(this);
    for (const Piece& piece : unsent) {
        if (piece.done && !silent) {
            piece.done(fail(why));
        }
    }
    if (exchange) {
        exchange->on_gone(why, silent);
    }
}

}  // namespace capstan::net
