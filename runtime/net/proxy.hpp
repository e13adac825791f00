// HTTP proxies: what a URL means, and which connections use one. Thread: any (values).
#pragma once

#include "capstan/error.hpp"
#include "runtime/net/url.hpp"

#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace capstan::net {

inline constexpr std::size_t kProxyHeadBytesMax = 16 * 1024;  // of the answer to CONNECT

struct Proxy {
    Endpoint endpoint;
    std::string authorization;  // "Basic …" from the user part of the URL, or ""
};

// "http://[user:password@]host[:port]". Errors: invalid; unsupported (https and socks5 proxies).
// Messages never hold the password.
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
