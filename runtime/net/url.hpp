// Percent-encoding and query strings (RFC 3986, and "+" as a space in queries
// as browsers and Go do).
#pragma once

#include "capstan/error.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace capstan::net {

// one path segment: all but unreserved characters escaped
std::string encode_segment(std::string_view text);
// a query key or value: as above, space is %20
std::string encode_query_value(std::string_view text);
// Errors: invalid ("%" not followed by two hex digits, or a zero byte).
Result<std::string> decode_segment(std::string_view text);
Result<std::string> decode_query_value(std::string_view text);

using Query = std::vector<std::pair<std::string, std::string>>;  // in order; repeats allowed
std::string build_query(const Query& query);                     // "a=1&b=x%20y", "" when empty
Result<Query> parse_query(std::string_view text);  // without the "?"; "a" is {"a", ""}
// First value of `key`; "" when absent.
std::string_view find_query(const Query& query, std::string_view key) noexcept;
bool has_query(const Query& query, std::string_view key) noexcept;

struct Target {
    std::string path;  // as sent, still escaped; starts with "/"
    Query query;       // decoded
};
// Splits a request target. Errors: invalid (not origin form, bad escape).
Result<Target> parse_target(std::string_view target);

enum class Scheme : std::uint8_t { http, https, unix_socket };
struct Endpoint {
    Scheme scheme{Scheme::http};
    std::string host;  // without brackets; the path of a unix socket
    std::uint16_t port{0};
};
// "https://[::1]:6443", "http://db", "unix:///run/x.sock"; default ports 80 and 443; a
// lone "/" path is accepted.
// Errors: invalid.
Result<Endpoint> parse_endpoint(std::string_view text);
// "::1", 6443 -> "[::1]:6443".
std::string join_host_port(std::string_view host, std::uint16_t port);
bool is_ip_address(std::string_view text) noexcept;  // IPv4 or IPv6 text, without brackets

}  // namespace capstan::net
