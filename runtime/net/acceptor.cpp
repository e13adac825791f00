#include "runtime/net/acceptor.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

namespace capstan::net {

namespace {

constexpr int kBacklog = 512;
constexpr std::chrono::milliseconds kRetryDelay{100};  // after running out of descriptors
constexpr int kAcceptsPerTurn = 16;                    // then others on the loop get their turn

struct Address {
    sockaddr_storage storage{};
    socklen_t size{0};
    int family{0};
};

Result<Address> parse_address(const std::string& text, std::uint16_t port) {
    Address address;
    sockaddr_in v4{};
    sockaddr_in6 v6{};
    if (::inet_pton(AF_INET, text.c_str(), &v4.sin_addr) == 1) {
        v4.sin_family = AF_INET;
        v4.sin_port = htons(port);
        std::memcpy(&address.storage, &v4, sizeof v4);
        address.size = sizeof v4;
        address.family = AF_INET;
    } else if (::inet_pton(AF_INET6, text.c_str(), &v6.sin6_addr) == 1) {
        v6.sin6_family = AF_INET6;
        v6.sin6_port = htons(port);
        std::memcpy(&address.storage, &v6, sizeof v6);
        address.size = sizeof v6;
        address.family = AF_INET6;
    } else {
        return fail(Code::invalid, "listen on \"" + text + "\": not an IP address");
    }
    return address;
}

std::string to_text(const sockaddr_storage& storage) {
    std::array<char, INET6_ADDRSTRLEN> text{};
    if (storage.ss_family == AF_INET) {
        sockaddr_in v4{};
        std::memcpy(&v4, &storage, sizeof v4);
        ::inet_ntop(AF_INET, &v4.sin_addr, text.data(), text.size());
        return join_host_port(text.data(), ntohs(v4.sin_port));
    }
    sockaddr_in6 v6{};
    std::memcpy(&v6, &storage, sizeof v6);
    ::inet_ntop(AF_INET6, &v6.sin6_addr, text.data(), text.size());
    return join_host_port(text.data(), ntohs(v6.sin6_port));
}

std::uint16_t bound_port(int fd) {
    sockaddr_storage storage{};
    socklen_t size = sizeof storage;
    if (::getsockname(fd, reinterpret_cast<sockaddr*>(&storage), &size) != 0) {
        return 0;
    }
    sockaddr_in v4{};  // the port is at the same place in both families
    std::memcpy(&v4, &storage, sizeof v4);
    return ntohs(v4.sin_port);
}

Error listen_error(const std::string& address, std::uint16_t port, int number) {
    std::string text = "listen on " + join_host_port(address, port) + ": " + std::strerror(number);
    if (number == EADDRINUSE) {
        text += "; stop the process that has it (ss -ltnp 'sport = :" + std::to_string(port) +
                "') or choose another port";
    } else if (number == EADDRNOTAVAIL) {
        text += "; this host has no such address";
    } else if (number == EACCES) {
        text += "; ports below 1024 need CAP_NET_BIND_SERVICE, choose a higher one";
    }
    return Error{Code::unavailable, std::move(text), std::chrono::milliseconds{0}};
}

}  // namespace

Acceptor::Acceptor(IoLoop& loop, int fd, int family, std::uint16_t port, Accepted accepted)
    : loop_(loop), fd_(fd), family_(family), port_(port), accepted_(std::move(accepted)) {}

Acceptor::~Acceptor() {
    watch_.reset();  // before the descriptor it borrows
    ::close(fd_);
}

Result<std::unique_ptr<Acceptor>> Acceptor::listen(IoLoop& loop,
                                                   const std::string& text,
                                                   std::uint16_t port,
                                                   Accepted accepted) {
    CAPSTAN_TRY(const auto address, parse_address(text, port));
    const int fd = ::socket(address.family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return fail(listen_error(text, port, errno));
    }
    const int on = 1;
    ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    const auto* raw = reinterpret_cast<const sockaddr*>(&address.storage);
    if (::bind(fd, raw, address.size) != 0 || ::listen(fd, kBacklog) != 0) {
        const int number = errno;
        ::close(fd);
        return fail(listen_error(text, port, number));
    }
    std::unique_ptr<Acceptor> acceptor(
        // tidy: allow new, private constructor
        new Acceptor(loop, fd, address.family, bound_port(fd), std::move(accepted)));
    CAPSTAN_TRY(acceptor->resume());
    return acceptor;
}

Result<void> Acceptor::resume() {
    if (watch_) {
        return ok();
    }
    CAPSTAN_TRY(watch_, loop_.on_readable(fd_, [this] { accept_some(); }));
    return ok();
}

void Acceptor::accept_some() {
    for (int i = 0; i < kAcceptsPerTurn && watch_; ++i) {
        sockaddr_storage peer{};
        socklen_t size = sizeof peer;
        const int fd =
            ::accept4(fd_, reinterpret_cast<sockaddr*>(&peer), &size, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)) {
            pause();
            retry_ = loop_.at(loop_.now() + kRetryDelay, [this] { (void)resume(); });
            return;
        }
        // nobody waits, or the peer left already
        if (fd < 0) {
            return;
        }
        auto transport = adopt_socket(loop_, fd, family_);
        if (transport) {
            accepted_(std::move(transport).value(), to_text(peer));
        }
    }
}

}  // namespace capstan::net
