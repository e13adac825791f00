#include "plugins/steward-bridge/store/encoding.hpp"

#include <algorithm>
#include <array>
#include <cstdint>

namespace capstan::steward {
namespace {

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
