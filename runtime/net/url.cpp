#include "runtime/net/url.hpp"

#include <arpa/inet.h>

#include <algorithm>
#include <array>
#include <charconv>

namespace capstan::net {

namespace {

bool unreserved(char c) noexcept {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '.' || c == '_' || c == '~';
}

std::string encode(std::string_view text) {
    static constexpr std::string_view kHex = "0123456789ABCDEF";
    std::string out;
    out.reserve(text.size());
    for (const char c : text) {
        if (unreserved(c)) {
            out += c;
            continue;
        }
        const auto byte = static_cast<unsigned char>(c);
        out += '%';
        out += kHex[byte >> 4];
        out += kHex[byte & 0xF];
    }
    return out;
}

int hex_digit(char c) noexcept {
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    if (c >= 'a' && c <= 'f') {
        return c - 'a' + 10;
    }
    if (c >= 'A' && c <= 'F') {
        return c - 'A' + 10;
    }
    return -1;
}

Result<std::string> decode(std::string_view text, bool plus_is_space) {
    std::string out;
    out.reserve(text.size());
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (text[i] == '+' && plus_is_space) {
            out += ' ';
            continue;
        }
        if (text[i] == '\0') {
            return fail(Code::invalid, "zero byte in \"" + std::string(text) + "\"");
        }
        if (text[i] != '%') {
            out += text[i];
            continue;
        }
        const int high = i + 1 < text.size() ? hex_digit(text[i + 1]) : -1;
        const int low = i + 2 < text.size() ? hex_digit(text[i + 2]) : -1;
        if (high < 0 || low < 0) {
            return fail(Code::invalid, "malformed percent escape in \"" + std::string(text) + "\"");
        }
        if (high == 0 && low == 0) {
            return fail(Code::invalid, "zero byte in \"" + std::string(text) + "\"");
        }
        out += static_cast<char>(high * 16 + low);
        i += 2;
    }
    return out;
}

// "host:port", "[v6]:port" or without port. `port` keeps its value when absent.
bool split_host_port(std::string_view text, std::string& host, std::uint16_t& port) {
    std::string_view rest;
    if (text.starts_with('[')) {
        const std::size_t close = text.find(']');
        if (close == std::string_view::npos) {
            return false;
        }
        host = text.substr(1, close - 1);
        rest = text.substr(close + 1);
        if (host.find(':') == std::string::npos) {
            return false;
        }
    } else {
        const std::size_t colon = std::min(text.find(':'), text.size());
        host = text.substr(0, colon);
        rest = text.substr(colon);
        if (std::any_of(host.begin(), host.end(), [](char c) { return !unreserved(c); })) {
            return false;
        }
    }
    if (host.empty()) {
        return false;
    }
    if (rest.empty()) {
        return true;
    }
    rest.remove_prefix(1);
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), port);
    return error == std::errc{} && end == rest.data() + rest.size() && port != 0;
}

}  // namespace

std::string encode_segment(std::string_view text) {
    return encode(text);
}
std::string encode_query_value(std::string_view text) {
    return encode(text);
}
Result<std::string> decode_segment(std::string_view text) {
    return decode(text, false);
}
Result<std::string> decode_query_value(std::string_view text) {
    return decode(text, true);
}

std::string build_query(const Query& query) {
    std::string out;
    for (const auto& [key, value] : query) {
        out += out.empty() ? "" : "&";
        out += encode(key) + "=" + encode(value);
    }
    return out;
}

Result<Query> parse_query(std::string_view text) {
    Query query;
    while (!text.empty()) {
        const std::size_t end = std::min(text.find('&'), text.size());
        const std::string_view item = text.substr(0, end);
        text.remove_prefix(std::min(end + 1, text.size()));
        if (item.empty()) {
            continue;
        }
        const std::size_t equals = std::min(item.find('='), item.size());
        CAPSTAN_TRY(auto key, decode(item.substr(0, equals), true));
        CAPSTAN_TRY(
            auto value,
            decode(equals < item.size() ? item.substr(equals + 1) : std::string_view(), true));
        query.emplace_back(std::move(key), std::move(value));
    }
    return query;
}

std::string_view find_query(const Query& query, std::string_view key) noexcept {
    for (const auto& [name, value] : query) {
        if (name == key) {
            return value;
        }
    }
    return {};
}

bool has_query(const Query& query, std::string_view key) noexcept {
    return std::any_of(
        query.begin(), query.end(), [&](const auto& entry) { return entry.first == key; });
}

Result<Target> parse_target(std::string_view target) {
    if (!target.starts_with('/')) {
        return fail(Code::invalid, "request target does not start with \"/\"");
    }
    target = target.substr(0, target.find('#'));
    const std::size_t mark = std::min(target.find('?'), target.size());
    Target result;
    result.path = target.substr(0, mark);
    if (mark < target.size()) {
        CAPSTAN_TRY(result.query, parse_query(target.substr(mark + 1)));
    }
    return result;
}

Result<Endpoint> parse_endpoint(std::string_view text) {
    const auto refuse = [&](std::string_view why) {
        return fail(Code::invalid, "endpoint \"" + std::string(text) + "\": " + std::string(why));
    };
    Endpoint endpoint;
    std::string_view rest = text;
    if (rest.starts_with("unix://")) {
        rest.remove_prefix(7);
        if (!rest.starts_with('/')) {
            return refuse("expected unix:///absolute/path");
        }
        if (rest.size() > 107) {
            return refuse("a socket path has at most 107 bytes");
        }
        endpoint.scheme = Scheme::unix_socket;
        endpoint.host = rest;
        return endpoint;
    }
    if (rest.starts_with("https://")) {
        rest.remove_prefix(8);
        endpoint.scheme = Scheme::https;
        endpoint.port = 443;
    } else if (rest.starts_with("http://")) {
        rest.remove_prefix(7);
        endpoint.port = 80;
    } else {
        return refuse("expected http://, https:// or unix://");
    }
    if (rest.ends_with('/')) {
        rest.remove_suffix(1);
    }
    if (rest.find('/') != std::string_view::npos) {
        return refuse("a path is not allowed here");
    }
    if (!split_host_port(rest, endpoint.host, endpoint.port)) {
        return refuse("expected HOST[:PORT]");
    }
    return endpoint;
}

std::string join_host_port(std::string_view host, std::uint16_t port) {
    const bool v6 = host.find(':') != std::string_view::npos;
    std::string out = v6 ? "[" + std::string(host) + "]" : std::string(host);
    return out + ":" + std::to_string(port);
}

bool is_ip_address(std::string_view text) noexcept {
    std::array<char, INET6_ADDRSTRLEN + 1> buffer{};
    if (text.empty() || text.size() >= buffer.size()) {
        return false;
    }
    std::copy(text.begin(), text.end(), buffer.begin());
    std::array<unsigned char, 16> address{};
    return ::inet_pton(AF_INET, buffer.data(), address.data()) == 1 ||
           ::inet_pton(AF_INET6, buffer.data(), address.data()) == 1;
}

}  // namespace capstan::net
