#include "plugins/steward-bridge/restore/sha1.hpp"

#include <bit>
#include <cstddef>
#include <string>

namespace capstan::steward {
namespace {

using State = std::array<std::uint32_t, 5>;

std::uint32_t big_endian(const unsigned char* at) {
    return std::uint32_t{at[0]} << 24 | std::uint32_t{at[1]} << 16 | std::uint32_t{at[2]} << 8 |
           std::uint32_t{at[3]};
}

void add_block(State& state, const unsigned char* block) {
    std::array<std::uint32_t, 80> w{};
    for (std::size_t i = 0; i < 16; ++i) {
        w[i] = big_endian(block + 4 * i);
    }
    for (std::size_t i = 16; i < w.size(); ++i) {
        w[i] = std::rotl(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
    }
    auto [a, b, c, d, e] = state;
    for (std::size_t i = 0; i < w.size(); ++i) {
        std::uint32_t mix = 0, constant = 0;
        if (i < 20) {
            mix = (b & c) | (~b & d);
            constant = 0x5A827999;
        } else if (i < 40) {
            mix = b ^ c ^ d;
            constant = 0x6ED9EBA1;
        } else if (i < 60) {
            mix = (b & c) | (b & d) | (c & d);
            constant = 0x8F1BBCDC;
        } else {
            mix = b ^ c ^ d;
            constant = 0xCA62C1D6;
        }
        const std::uint32_t next = std::rotl(a, 5) + mix + e + constant + w[i];
        e = d;
        d = c;
        c = std::rotl(b, 30);
        b = a;
        a = next;
    }
    const State added{a, b, c, d, e};
    for (std::size_t i = 0; i < state.size(); ++i) {
        state[i] += added[i];
    }
}

}  // namespace

std::array<std::uint8_t, 20> sha1(std::string_view bytes) {
    std::string padded(bytes);
    padded += '\x80';
    padded.resize((padded.size() + 8 + 63) / 64 * 64 - 8);
    const std::uint64_t bits = std::uint64_t{bytes.size()} * 8;
    for (int shift = 56; shift >= 0; shift -= 8) {
        padded += static_cast<char>(bits >> shift);
    }
    State state{0x67452301, 0xEFCDAB89, 0x98BADCFE, 0x10325476, 0xC3D2E1F0};
    for (std::size_t at = 0; at < padded.size(); at += 64) {
        add_block(state, reinterpret_cast<const unsigned char*>(padded.data()) + at);
    }
    std::array<std::uint8_t, 20> digest{};
    for (std::size_t i = 0; i < digest.size(); ++i) {
        digest[i] = static_cast<std::uint8_t>(state[i / 4] >> (24 - 8 * (i % 4)));
    }
    return digest;
}

}  // namespace capstan::steward
