#include "plugins/steward-bridge/store/encoding.hpp"

#include <algorithm>
#include <array>
#include <cstdint>

namespace capstan::steward {
namespace {

constexpr std::string_view kBase64 =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
constexpr std::size_t kQuotedBytesMax = 512;

constexpr bool is_plain(char c) {
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '.' || c == '_' || c == '~';
}

int hex_digit(char c) {
    if (c >= '0' && c <= '9') {
        return c - '0';
    }
    if (c >= 'a' && c <= 'f') {
        return c - 'a' + 10;
    }
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

}  // namespace

std::string to_hex(std::string_view bytes) {
    constexpr std::string_view digits = "0123456789abcdef";
    std::string out;
    out.reserve(bytes.size() * 2);
    for (const char c : bytes) {
        const auto byte = static_cast<unsigned char>(c);
        out += digits[byte >> 4];
        out += digits[byte & 15];
    }
    return out;
}

std::string to_base64(std::string_view bytes) {
    std::string out;
    out.reserve((bytes.size() + 2) / 3 * 4);
    for (std::size_t i = 0; i < bytes.size(); i += 3) {
        const std::size_t count = std::min<std::size_t>(bytes.size() - i, 3);
        std::uint32_t group = 0;
        for (std::size_t k = 0; k < 3; ++k) {
            group = group << 8 | (k < count ? static_cast<unsigned char>(bytes[i + k]) : 0u);
        }
        for (std::size_t k = 0; k < 4; ++k) {
            out += k <= count ? kBase64[group >> (18 - 6 * k) & 63] : '=';
        }
    }
    return out;
}

std::optional<std::string> from_base64(std::string_view text) {
    std::string out;
    std::uint32_t group = 0;
    int bits = 0;
    std::string_view digits = text;
    while (digits.ends_with('=') && text.size() - digits.size() < 2) {
        digits.remove_suffix(1);
    }
    for (const char c : digits) {
        const std::size_t value = kBase64.find(c);
        if (value == std::string_view::npos) {
            return std::nullopt;
        }
        group = group << 6 | static_cast<std::uint32_t>(value);
        bits += 6;
        if (bits >= 8) {
            bits -= 8;
            out += static_cast<char>(group >> bits & 0xFFu);
        }
    }
    return to_base64(out) == text ? std::optional(out) : std::nullopt;
}

std::string uri_encode(std::string_view text, bool keep_slash) {
    constexpr std::string_view digits = "0123456789ABCDEF";
    std::string out;
    for (const char c : text) {
        if (is_plain(c) || (c == '/' && keep_slash)) {
            out += c;
        } else {
            const auto byte = static_cast<unsigned char>(c);
            out += '%';
            out += digits[byte >> 4];
            out += digits[byte & 15];
        }
    }
    return out;
}

std::optional<std::string> uri_decode(std::string_view text) {
    std::string out;
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (text[i] != '%') {
            out += text[i];
            continue;
        }
        const int high = i + 2 < text.size() ? hex_digit(text[i + 1]) : -1;
        const int low = i + 2 < text.size() ? hex_digit(text[i + 2]) : -1;
        if (high < 0 || low < 0) {
            return std::nullopt;
        }
        out += static_cast<char>(high * 16 + low);
        i += 2;
    }
    return out;
}

std::string to_amz_date(WallTime time) {
    std::string out = to_rfc3339(time);  // 2026-01-02T03:04:05Z
    std::erase(out, '-');
    std::erase(out, ':');
    return out;
}

std::optional<WallTime> parse_http_date(std::string_view text) {
    constexpr std::array<std::string_view, 12> months{
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
    if (text.size() != 29 || !text.ends_with(" GMT")) {
        return std::nullopt;
    }
    const auto month = std::find(months.begin(), months.end(), text.substr(8, 3));
    if (month == months.end()) {
        return std::nullopt;
    }
    const std::string number = std::to_string(month - months.begin() + 101).substr(1);
    return parse_rfc3339(std::string(text.substr(12, 4)) + "-" + number + "-" +
                         std::string(text.substr(5, 2)) + "T" + std::string(text.substr(17, 8)) +
                         "Z");
}

std::string quote_foreign(std::string_view text) {
    std::string out(text.substr(0, kQuotedBytesMax));
    std::replace_if(
        out.begin(), out.end(), [](char c) { return c >= 0 && (c < ' ' || c == 127); }, '?');
    return "\"" + out + "\"";
}

}  // namespace capstan::steward
