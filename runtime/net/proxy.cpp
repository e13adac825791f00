#include "runtime/net/proxy.hpp"

#include <arpa/inet.h>
#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <climits>
#include <vector>

namespace capstan::net {

namespace {

constexpr std::size_t kSocksLoginBytesMax = 255;  // RFC 1929: each has its length in one byte

// 16 bytes of an address, IPv4 mapped into IPv6; empty when `text` is none.
std::vector<unsigned char> address_bytes(std::string_view text) {
    std::vector<unsigned char> bytes(16, 0);
    const std::string copy(text);
    if (::inet_pton(AF_INET6, copy.c_str(), bytes.data()) == 1) {
        return bytes;
    }
    bytes.assign(16, 0);
    bytes[10] = bytes[11] = 0xff;
    return ::inet_pton(AF_INET, copy.c_str(), bytes.data() + 12) == 1
               ? bytes
               : std::vector<unsigned char>{};
}

bool in_range(std::string_view host, std::string_view cidr) {
    const std::size_t slash = cidr.find('/');
    const std::string_view base = cidr.substr(0, slash);
    const auto address = address_bytes(host);
    const auto network = address_bytes(base);
    std::size_t bits = 0;
    const std::string_view digits = cidr.substr(slash + 1);
    const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), bits);
    const bool v4 = base.find(':') == std::string_view::npos;
    bits += v4 ? 96 : 0;
    if (address.empty() || network.empty() || parsed.ec != std::errc{} || bits > 128) {
        return false;
    }
    for (std::size_t i = 0; i < bits; ++i) {
        const unsigned mask = 0x80u >> (i % 8);
        if ((address[i / 8] & mask) != (network[i / 8] & mask)) {
            return false;
        }
    }
    return true;
}

std::string lower(std::string_view text) {
    std::string out(text);
    std::transform(out.begin(), out.end(), out.begin(), [](char c) {
        return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    });
    return out;
}

// One entry of NO_PROXY, in small letters and without blanks.
bool names(std::string_view entry, const std::string& host, std::uint16_t port) {
    if (entry.find('/') != std::string_view::npos) {
        return in_range(host, entry);
    }
    const auto bytes = address_bytes(host);
    if (entry.starts_with('[') || entry.find(':') == entry.rfind(':')) {
        const std::size_t colon = entry.rfind(':');
        if (colon != std::string_view::npos && entry.substr(colon).find(']') == entry.npos) {
            if (entry.substr(colon + 1) != std::to_string(port)) {
                return false;
            }
            entry = entry.substr(0, colon);
        }
        if (entry.starts_with('[') && entry.ends_with(']')) {
            entry = entry.substr(1, entry.size() - 2);
        }
    }
    if (const auto wanted = address_bytes(entry); !wanted.empty() || !bytes.empty()) {
        return wanted == bytes;
    }
    if (entry.starts_with("*.")) {
        entry.remove_prefix(1);
    }
    const bool whole = !entry.starts_with('.');
    const std::string suffix = whole ? "." + std::string(entry) : std::string(entry);
    return (whole && host == entry) || (host.size() > suffix.size() && host.ends_with(suffix));
}

bool is_excepted(std::string_view list, const std::string& host, std::uint16_t port) {
    while (!list.empty()) {
        const std::size_t end = std::min(list.find(','), list.size());
        std::string entry = lower(list.substr(0, end));
        list.remove_prefix(std::min(end + 1, list.size()));
        std::erase_if(entry, [](char c) { return c == ' ' || c == '\t'; });
        if (entry == "*" || (!entry.empty() && names(entry, host, port))) {
            return true;
        }
    }
    return false;
}

// The part before the "@".
Result<ProxyLogin> parse_login(std::string_view text, ProxyKind kind) {
    const std::size_t colon = std::min(text.find(':'), text.size());
    auto user = decode_segment(text.substr(0, colon));
    auto password = decode_segment(text.substr(std::min(colon + 1, text.size())));
    if (!user || !password) {
        return fail(Code::invalid, "user and password of a proxy are percent-encoded in its URL");
    }
    ProxyLogin login{std::move(user).value(), std::move(password).value()};
    const bool fits = !login.user.empty() && login.user.size() <= kSocksLoginBytesMax &&
                      login.password.size() <= kSocksLoginBytesMax;
    if (kind == ProxyKind::socks5 && !fits) {
        return fail(Code::invalid,
                    "the user of a socks5 proxy has 1 to 255 bytes, its password at most 255");
    }
    return login;
}

}  // namespace

std::string encode_base64(std::string_view bytes) {
    if (bytes.size() > INT_MAX / 2) {
        return {};
    }
    std::string out(4 * ((bytes.size() + 2) / 3) + 1, '\0');
    const int size = EVP_EncodeBlock(reinterpret_cast<unsigned char*>(out.data()),
                                     reinterpret_cast<const unsigned char*>(bytes.data()),
                                     static_cast<int>(bytes.size()));
    out.resize(static_cast<std::size_t>(size));
    return out;
}

Result<Proxy> parse_proxy(std::string_view url) {
    const auto malformed = [] {
        return fail(Code::invalid,
                    "a proxy is SCHEME://[user:password@]host[:port]; "
                    "there are http, https, socks5 and socks5h");
    };
    const std::size_t scheme_end = std::min(url.find("://"), url.size());
    const std::string scheme = lower(url.substr(0, scheme_end));
    Proxy proxy;
    std::string_view usual_port;
    if (scheme == "socks5" || scheme == "socks5h") {
        proxy.kind = ProxyKind::socks5;
        usual_port = ":1080";
    } else if (scheme == "https") {
        proxy.kind = ProxyKind::https;
    } else if (scheme != "http") {
        return malformed();
    }
    if (scheme_end == url.size()) {
        return malformed();
    }
    std::string rest(url.substr(scheme_end + 3));
    if (const std::size_t at = rest.rfind('@'); at != std::string::npos) {
        CAPSTAN_TRY(proxy.login, parse_login(std::string_view(rest).substr(0, at), proxy.kind));
        rest.erase(0, at + 1);
    }
    const std::size_t slash = std::min(rest.find('/'), rest.size());
    const std::size_t colon = rest.rfind(':', slash);
    if (colon == std::string::npos || rest.find(']', colon) != std::string::npos) {
        rest.insert(slash, usual_port);
    }
    auto endpoint = parse_endpoint((scheme == "https" ? "https://" : "http://") + rest);
    if (!endpoint) {
        return malformed();
    }
    proxy.endpoint = std::move(endpoint).value();
    return proxy;
}

bool is_loopback(std::string_view host) {
    const std::string name = lower(host);
    return name == "localhost" || name.ends_with(".localhost") || in_range(host, "127.0.0.0/8") ||
           in_range(host, "::1/128");
}

std::string proxy_from_environment(const Endpoint& endpoint, const Environment& environment) {
    const auto read = [&](const std::string& name) {
        const std::string small = environment(lower(name)).value_or("");
        return small.empty() ? environment(name).value_or("") : small;
    };
    if (endpoint.scheme == Scheme::unix_socket || is_loopback(endpoint.host)) {
        return {};
    }
    std::string url = read(endpoint.scheme == Scheme::https ? "HTTPS_PROXY" : "HTTP_PROXY");
    if (url.empty() || is_excepted(read("NO_PROXY"), lower(endpoint.host), endpoint.port)) {
        return {};
    }
    return url.find("://") == std::string::npos ? "http://" + url : url;
}

}  // namespace capstan::net
