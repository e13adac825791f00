// What is said to a proxy until it is a tunnel: CONNECT (RFC 9110 9.3.6) or SOCKS5 (RFC 1928, user
// and password by RFC 1929; names are resolved by the proxy).
//
// Without I/O: bytes in, bytes out. Thread: one.
#pragma once

#include "runtime/net/proxy.hpp"

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

namespace capstan::net {

inline constexpr std::size_t kProxyHeadBytesMax = 16 * 1024;  // of the answer to CONNECT

class ProxyTalk {
public:
    struct Step {
        std::string send;     // then more is to come; "": more is to come
        std::string problem;  // over: why there is no tunnel; never holds user or password
        bool open{false};     // over: the other side is now the target
    };
    virtual ~ProxyTalk() = default;
    virtual Step begin() = 0;
    // `bytes` came, cut anywhere. Requires: not over.
    virtual Step take(std::string_view bytes) = 0;
};

std::unique_ptr<ProxyTalk> make_proxy_talk(const Proxy& proxy, const Endpoint& target);

}  // namespace capstan::net
