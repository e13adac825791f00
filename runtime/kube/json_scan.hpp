// Inside of runtime/kube: eight bytes of a JSON string at a time.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

namespace capstan::kube::scan {

constexpr std::uint64_t each_byte(unsigned char byte) noexcept {
    return 0x0101010101010101u * byte;
}
// The high bit of each byte of `word` that is zero; bytes above the first one found may lie.
constexpr std::uint64_t zero_bytes(std::uint64_t word) noexcept {
    return (word - each_byte(1)) & ~word & each_byte(0x80);
}

// First byte at or after `at` that a string cannot just contain: a quote, a backslash, a control
// character, a byte above ASCII; `end` when there is none.
inline const char* plain_end(const char* at, const char* end) noexcept {
    static_assert(std::endian::native == std::endian::little);
    while (end - at >= 8) {
        std::uint64_t word = 0;
        std::memcpy(&word, at, sizeof word);
        const std::uint64_t special =
            zero_bytes(word ^ each_byte('"')) | zero_bytes(word ^ each_byte('\\')) |
            ((word - each_byte(0x20)) & ~word & each_byte(0x80)) | (word & each_byte(0x80));
        if (special != 0) {
            return at + std::countr_zero(special) / 8;
        }
        at += 8;
    }
    while (at < end && *at != '"' && *at != '\\' && static_cast<unsigned char>(*at) >= 0x20 &&
           static_cast<unsigned char>(*at) < 0x80) {
        ++at;
    }
    return at;
}

}  // namespace capstan::kube::scan
