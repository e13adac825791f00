#include "runtime/net/acceptor.hpp"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <fcntl.h>
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
    if (storage.ss_family != AF_INET && storage.ss_family != AF_INET6) {
        return "unix";
    }
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

constexpr std::string_view kUnix = "unix:";

// A socket in the file system that listens; its errno when it cannot be had. It is bound by its
// directory's descriptor, because a path of more than 107 bytes is no address.
int listen_on_path(const std::string& path, int& fd) {
    const std::size_t slash = path.rfind('/');
    const std::string parent = slash == std::string::npos ? "." : path.substr(0, slash + 1);
    const int directory = ::open(parent.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
    const std::string near =
        "/proc/self/fd/" + std::to_string(directory) + "/" + path.substr(slash + 1);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    int problem = directory < 0 ? errno : 0;
    if (problem == 0 && near.size() >= sizeof address.sun_path) {
        problem = ENAMETOOLONG;
    }
    if (problem == 0) {
        near.copy(address.sun_path, near.size());
        struct stat left {};
        if (::lstat(path.c_str(), &left) == 0 && S_ISSOCK(left.st_mode)) {
            ::unlink(path.c_str());
        }
        fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        const auto* raw = reinterpret_cast<const sockaddr*>(&address);
        // Nobody can connect before listen(), so not before the mode is set either.
        if (fd < 0 || ::bind(fd, raw, sizeof address) != 0 || ::chmod(path.c_str(), 0600) != 0 ||
            ::listen(fd, kBacklog) != 0) {
            problem = errno;
        }
    }
    if (directory >= 0) {
        ::close(directory);
    }
    return problem;
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
    if (text.starts_with(kUnix)) {
        return listen_near(loop, text.substr(kUnix.size()), std::move(accepted));
    }
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

Result<std::unique_ptr<Acceptor>> Acceptor::listen_near(IoLoop& loop,
                                                        const std::string& path,
                                                        Accepted accepted) {
    int fd = -1;
    if (const int number = listen_on_path(path, fd); number != 0) {
        if (fd >= 0) {
            ::close(fd);
        }
        return fail(Code::unavailable,
                    "listen on " + path + ": " + std::strerror(number) +
                        "; its directory must be there and be writable");
    }
    std::unique_ptr<Acceptor> acceptor(
        // tidy: allow new, private constructor
        new Acceptor(loop, fd, AF_UNIX, 0, std::move(accepted)));
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
            if (!std::exchange(troubled_, true) && trouble_) {
                trouble_(errno);
            }
            pause();
            retry_ = loop_.at(loop_.now() + kRetryDelay, [this] { (void)resume(); });
            return;
        }
        // nobody waits, or the peer left already
        if (fd < 0) {
            return;
        }
        troubled_ = false;
        auto transport = adopt_socket(loop_, fd, family_);
        if (transport) {
            accepted_(std::move(transport).value(), to_text(peer));
        }
    }
}

}  // namespace capstan::net
