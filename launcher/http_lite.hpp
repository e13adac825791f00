// Just enough HTTP/1.1 for the launcher: one small GET at a time out, three tiny paths in.
//
// The launcher sits in etcd's container and must stay below 4 MiB, so it brings no library. Numeric
// IPv4 and IPv6 addresses and Unix sockets, no TLS (docs/adr/0005), bodies up to kBodyBytesMax.
// Everything non-blocking, driven by poll(); thread: one.
#pragma once

#include <poll.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace capstan::launcher {

inline constexpr std::size_t kBodyBytesMax = 1024 * 1024;  // an etcd configuration is below 64 KiB
inline constexpr std::size_t kRequestBytesMax = 8 * 1024;
inline constexpr std::size_t kConnectionsMax = 32;
inline constexpr std::chrono::milliseconds kFetchTimeout{5'000};

using Time = std::chrono::steady_clock::time_point;

struct Address {
    std::string host;  // numeric, or "" for all addresses (listening)
    std::uint16_t port{0};
    std::string socket{};  // path of a Unix socket; not empty: it is what counts
};
// "127.0.0.1:8080", "[::1]:8080", ":9095"; false when malformed.
bool parse_address(std::string_view text, Address& out);

struct Reply {
    int status{0};  // 0: no answer; `body` says why
    std::string body;
};
// Splits a complete response; status 0 while incomplete, unless `closed`.
Reply parse_reply(std::string_view bytes, bool closed);

// One GET. start() again replaces it.
class Fetch {
public:
    ~Fetch() { close(); }
    void start(const Address& peer, std::string_view path, std::string_view bearer_token, Time now);
    bool active() const { return fd_ >= 0; }
    pollfd poll_entry() const;
    // True when it ended; `reply` then holds the answer.
    bool step(short revents, Time now, Reply& reply);
    Time deadline() const { return deadline_; }

private:
    void close();
    bool finish(Reply& reply, Reply value);
    int fd_{-1};
    int start_error_{0};  // errno
    std::string out_, in_;
    Time deadline_{};
};

struct Request {
    std::string_view method, path;
    std::string_view authorization;  // header
};
// Accepts connections; `answer` gives status and body.
class Listener {
public:
    using Answer = std::function<Reply(const Request&)>;
    ~Listener();
    // Error text, "" on success.
    std::string listen(const Address& address);
    void add_poll_entries(std::vector<pollfd>& entries) const;
    void step(const std::vector<pollfd>& entries, Time now, const Answer& answer);

private:
    struct Connection {
        int fd;
        std::string in, out;
        Time deadline;
    };
    int fd_{-1};
    std::vector<Connection> connections_;
};

}  // namespace capstan::launcher
