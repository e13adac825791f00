#include "plugins/steward-bridge/stream/base64.hpp"

#include <cstddef>

namespace capstan::steward {
namespace {

constexpr std::string_view kAlphabet =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

constexpr std::array<std::uint8_t, 256> values() {
    std::array<std::uint8_t, 256> out{};
    out.fill(0xff);
    for (std::size_t i = 0; i < kAlphabet.size(); ++i) {
        out[static_cast<unsigned char>(kAlphabet[i])] = static_cast<std::uint8_t>(i);
    }
    return out;
}

std::uint32_t byte_at(std::string_view bytes, std::size_t at) {
    return static_cast<unsigned char>(bytes[at]);
}

}  // namespace

constexpr std::array<std::uint8_t, 256> kBase64Values = values();

void append_base64(std::string& out, std::string_view bytes) {
    std::size_t to = out.size();
    out.resize(to + (bytes.size() + 2) / 3 * 4);
    char* const text = out.data();
    std::size_t at = 0;
    for (; at + 3 <= bytes.size(); at += 3, to += 4) {
        const std::uint32_t group =
            byte_at(bytes, at) << 16 | byte_at(bytes, at + 1) << 8 | byte_at(bytes, at + 2);
        text[to] = kAlphabet[group >> 18];
        text[to + 1] = kAlphabet[group >> 12 & 63];
        text[to + 2] = kAlphabet[group >> 6 & 63];
        text[to + 3] = kAlphabet[group & 63];
    }
    if (at == bytes.size()) {
        return;
    }
    const bool two = bytes.size() - at == 2;
    const std::uint32_t group = byte_at(bytes, at) << 16 | (two ? byte_at(bytes, at + 1) << 8 : 0);
    text[to] = kAlphabet[group >> 18];
    text[to + 1] = kAlphabet[group >> 12 & 63];
    text[to + 2] = two ? kAlphabet[group >> 6 & 63] : '=';
    text[to + 3] = '=';
}

std::string to_base64(std::string_view bytes) {
    std::string out;
    append_base64(out, bytes);
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
        const std::uint8_t value = kBase64Values[static_cast<unsigned char>(c)];
        if (value > 63) {
            return std::nullopt;
        }
        group = group << 6 | value;
        bits += 6;
        if (bits >= 8) {
            bits -= 8;
            out += static_cast<char>(group >> bits & 0xFFu);
        }
    }
    return to_base64(out) == text ? std::optional(out) : std::nullopt;
}

bool is_base64(std::string_view text) noexcept {
    if (text.size() % 4 != 0) {
        return false;
    }
    for (int padding = 0; padding < 2 && text.ends_with('='); ++padding) {
        text.remove_suffix(1);
    }
    std::uint8_t seen = 0;
    for (const char c : text) {
        seen |= kBase64Values[static_cast<unsigned char>(c)];
    }
    return seen < 64;
}

}  // namespace capstan::steward
