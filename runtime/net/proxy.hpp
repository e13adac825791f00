// Proxies: what a URL means, and which connections use one. Thread: any (values).
#pragma once

#include "capstan/error.hpp"
#include "runtime/net/url.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace capstan::net {

enum class ProxyKind : std::uint8_t { http, https, socks5 };

struct ProxyLogin {
    std::string user;
    std::string password;  // a secret
};

struct Proxy {
    ProxyKind kind{ProxyKind::http};
    Endpoint endpoint;  // where the proxy is; https: TLS to it, and CONNECT inside
    std::optional<ProxyLogin> login;
};

// "SCHEME://[user:password@]host[:port]": http (80), https (443), socks5 or socks5h (1080; both let
// the proxy resolve names). Errors: invalid; the text holds nothing of the URL, which may have a
// password anywhere.
Result<Proxy> parse_proxy(std::string_view url);

using Environment = std::function<std::optional<std::string>(const std::string& name)>;
// The URL in HTTPS_PROXY or HTTP_PROXY (or in small letters) that `endpoint` is to be reached
// through; "" for none: neither is set, the host is loopback, or NO_PROXY names it ("*", a domain
// with its subdomains, ".domain" for subdomains only, an address, a CIDR, each with ":port").
std::string proxy_from_environment(const Endpoint& endpoint, const Environment& environment);

// True when `text`, an address, "localhost" or a name below it, is on this machine.
bool is_loopback(std::string_view host);

std::string encode_base64(std::string_view bytes);

}  // namespace capstan::net
