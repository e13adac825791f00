// The answer of one exchange: bytes from the connection, head, body in the caller's pieces, end.
#include "runtime/net/client_exchange.hpp"

#include <algorithm>
#include <cstdint>
#include <utility>

namespace capstan::net {

namespace {

constexpr std::size_t kCodingBytesQuoted = 64;

}  // namespace

void ClientExchange::read() {
    CAPSTAN_CHECK(!unary_ && !read_wanted_, "read() out of turn");
    read_wanted_ = true;
    pool_->loop.post([this, weak = weak_from_this()] {
        const auto self = weak.lock();
        if (self && state_ == State::open && head_taken_) {
            pump();
        }
    });
}

void ClientExchange::wait_for_bytes() {
    if (!unary_ && head_taken_ && options_.idle_max != kNever && !idle_timer_) {
        idle_timer_ =
            pool_->loop.at(pool_->loop.now() + options_.idle_max, [this, weak = weak_from_this()] {
                const auto self = weak.lock();
                if (self && state_ == State::open) {
                    fail_with(Code::timeout, "nothing arrived for too long");
                }
            });
    }
    connection_->want([this, weak = weak_from_this()](const IoError& error) {
        const auto self = weak.lock();
        if (self && state_ == State::open) {
            on_bytes(error);
        }
    });
}

void ClientExchange::on_bytes(const IoError& error) {
    idle_timer_.reset();
    if (error) {
        on_end_of_bytes(error);
    } else {
        pump();
    }
}

void ClientExchange::on_end_of_bytes(const IoError& error) {
    if (error.kind == IoError::Kind::end && parser_->finish()) {
        complete_ = true;
        pump();
        return;
    }
    if (may_retry()) {
        return retry();
    }
    const std::string_view where = !connection_->answered ? "before the answer"
                                   : head_taken_          ? "in the middle of the answer"
                                                          : "in the head of the answer";
    fail_with(Code::unavailable, error.text + " " + std::string(where));
}

// Everything that can be done with the bytes that are here.
void ClientExchange::pump() {
    const auto self = shared_from_this();
    if (!complete_ && !parse_some()) {
        return;
    }
    if (parser_->head_done() && !head_taken_) {
        take_head();
        if (state_ != State::open) {
            return;
        }
    }
    if (unary_) {
        return take_unary_body();
    }
    if (head_taken_) {
        deliver();
    }
    if (state_ != State::open || complete_) {
        return;
    }
    const bool nothing_left = parser_->body().empty() && !(gunzip_ && gunzip_->has_more());
    if (!head_taken_ || (read_wanted_ && nothing_left)) {
        wait_for_bytes();
    }
}

bool ClientExchange::parse_some() {
    for (;;) {
        const Http1Parser::Step step = parser_->parse(connection_->in);
        connection_->in.erase(0, step.consumed);
        if (step.problem == Http1Parser::Problem::head_too_large) {
            fail_with(Code::too_large,
                      "the head of the answer is larger than " + std::to_string(kHeaderBytesMax) +
                          " bytes");
            return false;
        }
        if (step.problem != Http1Parser::Problem::none) {
            fail_with(Code::unavailable, "malformed answer: " + step.text);
            return false;
        }
        const bool interim =
            parser_->head_done() && parser_->head().status < 200 && parser_->head().status != 101;
        if (!interim) {
            break;
        }
        parser_ = std::make_unique<Http1Parser>(
            Role::response, kHeaderBytesMax, request_.method == "HEAD");
    }
    if (parser_->done() && !complete_) {
        complete_ = true;
        if (request_sent_ || !sending_) {
            give_back();
        }
    }
    return true;
}

void ClientExchange::take_head() {
    head_taken_ = true;
    Headers headers = std::move(parser_->head().headers);
    if (!begin_decoding(headers)) {
        return;
    }
    if (unary_) {
        response_.status = parser_->head().status;
        response_.headers = std::move(headers);
        return;
    }
    deadline_.reset();  // of a stream: until here
    if (handler_.on_head) {
        const auto call = handler_.on_head;
        call(parser_->head().status, headers);
    }
}

// Bodies that were not asked for as gzip are the caller's affair, whatever they are.
bool ClientExchange::begin_decoding(Headers& headers) {
    const std::string coding(find_header(headers, "content-encoding"));
    const Head& head = parser_->head();
    const bool empty = request_.method == "HEAD" || head.status == 101 || head.status == 204 ||
                       head.status == 304 || head.content_length == 0;
    if (coding.empty() || equal_names(coding, "identity") || empty ||
        !has_token(find_header(request_.headers, "accept-encoding"), "gzip")) {
        return true;
    }
    if (!equal_names(coding, "gzip")) {
        fail_with(Code::unavailable,
                  "the answer has the content coding \"" + coding.substr(0, kCodingBytesQuoted) +
                      "\", which was not asked for");
        return false;
    }
    gunzip_ = std::make_unique<Gunzip>();
    std::erase_if(headers, [](const auto& header) {  // they speak of the packed bytes
        return equal_names(header.first, "content-encoding") ||
               equal_names(header.first, "content-length");
    });
    return true;
}

bool ClientExchange::unpack(std::size_t bytes_max, std::string& out) {
    const auto done = gunzip_->decode(parser_->body(), bytes_max, out);
    if (!done) {
        fail_with(done.error().code, "malformed answer: " + done.error().message);
        return false;
    }
    if (complete_ && !gunzip_->has_more() && !gunzip_->complete()) {
        fail_with(Code::unavailable, "malformed answer: its gzip is cut short");
        return false;
    }
    return true;
}

void ClientExchange::take_unary_body() {
    std::string& body = parser_->body();
    if (gunzip_) {
        const std::size_t room = request_.body_bytes_max - response_.body.size();
        if (!unpack(room + (room < SIZE_MAX ? 1 : 0), response_.body)) {  // one over shows
            return;
        }
    }
    if (response_.body.size() + body.size() > request_.body_bytes_max) {
        return fail_with(
            Code::too_large,
            "the answer is larger than " + std::to_string(request_.body_bytes_max) + " bytes");
    }
    if (gunzip_) {
        // There it is already.
    } else if (response_.body.empty()) {
        response_.body.swap(body);
        const std::int64_t length = parser_->head().content_length;
        if (length > 0 && static_cast<std::uint64_t>(length) <= request_.body_bytes_max) {
            response_.body.reserve(
                std::min<std::size_t>(static_cast<std::size_t>(length), 16u * 1024 * 1024));
        }
    } else {
        response_.body += body;
    }
    body.clear();
    if (complete_) {
        succeed_unary();
    } else {
        wait_for_bytes();
    }
}

void ClientExchange::deliver() {
    if (!read_wanted_) {
        return;
    }
    std::string& body = parser_->body();
    std::string piece;
    if (gunzip_) {
        if (!unpack(kDataBytesMax, piece)) {
            return;
        }
    } else if (body.size() <= kDataBytesMax) {
        piece.swap(body);
    } else {
        piece = body.substr(0, kDataBytesMax);
        body.erase(0, kDataBytesMax);
    }
    if (!piece.empty()) {
        read_wanted_ = false;
        const auto call = handler_.on_data;
        if (call) {
            call(piece);
        }
        return;
    }
    if (!complete_) {
        return;
    }
    leave();
    finish_write(fail(Code::unavailable, context() + ": the exchange is over"));  // one under way
    if (const auto call = std::exchange(handler_.on_end, nullptr)) {
        call(ok());
    }
}

void ClientExchange::succeed_unary() {
    const auto call = std::exchange(done_, nullptr);
    leave();
    if (call) {
        call(std::move(response_));
    }
}

}  // namespace capstan::net
