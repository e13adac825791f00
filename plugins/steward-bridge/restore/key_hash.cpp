#include "plugins/steward-bridge/restore/key_hash.hpp"

#include "capstan/error.hpp"

#include <sys/random.h>

#include <bit>
#include <cstddef>
#include <cstring>

namespace capstan::steward {
namespace {

struct Sip {
    std::uint64_t a, b, c, d;

    Sip(std::uint64_t k0, std::uint64_t k1)
        : a(k0 ^ 0x736f6d6570736575ULL),
          b(k1 ^ 0x646f72616e646f6dULL),
          c(k0 ^ 0x6c7967656e657261ULL),
          d(k1 ^ 0x7465646279746573ULL) {}

    void round() {
        a += b;
        c += d;
        b = std::rotl(b, 13) ^ a;
        d = std::rotl(d, 16) ^ c;
        a = std::rotl(a, 32);
        a += d;
        c += b;
        d = std::rotl(d, 21) ^ a;
        b = std::rotl(b, 17) ^ c;
        c = std::rotl(c, 32);
    }

    void add(std::uint64_t word) {
        d ^= word;
        round();
        a ^= word;
    }

    std::uint64_t finish() {
        c ^= 0xFF;
        round();
        round();
        round();
        return a ^ b ^ c ^ d;
    }
};

std::uint64_t sip(std::uint64_t k0, std::uint64_t k1, std::string_view key) {
    Sip state(k0, k1);
    const std::uint64_t last = std::uint64_t{key.size()} << 56;
    while (key.size() >= 8) {
        std::uint64_t word = 0;
        std::memcpy(&word, key.data(), 8);
        state.add(word);
        key.remove_prefix(8);
    }
    std::uint64_t rest = 0;
    if (!key.empty()) {
        std::memcpy(&rest, key.data(), key.size());
    }
    state.add(last | rest);
    return state.finish();
}

}  // namespace

KeyHash::KeyHash() {
    const ssize_t got = ::getrandom(secret_.data(), sizeof secret_, 0);
    CAPSTAN_CHECK(got == static_cast<ssize_t>(sizeof secret_), "no random numbers");
}

std::uint64_t KeyHash::of(std::string_view key) const {
    return sip(secret_[0], secret_[1], key);
}

std::array<std::uint64_t, 2> KeyHash::wide(std::string_view key) const {
    return {sip(secret_[0], secret_[1], key), sip(secret_[2], secret_[3], key)};
}

}  // namespace capstan::steward
