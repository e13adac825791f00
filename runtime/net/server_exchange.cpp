#include "runtime/net/server_connection.hpp"

#include <algorithm>
#include <utility>

namespace capstan::net {

namespace {

Error over() {
    return Error{Code::unavailable, "the peer is gone", std::chrono::milliseconds{0}};
}

bool is_ours(std::string_view name) noexcept {
    for (const std::string_view ours : {"Content-Length", "Connection", "Transfer-Encoding"}) {
        if (equal_names(name, ours)) {
            return true;
        }
    }
    return false;
}

bool has_no_body(int status) noexcept {
    return status == 204 || status == 304 || status < 200;
}

}  // namespace

ServerExchangeImpl::ServerExchangeImpl(std::shared_ptr<ServerConnection> connection,
                                       Head head,
                                       std::string remote,
                                       PeerSubject subject)
    : head_(std::move(head)),
      remote_(std::move(remote)),
      subject_(std::move(subject)),
      loop_(connection->core().loop),
      connection_(std::move(connection)) {}

ServerExchangeImpl::~ServerExchangeImpl() {
    if (!connection_) {
        return;
    }
    if (!started_) {
        respond(500, {{"Content-Type", "text/plain"}}, "the request was not answered\n");
    } else {
        connection_->abandon();
    }
}

// `length` -1: the body's size is not known yet.
std::string ServerExchangeImpl::response_head(int status,
                                              const Headers& headers,
                                              std::int64_t length) {
    std::string out =
        "HTTP/1.1 " + std::to_string(status) + " " + std::string(reason_phrase(status)) + "\r\n";
    const std::string_view given = find_header(headers, "Content-Length");
    if (length < 0 && !given.empty() && !has_no_body(status)) {
        append_header(out, "Content-Length", given);
    } else if (length >= 0 && !has_no_body(status)) {
        append_header(out, "Content-Length", std::to_string(length));
    } else if (!has_no_body(status)) {
        chunked_ = head_.minor >= 1 && head_.method != "HEAD";
        until_close_ = head_.minor == 0;
        if (head_.minor >= 1) {
            append_header(out, "Transfer-Encoding", "chunked");
        }
    }
    for (const auto& [name, value] : headers) {
        if (!is_ours(name)) {
            append_header(out, name, value);
        }
    }
    const bool last = until_close_ || !head_.keep_alive || connection_->is_stopping() ||
                      !connection_->body_done();
    if (last) {
        append_header(out, "Connection", "close");
    } else if (head_.minor == 0) {
        append_header(out, "Connection", "keep-alive");
    }
    out += "\r\n";
    return out;
}

void ServerExchangeImpl::respond(int status, Headers headers, std::string body) {
    if (!connection_) {
        return;
    }
    CAPSTAN_CHECK(!started_, "respond() after the answer was started");
    started_ = true;
    std::string bytes = response_head(status, headers, static_cast<std::int64_t>(body.size()));
    if (head_.method != "HEAD" && !has_no_body(status)) {
        bytes += body;
    }
    connection_->send(std::move(bytes), nullptr);
    complete();
}

void ServerExchangeImpl::start(int status, Headers headers) {
    if (!connection_) {
        return;
    }
    CAPSTAN_CHECK(!started_, "start() after the answer was started");
    started_ = true;
    connection_->send(response_head(status, headers, -1), nullptr);
}

void ServerExchangeImpl::write(std::string bytes, std::function<void(Result<void>)> done) {
    if (!connection_) {
        if (done) {
            loop_.post([done = std::move(done)] { done(fail(over())); });
        }
        return;
    }
    CAPSTAN_CHECK(started_, "write() before start()");
    std::string framed;
    if (head_.method != "HEAD" && !bytes.empty()) {
        framed = chunked_ ? chunk(bytes) : std::move(bytes);
    }
    connection_->send(std::move(framed), std::move(done));
}

void ServerExchangeImpl::end() {
    if (!connection_) {
        return;
    }
    CAPSTAN_CHECK(started_, "end() before start()");
    if (chunked_) {
        connection_->send(std::string(kLastChunk), nullptr);
    }
    complete();
}

void ServerExchangeImpl::complete() {
    const auto connection = std::exchange(connection_, nullptr);
    // Destroyed at the end of this call: their captures may own *this.
    const auto closed = std::exchange(closed_, nullptr);
    const auto read_done = std::exchange(read_done_, nullptr);
    connection->finish();
}

void ServerExchangeImpl::read(std::size_t bytes_max,
                              std::function<void(Result<std::string>)> done) {
    CAPSTAN_CHECK(!read_done_ && bytes_max > 0, "one read at a time");
    read_done_ = std::move(done);
    read_max_ = bytes_max;
    read_all_ = false;
    if (!connection_) {
        loop_.post([weak = weak_from_this()] {
            if (const auto self = weak.lock()) {
                self->finish_read(fail(over()));
            }
        });
        return;
    }
    if (head_.expects_continue && !std::exchange(continued_, true) && !connection_->body_done()) {
        connection_->send("HTTP/1.1 100 Continue\r\n\r\n", nullptr);
    }
    loop_.post([weak = weak_from_this()] {
        const auto self = weak.lock();
        if (self && self->connection_) {
            self->connection_->want_body();
        }
    });
}

void ServerExchangeImpl::read_all(std::size_t bytes_max,
                                  std::function<void(Result<std::string>)> done) {
    read(std::max<std::size_t>(bytes_max, 1), std::move(done));
    read_max_ = bytes_max;
    read_all_ = true;
    collected_.clear();
}

void ServerExchangeImpl::on_body() {
    if (!read_done_ || !connection_) {
        return;
    }
    std::string& body = connection_->body();
    if (!read_all_) {
        if (body.empty() && !connection_->body_done()) {
            return connection_->want_body();
        }
        std::string piece = body.substr(0, read_max_);
        body.erase(0, piece.size());
        return finish_read(std::move(piece));
    }
    const bool declared =
        head_.content_length > 0 && static_cast<std::uint64_t>(head_.content_length) > read_max_;
    if (declared || collected_.size() + body.size() > read_max_) {
        const auto self = shared_from_this();
        const auto done = std::exchange(read_done_, nullptr);
        const std::string text =
            "the request body is larger than " + std::to_string(read_max_) + " bytes";
        if (!started_) {
            respond(413, {{"Content-Type", "text/plain"}}, text + "\n");
        }
        done(fail(Code::too_large, text));
        return;
    }
    collected_ += body;
    body.clear();
    if (connection_->body_done()) {
        return finish_read(std::move(collected_));
    }
    connection_->want_body();
}

void ServerExchangeImpl::finish_read(Result<std::string> result) {
    const auto self = shared_from_this();
    const auto done = std::exchange(read_done_, nullptr);
    if (done) {
        done(std::move(result));
    }
}

void ServerExchangeImpl::on_body_failed(const Error& why) {
    finish_read(fail(why));
}

void ServerExchangeImpl::on_peer_ended() {
    const auto self = shared_from_this();
    const auto closed = std::exchange(closed_, nullptr);
    if (closed) {
        closed();
    }
}

void ServerExchangeImpl::on_gone(const Error& why, bool silent) {
    const auto self = shared_from_this();
    connection_.reset();
    const auto closed = std::exchange(closed_, nullptr);
    const auto read_done = std::exchange(read_done_, nullptr);
    if (silent) {
        return;
    }
    if (read_done) {
        read_done(fail(why.message.empty() ? over() : why));
    }
    if (closed) {
        closed();
    }
}

}  // namespace capstan::net
