// A listening TCP or Unix socket.
#pragma once

#include "capstan/error.hpp"
#include "runtime/net/io_loop.hpp"
#include "runtime/net/transport.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

namespace capstan::net {

using Accepted = std::function<void(std::unique_ptr<Transport> transport, std::string remote)>;

class Acceptor {
public:
    // `address`: an IP address, or "unix:PATH" of any length: a socket of its user alone, mode
    // 0600, in the place of one that another process left there; `port` then means nothing and
    // `remote` is "unix".
    // Errors: invalid (address), unavailable (in use, not ours, no permission); names
    // address:port and a remedy.
    static Result<std::unique_ptr<Acceptor>> listen(IoLoop& loop,
                                                    const std::string& address,
                                                    std::uint16_t port,
                                                    Accepted accepted);
    ~Acceptor();
    Acceptor(const Acceptor&) = delete;
    Acceptor& operator=(const Acceptor&) = delete;

    std::uint16_t port() const noexcept { return port_; }
    Result<void> resume();  // starts, and goes on after pause()
    // When accepting fails for want of descriptors or memory, once until it succeeds again.
    void on_trouble(std::function<void(int error_number)> tell) { trouble_ = std::move(tell); }
    void pause() { watch_.reset(); }  // new peers wait in the kernel's queue

private:
    Acceptor(IoLoop& loop, int fd, int family, std::uint16_t port, Accepted accepted);
    static Result<std::unique_ptr<Acceptor>> listen_near(IoLoop& loop,
                                                         const std::string& path,
                                                         Accepted accepted);
    void accept_some();

    IoLoop& loop_;
    const int fd_;
    const int family_;
    const std::uint16_t port_;
    const Accepted accepted_;
    std::unique_ptr<Watch> watch_;
    std::unique_ptr<Timer> retry_;
    std::function<void(int)> trouble_;
    bool troubled_{false};
};

}  // namespace capstan::net
