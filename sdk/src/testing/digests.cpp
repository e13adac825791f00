// capstan.digest/1 of the fake host: plain implementations, so that the SDK needs no cryptographic
// library. Not for anything but tests. Sources: FIPS 180-4, RFC 1321, RFC 2104, RFC 3720 (CRC32C).
#include "fake_state.hpp"

#include <array>
#include <bit>
#include <cmath>
#include <cstring>

namespace capstan::testing {

namespace {

using Words8 = std::array<std::uint32_t, 8>;
constexpr std::size_t kBlockBytes = 64;

constexpr std::uint32_t kShaConstants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

std::uint32_t big(const unsigned char* p) noexcept {
    return std::uint32_t{p[0]} << 24U | std::uint32_t{p[1]} << 16U | std::uint32_t{p[2]} << 8U |
           p[3];
}
std::uint32_t little(const unsigned char* p) noexcept {
    return std::uint32_t{p[3]} << 24U | std::uint32_t{p[2]} << 16U | std::uint32_t{p[1]} << 8U |
           p[0];
}

void sha_block(Words8& state, const unsigned char* block) noexcept {
    std::uint32_t w[64];
    for (int i = 0; i < 16; ++i) {
        w[i] = big(block + 4 * i);
    }
    for (int i = 16; i < 64; ++i) {
        const std::uint32_t a =
            std::rotr(w[i - 15], 7) ^ std::rotr(w[i - 15], 18) ^ (w[i - 15] >> 3U);
        const std::uint32_t b =
            std::rotr(w[i - 2], 17) ^ std::rotr(w[i - 2], 19) ^ (w[i - 2] >> 10U);
        w[i] = w[i - 16] + a + w[i - 7] + b;
    }
    Words8 s = state;
    for (int i = 0; i < 64; ++i) {
        const std::uint32_t s1 = std::rotr(s[4], 6) ^ std::rotr(s[4], 11) ^ std::rotr(s[4], 25);
        const std::uint32_t t1 =
            s[7] + s1 + ((s[4] & s[5]) ^ (~s[4] & s[6])) + kShaConstants[i] + w[i];
        const std::uint32_t s0 = std::rotr(s[0], 2) ^ std::rotr(s[0], 13) ^ std::rotr(s[0], 22);
        const std::uint32_t t2 = s0 + ((s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]));
        s = {t1 + t2, s[0], s[1], s[2], s[3] + t1, s[4], s[5], s[6]};
    }
    for (std::size_t i = 0; i < 8; ++i) {
        state[i] += s[i];
    }
}

void md5_block(Words8& state, const unsigned char* block) noexcept {
    static constexpr int kShifts[4][4] = {
        {7, 12, 17, 22}, {5, 9, 14, 20}, {4, 11, 16, 23}, {6, 10, 15, 21}};
    std::uint32_t a = state[0], b = state[1], c = state[2], d = state[3];
    for (int i = 0; i < 64; ++i) {
        std::uint32_t mix = 0;
        int word = i;
        switch (i / 16) {
            case 0: mix = (b & c) | (~b & d); break;
            case 1:
                mix = (d & b) | (~d & c);
                word = (5 * i + 1) % 16;
                break;
            case 2:
                mix = b ^ c ^ d;
                word = (3 * i + 5) % 16;
                break;
            default:
                mix = c ^ (b | ~d);
                word = (7 * i) % 16;
                break;
        }
        const auto constant =
            static_cast<std::uint32_t>(std::floor(std::fabs(std::sin(i + 1.0)) * 4294967296.0));
        mix += a + constant + little(block + 4 * word);
        a = d;
        d = c;
        c = b;
        b += std::rotl(mix, kShifts[i / 16][i % 4]);
    }
    state[0] += a;
    state[1] += b;
    state[2] += c;
    state[3] += d;
}

// Merkle–Damgård padding shared by both; `big_end`: sha256.
std::string block_digest(std::string text, bool big_end) {
    constexpr Words8 kSha = {
        0x6a09e667,
        0xbb67ae85,
        0x3c6ef372,
        0xa54ff53a,
        0x510e527f,
        0x9b05688c,
        0x1f83d9ab,
        0x5be0cd19,
    };
    constexpr Words8 kMd5 = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476};
    Words8 state = big_end ? kSha : kMd5;
    const std::uint64_t bits = std::uint64_t{text.size()} * 8;
    text += '\x80';
    text.append((kBlockBytes + 56 - text.size() % kBlockBytes) % kBlockBytes, '\0');
    for (int i = 0; i < 8; ++i) {
        text += static_cast<char>(bits >> static_cast<unsigned>(big_end ? 56 - 8 * i : 8 * i));
    }
    for (std::size_t at = 0; at < text.size(); at += kBlockBytes) {
        const auto* block = reinterpret_cast<const unsigned char*>(text.data() + at);
        big_end ? sha_block(state, block) : md5_block(state, block);
    }
    std::string digest;
    for (int i = 0; i < (big_end ? 32 : 16); ++i) {
        const int shift = big_end ? 24 - 8 * (i % 4) : 8 * (i % 4);
        digest += static_cast<char>(state[static_cast<std::size_t>(i / 4)] >>
                                    static_cast<unsigned>(shift));
    }
    return digest;
}

std::string hmac_sha256(std::string key, const std::string& text) {
    if (key.size() > kBlockBytes) {
        key = block_digest(std::move(key), true);
    }
    key.resize(kBlockBytes, '\0');
    std::string inner, outer;
    for (const char c : key) {
        inner += static_cast<char>(c ^ 0x36);
        outer += static_cast<char>(c ^ 0x5c);
    }
    return block_digest(outer + block_digest(inner + text, true), true);
}

std::string crc32c(const std::string& text) {
    std::uint32_t crc = ~0U;
    for (const char c : text) {
        crc ^= static_cast<unsigned char>(c);
        for (int i = 0; i < 8; ++i) {
            crc = crc >> 1U ^ (0x82f63b78U & (0U - (crc & 1U)));
        }
    }
    crc = ~crc;
    return {static_cast<char>(crc >> 24U),
            static_cast<char>(crc >> 16U),
            static_cast<char>(crc >> 8U),
            static_cast<char>(crc)};
}

struct FakeHash {
    std::int32_t algorithm{0};
    std::string key, text;
};

FakeHash* to_fake(capstan_hash* hash) noexcept {
    return reinterpret_cast<FakeHash*>(hash);
}

capstan_rc open(const capstan_host*,
                std::int32_t algorithm,
                capstan_str key,
                capstan_hash** out) noexcept {
    if (algorithm < CAPSTAN_DIGEST_SHA256 || algorithm > CAPSTAN_DIGEST_CRC32C) {
        return CAPSTAN_E_UNSUPP;
    }
    auto hash = std::make_unique<FakeHash>();
    hash->algorithm = algorithm;
    hash->key = view(key);
    *out = reinterpret_cast<capstan_hash*>(hash.release());
    return CAPSTAN_OK;
}

capstan_rc update(capstan_hash* hash, capstan_str bytes) noexcept {
    to_fake(hash)->text += view(bytes);
    return CAPSTAN_OK;
}

capstan_rc finish(capstan_hash* raw, std::uint8_t* out, std::uint32_t* out_len) noexcept {
    const std::unique_ptr<FakeHash> hash(to_fake(raw));
    std::string digest;
    switch (hash->algorithm) {
        case CAPSTAN_DIGEST_SHA256: digest = block_digest(hash->text, true); break;
        case CAPSTAN_DIGEST_MD5: digest = block_digest(hash->text, false); break;
        case CAPSTAN_DIGEST_HMAC_SHA256: digest = hmac_sha256(hash->key, hash->text); break;
        default: digest = crc32c(hash->text); break;
    }
    std::memcpy(out, digest.data(), digest.size());
    *out_len = static_cast<std::uint32_t>(digest.size());
    return CAPSTAN_OK;
}

}  // namespace

const void* fake_digest_extension() noexcept {
    static const capstan_ext_digest kDigest{
        {sizeof(capstan_ext_digest), CAPSTAN_ABI}, &open, &update, &finish};
    return &kDigest;
}

}  // namespace capstan::testing
