#include "runtime/net/transport_impl.hpp"

#include "runtime/net/io_loop_impl.hpp"

#include <boost/asio/ssl/error.hpp>
#include <boost/asio/write.hpp>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <unistd.h>

#include <cerrno>

namespace capstan::net {

namespace {

namespace asio = boost::asio;
using boost::system::error_code;

// Half-open peers are found by the kernel: 30 s idle, 3 probes; unacknowledged data after 30 s.
constexpr int kKeepIdleSeconds = 30;
constexpr int kKeepIntervalSeconds = 10;
constexpr int kKeepProbes = 3;
constexpr int kUserTimeoutMs = 30'000;

IoError to_error(const error_code& error) {
    if (!error) {
        return {};
    }
    if (error == asio::error::eof || error == asio::ssl::error::stream_truncated) {
        return {IoError::Kind::end, "connection closed by the peer", false};
    }
    std::string text = error.message();
    if (const std::size_t cut = text.find(" (SSL routines)"); cut != std::string::npos) {
        text.erase(cut);
    }
    return {IoError::Kind::failed, std::move(text), false};
}

class SocketTransport final : public Transport {
public:
    explicit SocketTransport(std::shared_ptr<SocketState> state) : state_(std::move(state)) {}
    ~SocketTransport() override {
        if (!lingering_) {
            state_->shut();
        }
    }
    SocketTransport(const SocketTransport&) = delete;
    SocketTransport& operator=(const SocketTransport&) = delete;

    void read(std::function<void(const IoError&, std::string_view)> done) override {
        CAPSTAN_CHECK(!state_->on_read, "one read at a time");
        state_->on_read = std::move(done);
        state_->read();
    }
    void write(std::string bytes, std::function<void(const IoError&)> done) override {
        CAPSTAN_CHECK(!state_->on_write, "one write at a time");
        state_->out = std::move(bytes);
        state_->on_write = std::move(done);
        state_->write();
    }
    void accept_tls(SslPtr ssl, std::function<void(const IoError&)> done) override {
        state_->ssl = std::move(ssl);
        state_->handshake(true, std::move(done));
    }
    void close_gently() override {
        lingering_ = true;
        state_->begin_linger();
    }
    void drop_unsent() noexcept override {
        const linger now{.l_onoff = 1, .l_linger = 0};
        ::setsockopt(state_->socket.native_handle(), SOL_SOCKET, SO_LINGER, &now, sizeof now);
    }
    bool is_quiet() const noexcept override {
        char byte = 0;
        const int fd = state_->socket.native_handle();
        const ssize_t got = ::recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
        return got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR);
    }
    PeerSubject subject() const override {
        if (!state_->tls) {
            return {};
        }
        return peer_subject(state_->innermost());
    }

private:
    std::shared_ptr<SocketState> state_;  // shared with operations in flight
    bool lingering_{false};
};

}  // namespace

asio::io_context& SocketState::context(IoLoop& loop) {
    return context_of(loop);
}

void SocketState::read() {
    auto done = [self = shared_from_this()](const error_code& error, std::size_t count) {
        if (self->closed || !self->on_read) {
            return;
        }
        const auto call = std::exchange(self->on_read, nullptr);
        call(to_error(error), std::string_view(self->in.data(), count));
    };
    if (inner) {
        inner->async_read_some(asio::buffer(in), std::move(done));
    } else if (tls) {
        tls->async_read_some(asio::buffer(in), std::move(done));
    } else {
        socket.async_read_some(asio::buffer(in), std::move(done));
    }
}

void SocketState::write() {
    auto done = [self = shared_from_this()](const error_code& error, std::size_t) {
        if (self->closed || !self->on_write) {
            return;
        }
        self->out.clear();
        const auto call = std::exchange(self->on_write, nullptr);
        call(to_error(error));
    };
    if (inner) {
        asio::async_write(*inner, asio::buffer(out), std::move(done));
    } else if (tls) {
        asio::async_write(*tls, asio::buffer(out), std::move(done));
    } else {
        asio::async_write(socket, asio::buffer(out), std::move(done));
    }
}

void SocketState::handshake(bool as_server, std::function<void(const IoError&)> done) {
    on_handshake = std::move(done);
    const auto side = as_server ? TlsStream::server : TlsStream::client;
    auto shaken = [self = shared_from_this()](const error_code& error) {
        if (self->closed || !self->on_handshake) {
            return;
        }
        const auto call = std::exchange(self->on_handshake, nullptr);
        IoError problem = to_error(error);
        const std::string refused =
            error ? verify_problem(self->innermost(), self->loop.wall_now()) : std::string();
        if (!refused.empty()) {
            problem.text += ": " + refused;
            problem.untrusted = true;
        }
        call(problem);
    };
    // The stream frees `ssl`.
    if (tls) {
        inner.emplace(*tls, ssl.release());
        inner->async_handshake(side, std::move(shaken));
    } else {
        tls.emplace(socket, ssl.release());
        tls->async_handshake(side, std::move(shaken));
    }
}

SSL* SocketState::innermost() {
    return inner ? inner->native_handle() : tls->native_handle();
}

void SocketState::shut() {
    closed = true;
    linger.reset();
    // Destroyed after `closed` is set: their captures may own what owns the transport.
    const auto read_call = std::exchange(on_read, nullptr);
    const auto write_call = std::exchange(on_write, nullptr);
    const auto handshake_call = std::exchange(on_handshake, nullptr);
    error_code ignored;
    socket.close(ignored);
}

void SocketState::begin_linger() {
    const auto read_call = std::exchange(on_read, nullptr);
    // Only operations in flight own *this from here on: the timer must not, or a loop that
    // dies first leaks both.
    linger = loop.at(loop.now() + kLingerMax, [weak = weak_from_this()] {
        if (const auto self = weak.lock()) {
            self->shut();
        }
    });
    if (!tls) {
        return drain();
    }
    // Sends close_notify and waits for the peer's; data that is still under
    // way ends the wait early.
    auto said = [self = shared_from_this()](const error_code&) {
        if (!self->closed) {
            self->drain();
        }
    };
    if (inner) {
        inner->async_shutdown(std::move(said));
    } else {
        tls->async_shutdown(std::move(said));
    }
}

// Unread bytes at close() would make the kernel send a reset, which can overtake our last words.
void SocketState::drain() {
    error_code ignored;
    socket.shutdown(Socket::shutdown_send, ignored);
    socket.async_read_some(asio::buffer(in),
                           [self = shared_from_this()](const error_code& error, std::size_t) {
                               if (self->closed) {
                                   return;
                               }
                               if (error) {
                                   self->shut();
                               } else {
                                   self->drain();
                               }
                           });
}

std::unique_ptr<Transport> wrap(std::shared_ptr<SocketState> state) {
    return std::make_unique<SocketTransport>(std::move(state));
}

void set_tcp_options(Socket& socket, int family) noexcept {
    if (family != AF_INET && family != AF_INET6) {
        return;
    }
    const int fd = socket.native_handle();
    const auto set = [fd](int level, int option, int value) {
        ::setsockopt(fd, level, option, &value, sizeof value);
    };
    set(IPPROTO_TCP, TCP_NODELAY, 1);
    set(SOL_SOCKET, SO_KEEPALIVE, 1);
    set(IPPROTO_TCP, TCP_KEEPIDLE, kKeepIdleSeconds);
    set(IPPROTO_TCP, TCP_KEEPINTVL, kKeepIntervalSeconds);
    set(IPPROTO_TCP, TCP_KEEPCNT, kKeepProbes);
    set(IPPROTO_TCP, TCP_USER_TIMEOUT, kUserTimeoutMs);
}

Result<std::unique_ptr<Transport>> adopt_socket(IoLoop& loop, int fd, int family) {
    auto state = std::make_shared<SocketState>(loop);
    error_code error;
    state->socket.assign(asio::generic::stream_protocol(family, 0), fd, error);
    if (error) {
        ::close(fd);
        return fail(Code::unavailable, "adopt a socket: " + error.message());
    }
    set_tcp_options(state->socket, family);
    return wrap(std::move(state));
}

}  // namespace capstan::net
