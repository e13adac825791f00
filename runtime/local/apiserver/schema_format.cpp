// OpenAPI string formats the API server checks (k8s.io/kube-openapi strfmt).
#include "runtime/local/apiserver/schema_internal.hpp"

#include "capstan/clock.hpp"

#include <arpa/inet.h>
#include <algorithm>
#include <array>

namespace capstan::local {

namespace {

bool is_digit(char c) {
    return c >= '0' && c <= '9';
}
bool is_hex(char c) {
    return is_digit(c) || ((c | 0x20) >= 'a' && (c | 0x20) <= 'f');
}

bool is_date(const std::string& text) {
    return parse_rfc3339(text + "T00:00:00Z").has_value() && text.size() == 10;
}

bool is_base64(const std::string& text) {
    if (text.size() % 4 != 0) {
        return false;
    }
    const std::size_t pad = text.ends_with("==") ? 2 : text.ends_with('=') ? 1 : 0;
    return std::all_of(text.begin(), text.end() - static_cast<std::ptrdiff_t>(pad), [](char c) {
        return is_digit(c) || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') || c == '+' || c == '/';
    });
}

bool is_uuid(const std::string& text) {
    std::size_t digits = 0;
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (is_hex(text[i])) {
            ++digits;
        } else if (text[i] != '-' ||
                   (digits != 8 && digits != 12 && digits != 16 && digits != 20)) {
            return false;
        }
    }
    return digits == 32;
}

bool is_address(int family, const std::string& text) {
    std::array<unsigned char, 16> bytes{};
    return inet_pton(family, text.c_str(), bytes.data()) == 1;
}

bool is_cidr(const std::string& text) {
    const std::size_t slash = text.find('/');
    if (slash == std::string::npos || slash + 1 == text.size() || text.size() - slash > 4 ||
        !std::all_of(text.begin() + static_cast<std::ptrdiff_t>(slash) + 1, text.end(), is_digit)) {
        return false;
    }
    const std::string address = text.substr(0, slash);
    const int bits = std::stoi(text.substr(slash + 1));
    return (bits <= 32 && is_address(AF_INET, address)) ||
           (bits <= 128 && is_address(AF_INET6, address));
}

bool is_uri(const std::string& text) {
    const bool printable =
        std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c != 0x7F; });
    return printable && (text.starts_with('/') || text.find(':') != std::string::npos) &&
           !text.starts_with(':');
}

bool is_hostname(const std::string& text) {
    return !text.empty() && text.size() <= 255 && std::all_of(text.begin(), text.end(), [](char c) {
        return is_digit(c) || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z') || c == '-' || c == '.';
    });
}

bool is_duration(const std::string& text) {
    return parse_duration(text).has_value();
}
bool is_date_time(const std::string& text) {
    return parse_rfc3339(text).has_value();
}
bool is_ipv4(const std::string& text) {
    return is_address(AF_INET, text);
}
bool is_ipv6(const std::string& text) {
    return is_address(AF_INET6, text);
}

struct Format {
    std::string_view name;
    bool (*matches)(const std::string&);
};

constexpr std::array<Format, 11> kFormats{
    {{"byte", is_base64},
     {"cidr", is_cidr},
     {"date", is_date},
     {"date-time", is_date_time},
     {"datetime", is_date_time},
     {"duration", is_duration},
     {"hostname", is_hostname},
     {"ipv4", is_ipv4},
     {"ipv6", is_ipv6},
     {"uri", is_uri},
     {"uuid", is_uuid}},
};

}  // namespace

bool matches_format(const std::string& format, const std::string& text) {
    for (const Format& known : kFormats) {
        if (known.name == format) {
            return known.matches(text);
        }
    }
    return true;
}

}  // namespace capstan::local
