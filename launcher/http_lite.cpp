#include "launcher/http_lite.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <cstring>

namespace capstan::launcher {
namespace {

struct SocketAddress {
    sockaddr_storage storage{};
    socklen_t length{0};
};

// A path of any length: one that is too long for an address goes by its directory's descriptor,
// which `directory` then holds and the caller closes.
bool to_socket_path(const std::string& path, SocketAddress& out, int& directory) {
    auto* unix_address = reinterpret_cast<sockaddr_un*>(&out.storage);
    std::string text = path;
    if (text.size() >= sizeof unix_address->sun_path) {
        const std::size_t slash = path.rfind('/');
        const std::string parent = slash == std::string::npos ? "." : path.substr(0, slash + 1);
        directory = ::open(parent.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
        text = "/proc/self/fd/" + std::to_string(directory) + "/" + path.substr(slash + 1);
        if (directory < 0 || text.size() >= sizeof unix_address->sun_path) {
            return false;
        }
    }
    unix_address->sun_family = AF_UNIX;
    text.copy(unix_address->sun_path, text.size());
    out.length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + text.size() + 1);
    return true;
}

bool to_socket_address(const Address& address, SocketAddress& out) {
    auto* v4 = reinterpret_cast<sockaddr_in*>(&out.storage);
    auto* v6 = reinterpret_cast<sockaddr_in6*>(&out.storage);
    if (address.host.empty()) {
        v6->sin6_family = AF_INET6;
        v6->sin6_port = htons(address.port);
        v6->sin6_addr = in6addr_any;
        out.length = sizeof(sockaddr_in6);
        return true;
    }
    if (inet_pton(AF_INET, address.host.c_str(), &v4->sin_addr) == 1) {
        v4->sin_family = AF_INET;
        v4->sin_port = htons(address.port);
        out.length = sizeof(sockaddr_in);
        return true;
    }
    if (inet_pton(AF_INET6, address.host.c_str(), &v6->sin6_addr) == 1) {
        v6->sin6_family = AF_INET6;
        v6->sin6_port = htons(address.port);
        out.length = sizeof(sockaddr_in6);
        return true;
    }
    return false;
}

std::string error_text(std::string_view what) {
    return std::string(what) + ": " + std::strerror(errno);
}

// Value of a header in a head ("" when absent); names compare without case.
std::string_view header(std::string_view head, std::string_view name) {
    std::size_t at = head.find("\r\n");
    while (at != std::string_view::npos && at + 2 < head.size()) {
        const std::size_t start = at + 2;
        const std::size_t end = std::min(head.find("\r\n", start), head.size());
        const std::string_view line = head.substr(start, end - start);
        if (line.size() > name.size() && line[name.size()] == ':' &&
            std::equal(name.begin(), name.end(), line.begin(), [](char a, char b) {
                return a == std::tolower(static_cast<unsigned char>(b));
            })) {
            std::string_view value = line.substr(name.size() + 1);
            while (!value.empty() && value.front() == ' ') {
                value.remove_prefix(1);
            }
            return value;
        }
        at = end == head.size() ? std::string_view::npos : end;
    }
    return {};
}

// Decodes a complete chunked body; false while incomplete or malformed.
bool decode_chunks(std::string_view bytes, std::string& out) {
    for (;;) {
        const std::size_t line = bytes.find("\r\n");
        std::size_t size = 0;
        if (line == std::string_view::npos) {
            return false;
        }
        const auto [end, error] = std::from_chars(bytes.data(), bytes.data() + line, size, 16);
        if (error != std::errc{} || size > kBodyBytesMax) {
            return false;
        }
        bytes.remove_prefix(line + 2);
        if (size == 0) {
            return true;
        }
        if (bytes.size() < size + 2) {
            return false;
        }
        out.append(bytes.substr(0, size));
        bytes.remove_prefix(size + 2);
    }
}

}  // namespace

bool parse_address(std::string_view text, Address& out) {
    const std::size_t colon = text.rfind(':');
    if (colon == std::string_view::npos) {
        return false;
    }
    std::string_view host = text.substr(0, colon);
    const std::string_view port = text.substr(colon + 1);
    if (!host.empty() && host.front() == '[' && host.back() == ']') {
        host = host.substr(1, host.size() - 2);
    }
    unsigned number = 0;
    const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), number);
    if (error != std::errc{} || end != port.data() + port.size() || number == 0 || number > 65535) {
        return false;
    }
    out = {std::string(host), static_cast<std::uint16_t>(number)};
    SocketAddress checked;
    return to_socket_address(out, checked);
}

Reply parse_reply(std::string_view bytes, bool closed) {
    const std::size_t head_end = bytes.find("\r\n\r\n");
    if (head_end == std::string_view::npos || bytes.size() < 12 || bytes.substr(0, 5) != "HTTP/") {
        return {};
    }
    Reply reply;
    const std::string_view head = bytes.substr(0, head_end + 2);
    std::from_chars(bytes.data() + 9, bytes.data() + 12, reply.status);
    const std::string_view rest = bytes.substr(head_end + 4);
    if (header(head, "transfer-encoding") == "chunked") {
        return decode_chunks(rest, reply.body) ? reply : Reply{};
    }
    const std::string_view length_text = header(head, "content-length");
    std::size_t length = 0;
    if (length_text.empty()) {  // the body ends with the connection
        reply.body = rest;
        return closed ? reply : Reply{};
    }
    std::from_chars(length_text.data(), length_text.data() + length_text.size(), length);
    if (length > kBodyBytesMax || rest.size() < length) {
        return {};
    }
    reply.body = rest.substr(0, length);
    return reply;
}

void Fetch::close() {
    if (fd_ >= 0) {
        ::close(fd_);
        fd_ = -1;
    }
}

void Fetch::start(const Address& peer,
                  std::string_view path,
                  std::string_view bearer_token,
                  Time now) {
    close();
    SocketAddress target;
    int directory = -1;
    const bool local = !peer.socket.empty();
    const bool reachable =
        local ? to_socket_path(peer.socket, target, directory) : to_socket_address(peer, target);
    const int family = local ? AF_UNIX : target.storage.ss_family;
    fd_ = ::socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    deadline_ = now + kFetchTimeout;
    in_.clear();
    out_ = "GET " + std::string(path) + " HTTP/1.1\r\nHost: " + (local ? "localhost" : peer.host) +
           "\r\nConnection: close\r\n";
    if (!bearer_token.empty()) {
        out_ += "Authorization: Bearer " + std::string(bearer_token) + "\r\n";
    }
    out_ += "\r\n";
    start_error_ = reachable ? 0 : ENOENT;
    if (reachable && fd_ >= 0 &&
        ::connect(fd_, reinterpret_cast<sockaddr*>(&target.storage), target.length) != 0 &&
        errno != EINPROGRESS) {
        start_error_ = errno;
    }
    if (directory >= 0) {
        ::close(directory);
    }
}

pollfd Fetch::poll_entry() const {
    return {fd_, static_cast<short>(out_.empty() ? POLLIN : POLLOUT), 0};
}

bool Fetch::finish(Reply& reply, Reply value) {
    close();
    reply = std::move(value);
    return true;
}

bool Fetch::step(short revents, Time now, Reply& reply) {
    if (start_error_ != 0) {
        return finish(reply, {0, std::string("connect: ") + std::strerror(start_error_)});
    }
    if (now >= deadline_) {
        return finish(reply, {0, "timeout"});
    }
    if (revents == 0) {
        return false;
    }
    if (!out_.empty()) {
        const ssize_t sent = ::send(fd_, out_.data(), out_.size(), MSG_NOSIGNAL);
        if (sent < 0) {
            return errno == EAGAIN ? false : finish(reply, {0, error_text("connect")});
        }
        out_.erase(0, static_cast<std::size_t>(sent));
        return false;
    }
    std::array<char, 16 * 1024> buffer;
    const ssize_t got = ::recv(fd_, buffer.data(), buffer.size(), 0);
    if (got < 0) {
        return errno == EAGAIN ? false : finish(reply, {0, error_text("receive")});
    }
    in_.append(buffer.data(), static_cast<std::size_t>(got));
    Reply parsed = parse_reply(in_, got == 0);
    if (parsed.status != 0 || got == 0 || in_.size() > kBodyBytesMax + kRequestBytesMax) {
        return finish(reply, std::move(parsed));
    }
    return false;
}

Listener::~Listener() {
    for (const Connection& connection : connections_) {
        ::close(connection.fd);
    }
    if (fd_ >= 0) {
        ::close(fd_);
    }
}

std::string Listener::listen(const Address& address) {
    SocketAddress target;
    if (!to_socket_address(address, target)) {
        return "the address is not numeric";
    }
    fd_ = ::socket(target.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd_ < 0 && address.host.empty()) {  // a machine without IPv6
        auto* v4 = reinterpret_cast<sockaddr_in*>(&target.storage);
        *v4 = {};
        v4->sin_family = AF_INET;
        v4->sin_port = htons(address.port);
        target.length = sizeof(sockaddr_in);
        fd_ = ::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    }
    if (fd_ < 0) {
        return error_text("socket");
    }
    const int on = 1;
    ::setsockopt(fd_, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (::bind(fd_, reinterpret_cast<sockaddr*>(&target.storage), target.length) != 0 ||
        ::listen(fd_, 64) != 0) {
        return std::strerror(errno);
    }
    return {};
}

void Listener::add_poll_entries(std::vector<pollfd>& entries) const {
    entries.push_back(
        {fd_, static_cast<short>(connections_.size() < kConnectionsMax ? POLLIN : 0), 0});
    for (const Connection& connection : connections_) {
        entries.push_back(
            {connection.fd, static_cast<short>(connection.out.empty() ? POLLIN : POLLOUT), 0});
    }
}

void Listener::step(const std::vector<pollfd>& entries, Time now, const Answer& answer) {
    const auto revents_of = [&](int fd) {
        const auto found = std::find_if(
            entries.begin(), entries.end(), [fd](const pollfd& e) { return e.fd == fd; });
        return found == entries.end() ? short{0} : found->revents;
    };
    for (Connection& connection : connections_) {
        if (revents_of(connection.fd) == 0) {
            continue;
        }
        if (connection.out.empty()) {
            std::array<char, 4096> buffer;
            const ssize_t got = ::recv(connection.fd, buffer.data(), buffer.size(), 0);
            if (got <= 0) {
                connection.deadline = now;  // gone
                continue;
            }
            connection.in.append(buffer.data(), static_cast<std::size_t>(got));
            if (connection.in.find("\r\n\r\n") == std::string::npos) {
                connection.deadline =
                    connection.in.size() > kRequestBytesMax ? now : connection.deadline;
                continue;
            }
            const std::size_t space = connection.in.find(' ');
            const std::size_t end = connection.in.find_first_of(" ?\r", space + 1);
            const Reply reply =
                space == std::string::npos || end == std::string::npos
                    ? Reply{400, "bad request\n"}
                    : answer({std::string_view(connection.in).substr(0, space),
                              std::string_view(connection.in).substr(space + 1, end - space - 1),
                              header(connection.in, "authorization")});
            connection.out =
                "HTTP/1.1 " + std::to_string(reply.status) + (reply.status == 200 ? " OK" : " -") +
                "\r\nContent-Type: text/plain\r\nContent-Length: " +
                std::to_string(reply.body.size()) + "\r\nConnection: close\r\n\r\n" + reply.body;
        }
        const ssize_t sent =
            ::send(connection.fd, connection.out.data(), connection.out.size(), MSG_NOSIGNAL);
        if (sent > 0) {
            connection.out.erase(0, static_cast<std::size_t>(sent));
        }
        if (sent < 0 || connection.out.empty()) {
            connection.deadline = now;
        }
    }
    std::erase_if(connections_, [now](const Connection& connection) {
        if (connection.deadline > now) {
            return false;
        }
        ::close(connection.fd);
        return true;
    });
    if ((revents_of(fd_) & POLLIN) != 0) {
        const int accepted = ::accept4(fd_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (accepted >= 0) {
            connections_.push_back({accepted, {}, {}, now + kFetchTimeout});
        }
    }
}

}  // namespace capstan::launcher
