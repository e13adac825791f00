// Raw peers for the tests of this folder: plain sockets on loopback, any port, every wait bounded.
#pragma once

#include "runtime/net/io_loop.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <poll.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>

namespace capstan::net::testing {

inline constexpr std::chrono::seconds kLimit{10};  // of anything that could hang

// One accepted connection of RawServer, blocking with a limit. Runs on the server's own thread.
class RawConnection {
public:
    explicit RawConnection(int fd) : fd_(fd) {
        const timeval limit{5, 0};
        ::setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
        ::setsockopt(fd_, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    }
    ~RawConnection() { close(); }
    RawConnection(const RawConnection&) = delete;
    RawConnection& operator=(const RawConnection&) = delete;

    // Reads until `mark` was seen; what was read (it may be more: our clients do not pipeline).
    std::string read_until(std::string_view mark) {
        std::string got;
        std::string buffer(64 * 1024, '\0');
        for (ssize_t n = 0; (n = ::recv(fd_, buffer.data(), buffer.size(), 0)) > 0;) {
            const std::size_t from = got.size() < mark.size() ? 0 : got.size() - mark.size();
            got.append(buffer, 0, static_cast<std::size_t>(n));
            if (got.find(mark, from) != std::string::npos) {
                break;
            }
        }
        return got;
    }
    std::string read_request() { return read_until("\r\n\r\n"); }
    std::string read_rest() {
        std::string got;
        char buffer[4096];
        for (ssize_t n = 0; (n = ::recv(fd_, buffer, sizeof buffer, 0)) > 0;) {
            got.append(buffer, static_cast<std::size_t>(n));
        }
        return got;
    }
    bool send(std::string_view bytes) {
        while (!bytes.empty()) {
            const ssize_t n = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
            if (n <= 0) {
                return false;
            }
            bytes.remove_prefix(static_cast<std::size_t>(n));
        }
        return true;
    }
    void send_byte_by_byte(std::string_view bytes) {
        const int on = 1;
        ::setsockopt(fd_, IPPROTO_TCP, 1 /* TCP_NODELAY */, &on, sizeof on);
        for (const char c : bytes) {
            send(std::string_view(&c, 1));
        }
    }
    void finish() { ::shutdown(fd_, SHUT_WR); }
    void close() {
        if (fd_ >= 0) {
            ::close(fd_);
        }
        fd_ = -1;
    }
    void reset() {
        const linger now{1, 0};
        ::setsockopt(fd_, SOL_SOCKET, SO_LINGER, &now, sizeof now);
        close();
    }

private:
    int fd_;
};

// Accepts connections one after the other and runs `script` on each (number from
// 0), on its own thread.
class RawServer {
public:
    using Script = std::function<void(RawConnection&, int number)>;

    explicit RawServer(Script script) : RawServer(std::move(script), "") {}
    RawServer(Script script, const std::string& unix_path) : script_(std::move(script)) {
        if (unix_path.empty()) {
            fd_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
            sockaddr_in address{};
            address.sin_family = AF_INET;
            address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
            socklen_t size = sizeof address;
            ::bind(fd_, reinterpret_cast<sockaddr*>(&address), size);
            ::getsockname(fd_, reinterpret_cast<sockaddr*>(&address), &size);
            port_ = ntohs(address.sin_port);
        } else {
            fd_ = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
            sockaddr_un address{};
            address.sun_family = AF_UNIX;
            std::strncpy(address.sun_path, unix_path.c_str(), sizeof address.sun_path - 1);
            ::bind(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address);
        }
        ::listen(fd_, 16);
        thread_ = std::thread([this] { serve(); });
    }
    ~RawServer() {
        stopping_ = true;
        ::shutdown(fd_, SHUT_RDWR);
        thread_.join();
        ::close(fd_);
    }
    RawServer(const RawServer&) = delete;
    RawServer& operator=(const RawServer&) = delete;

    std::string endpoint() const { return "http://127.0.0.1:" + std::to_string(port_); }
    std::uint16_t port() const noexcept { return port_; }
    int accepted() const noexcept { return accepted_; }

private:
    void serve() {
        while (!stopping_) {
            const int fd = ::accept(fd_, nullptr, nullptr);
            if (fd < 0) {
                return;
            }
            RawConnection connection(fd);
            script_(connection, accepted_++);
        }
    }

    const Script script_;
    int fd_{-1};
    std::uint16_t port_{0};
    std::atomic<int> accepted_{0};
    std::atomic<bool> stopping_{false};
    std::thread thread_;
};

// A client on the loop: sends raw bytes, collects what comes.
class RawClient {
public:
    RawClient(IoLoop& loop, std::uint16_t port, int receive_buffer = 0) : loop_(loop) {
        fd_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (receive_buffer != 0) {
            ::setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof receive_buffer);
        }
        sockaddr_in address{};
        address.sin_family = AF_INET;
        address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        address.sin_port = htons(port);
        ::connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address);
        ::fcntl(fd_, F_SETFL, O_NONBLOCK);
    }
    ~RawClient() { close(); }
    RawClient(const RawClient&) = delete;
    RawClient& operator=(const RawClient&) = delete;

    void send(std::string_view bytes) {
        sent_ok = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
                  static_cast<ssize_t>(bytes.size());
    }
    void finish() { ::shutdown(fd_, SHUT_WR); }
    void start_reading() {
        if (watch_) {
            return;
        }
        watch_ = loop_
                     .on_readable(fd_,
                                  [this] {
                                      char buffer[16 * 1024];
                                      const ssize_t n = ::recv(fd_, buffer, sizeof buffer, 0);
                                      if (n > 0) {
                                          received.append(buffer, static_cast<std::size_t>(n));
                                      }
                                      if (n == 0 || (n < 0 && errno != EAGAIN)) {
                                          ended = true;
                                          watch_.reset();
                                      }
                                  })
                     .value();
    }
    // Runs the loop until `text` has come.
    bool expect(std::string_view text) {
        start_reading();
        // Only the end is new; searching it all each time would be quadratic.
        return loop_.run_until(
            [&] {
                return received.find(text, received.size() > kTail ? received.size() - kTail : 0) !=
                       std::string::npos;
            },
            kLimit);
    }
    bool expect_end() {
        start_reading();
        return loop_.run_until([&] { return ended; }, kLimit);
    }
    void close() {
        watch_.reset();
        if (fd_ >= 0) {
            ::close(fd_);
        }
        fd_ = -1;
    }

    std::string received;
    bool ended{false};
    bool sent_ok{false};

private:
    static constexpr std::size_t kTail = 64 * 1024;
    IoLoop& loop_;
    int fd_{-1};
    std::unique_ptr<Watch> watch_;
};

}  // namespace capstan::net::testing
