#include "runtime/local/cel/url.hpp"

#include <algorithm>
#include <cctype>

namespace capstan::local::cel {
namespace {

bool is_alnum(char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 && static_cast<unsigned char>(c) < 0x80;
}

int hex(char c) {
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    const char lower = static_cast<char>(c | 0x20);
    return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

enum class Part { path, host, zone, user, query };

// Characters a host may hold unescaped; "%" is looked at before.
bool fits_host(char c) {
    return is_alnum(c) || std::string_view("-_.~!$&'()*+,;=:[]<>\"").find(c) != std::string::npos ||
           static_cast<unsigned char>(c) >= 0x80;
}

std::optional<std::string> unescape(std::string_view text, Part part) {
    std::string out;
    for (std::size_t i = 0; i < text.size(); ++i) {
        const char c = text[i];
        if (c == '%') {
            const int high = i + 2 < text.size() ? hex(text[i + 1]) : -1;
            const int low = i + 2 < text.size() ? hex(text[i + 2]) : -1;
            if (high < 0 || low < 0) {
                return std::nullopt;
            }
            const bool percent = text.substr(i, 3) == "%25";
            if (part == Part::host && high < 8 && !percent) {
                return std::nullopt;  // a host escapes nothing but other than ASCII
            }
            const char byte = static_cast<char>(high * 16 + low);
            if (part == Part::zone && !percent && byte != ' ' && !fits_host(byte)) {
                return std::nullopt;
            }
            out += byte;
            i += 2;
        } else if ((part == Part::host || part == Part::zone) && !fits_host(c)) {
            return std::nullopt;
        } else {
            out += part == Part::query && c == '+' ? ' ' : c;
        }
    }
    return out;
}

// "" or ":" and digits.
bool is_port(std::string_view text) {
    return text.empty() ||
           (text.front() == ':' &&
            std::all_of(text.begin() + 1, text.end(), [](char c) { return c >= '0' && c <= '9'; }));
}

std::optional<std::string> read_host(std::string_view host) {
    if (host.starts_with('[')) {
        const std::size_t end = host.rfind(']');
        if (end == std::string_view::npos || !is_port(host.substr(end + 1))) {
            return std::nullopt;
        }
        const std::size_t zone = host.substr(0, end).find("%25");
        if (zone != std::string_view::npos) {
            const auto first = unescape(host.substr(0, zone), Part::host);
            const auto second = unescape(host.substr(zone, end - zone), Part::zone);
            const auto third = unescape(host.substr(end), Part::host);
            if (!first || !second || !third) {
                return std::nullopt;
            }
            return *first + *second + *third;
        }
    } else if (const std::size_t colon = host.rfind(':');
               colon != std::string_view::npos && !is_port(host.substr(colon))) {
        return std::nullopt;
    }
    return unescape(host, Part::host);
}

bool is_user(std::string_view user) {
    return std::all_of(user.begin(),
                       user.end(),
                       [](char c) {
                           return is_alnum(c) || std::string_view("-._:~!$&'()*+,;=%@").find(c) !=
                                                     std::string_view::npos;
                       }) &&
           unescape(user, Part::user).has_value();
}

bool read_authority(std::string_view authority, Url& url) {
    const std::size_t at = authority.rfind('@');
    if (at != std::string_view::npos) {
        if (!is_user(authority.substr(0, at))) {
            return false;
        }
        authority.remove_prefix(at + 1);
    }
    auto host = read_host(authority);
    if (!host) {
        return false;
    }
    url.host = std::move(*host);
    return true;
}

// Takes "https:" off the front. false: a colon with nothing before it.
bool take_scheme(std::string_view& rest, Url& url) {
    for (std::size_t i = 0; i < rest.size(); ++i) {
        const char c = rest[i];
        const bool later = (c >= '0' && c <= '9') || c == '+' || c == '-' || c == '.';
        if (c == ':') {
            if (i == 0) {
                return false;
            }
            for (const char letter : rest.substr(0, i)) {
                url.scheme += static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
            }
            rest.remove_prefix(i + 1);
            return true;
        }
        if (!(is_alnum(c) || later) || (later && i == 0)) {
            return true;
        }
    }
    return true;
}

void read_query(std::string_view text, Url& url) {
    while (!text.empty()) {
        const std::size_t end = std::min(text.find('&'), text.size());
        const std::string_view pair = text.substr(0, end);
        text.remove_prefix(std::min(end + 1, text.size()));
        const std::size_t sign = std::min(pair.find('='), pair.size());
        const auto key = unescape(pair.substr(0, sign), Part::query);
        const auto value = unescape(pair.substr(std::min(sign + 1, pair.size())), Part::query);
        if (!pair.empty() && pair.find(';') == std::string_view::npos && key && value) {
            url.query.emplace_back(*key, *value);
        }
    }
}

}  // namespace

std::string Url::hostname() const {
    const std::size_t end = host.rfind(']');
    if (host.starts_with('[') && end != std::string::npos) {
        return host.substr(1, end - 1);
    }
    const std::size_t colon = host.rfind(':');
    return host.substr(0, colon);
}

std::string Url::port() const {
    const std::size_t end = host.rfind(']');
    const std::size_t colon = host.rfind(':');
    const bool inside = end != std::string::npos && (colon == std::string::npos || colon < end);
    return colon == std::string::npos || inside ? std::string() : host.substr(colon + 1);
}

std::optional<Url> parse_url(std::string_view text) {
    const bool controls = std::any_of(text.begin(), text.end(), [](char c) {
        return static_cast<unsigned char>(c) < ' ' || c == 0x7F;
    });
    if (text.empty() || controls) {
        return std::nullopt;
    }
    Url url;
    url.text = text;
    std::string_view rest = text;
    if (text == "*") {
        url.path = "*";
        return url;
    }
    if (!take_scheme(rest, url)) {
        return std::nullopt;
    }
    if (const std::size_t mark = rest.find('?'); mark != std::string_view::npos) {
        read_query(rest.substr(mark + 1), url);
        rest = rest.substr(0, mark);
    }
    if (!rest.starts_with('/')) {
        if (url.scheme.empty()) {
            return std::nullopt;
        }
        return url;  // opaque: "mailto:x"
    }
    if (!url.scheme.empty() && rest.starts_with("//")) {
        const std::size_t end = std::min(rest.find('/', 2), rest.size());
        if (!read_authority(rest.substr(2, end - 2), url)) {
            return std::nullopt;
        }
        rest.remove_prefix(end);
    }
    if (!unescape(rest, Part::path)) {
        return std::nullopt;
    }
    url.path = rest;
    return url;
}

}  // namespace capstan::local::cel
