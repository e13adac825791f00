#include "runtime/cli/pod_tokens.hpp"

#include "capstan/json.hpp"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <array>

namespace capstan::cli {
namespace {

constexpr std::string_view kPrefix = "capstan.";
constexpr std::size_t kTokenBytesMax = 4096;

std::string hex(std::string_view bytes) {
    constexpr std::string_view kDigits = "0123456789abcdef";
    std::string out;
    for (const char c : bytes) {
        out += kDigits[static_cast<unsigned char>(c) >> 4U];
        out += kDigits[static_cast<unsigned char>(c) & 15U];
    }
    return out;
}

std::optional<std::string> unhex(std::string_view text) {
    std::string out;
    for (std::size_t i = 0; i + 1 < text.size(); i += 2) {
        unsigned value = 0;
        for (const char c : text.substr(i, 2)) {
            if (c >= '0' && c <= '9') {
                value = value * 16 + static_cast<unsigned>(c - '0');
            } else if (c >= 'a' && c <= 'f') {
                value = value * 16 + static_cast<unsigned>(c - 'a' + 10);
            } else {
                return std::nullopt;
            }
        }
        out += static_cast<char>(value);
    }
    return text.size() % 2 == 0 ? std::optional(out) : std::nullopt;
}

std::string sign(std::string_view key, std::string_view claims) {
    std::array<unsigned char, EVP_MAX_MD_SIZE> raw{};
    unsigned length = 0;
    HMAC(EVP_sha256(),
         key.data(),
         static_cast<int>(key.size()),
         reinterpret_cast<const unsigned char*>(claims.data()),
         claims.size(),
         raw.data(),
         &length);
    return hex(std::string_view(reinterpret_cast<const char*>(raw.data()), length));
}

}  // namespace

std::string PodTokens::issue(const PodIdentity& identity) const {
    const std::string claims = hex(json::dump({{"ns", identity.ns},
                                               {"sa", identity.service_account},
                                               {"pod", identity.pod},
                                               {"uid", identity.uid}}));
    return std::string(kPrefix) + claims + "." + sign(key_, claims);
}

std::optional<PodIdentity> PodTokens::verify(std::string_view token) const {
    if (token.size() > kTokenBytesMax || token.substr(0, kPrefix.size()) != kPrefix) {
        return std::nullopt;
    }
    token.remove_prefix(kPrefix.size());
    const std::size_t dot = token.find('.');
    if (dot == std::string_view::npos) {
        return std::nullopt;
    }
    const std::string_view claims = token.substr(0, dot), given = token.substr(dot + 1);
    const std::string expected = sign(key_, claims);
    if (given.size() != expected.size() ||
        CRYPTO_memcmp(given.data(), expected.data(), expected.size()) != 0) {
        return std::nullopt;
    }
    const auto text = unhex(claims);
    const auto parsed =
        text ? json::parse(*text) : Result<json::Value>(fail(Code::invalid, "claims"));
    if (!parsed) {
        return std::nullopt;
    }
    const json::View view(parsed.value());
    return PodIdentity{std::string(view["ns"].string_or("")),
                       std::string(view["sa"].string_or("")),
                       std::string(view["pod"].string_or("")),
                       std::string(view["uid"].string_or(""))};
}

}  // namespace capstan::cli
