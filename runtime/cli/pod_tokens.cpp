#include "runtime/cli/pod_tokens.hpp"

#include "capstan/json.hpp"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <array>
#include <chrono>

namespace capstan::cli {
namespace {

constexpr std::size_t kTokenBytesMax = 4096;
constexpr std::string_view kIssuer = "https://kubernetes.default.svc";

std::int64_t seconds_of(WallTime time) {
    return std::chrono::duration_cast<std::chrono::seconds>(time.time_since_epoch()).count();
}

// RFC 4648 section 5, without padding.
std::string base64url(std::string_view bytes) {
    std::string out((bytes.size() + 2) / 3 * 4 + 1, '\0');
    const int length = EVP_EncodeBlock(reinterpret_cast<unsigned char*>(out.data()),
                                       reinterpret_cast<const unsigned char*>(bytes.data()),
                                       static_cast<int>(bytes.size()));
    out.resize(static_cast<std::size_t>(length));
    for (char& c : out) {
        c = c == '+' ? '-' : c == '/' ? '_' : c;
    }
    out.resize(std::min(out.find('='), out.size()));
    return out;
}

std::optional<std::string> from_base64url(std::string_view text) {
    std::string padded(text);
    for (char& c : padded) {
        c = c == '-' ? '+' : c == '_' ? '/' : c;
    }
    const std::size_t missing = (4 - padded.size() % 4) % 4;
    padded.append(missing, '=');
    std::string out(padded.size(), '\0');
    const int length = EVP_DecodeBlock(reinterpret_cast<unsigned char*>(out.data()),
                                       reinterpret_cast<const unsigned char*>(padded.data()),
                                       static_cast<int>(padded.size()));
    if (length < 0 || missing > 2) {
        return std::nullopt;
    }
    out.resize(static_cast<std::size_t>(length) - missing);
    return out;
}

std::string sign(std::string_view key, std::string_view text) {
    std::array<unsigned char, EVP_MAX_MD_SIZE> raw{};
    unsigned length = 0;
    HMAC(EVP_sha256(),
         key.data(),
         static_cast<int>(key.size()),
         reinterpret_cast<const unsigned char*>(text.data()),
         text.size(),
         raw.data(),
         &length);
    return base64url(std::string_view(reinterpret_cast<const char*>(raw.data()), length));
}

}  // namespace

std::string PodTokens::issue(const PodIdentity& identity,
                             WallTime issued,
                             std::optional<WallTime> expires) const {
    json::Value about = {{"namespace", identity.ns},
                         {"serviceaccount", {{"name", identity.service_account}}}};
    if (!identity.pod.empty()) {
        about.set("pod", {{"name", identity.pod}, {"uid", identity.uid}});
    }
    json::Value claims = {
        {"iss", kIssuer},
        {"aud", json::list({kIssuer})},
        {"sub", "system:serviceaccount:" + identity.ns + ":" + identity.service_account},
        {"iat", seconds_of(issued)},
        {"nbf", seconds_of(issued)},
        {"kubernetes.io", std::move(about)},
    };
    if (expires) {
        claims.set("exp", seconds_of(*expires));
    }
    const std::string text = base64url(json::dump({{"alg", "HS256"}, {"typ", "JWT"}})) + "." +
                             base64url(json::dump(claims));
    return text + "." + sign(key_, text);
}

std::optional<PodIdentity> PodTokens::verify(std::string_view token, WallTime now) const {
    const std::size_t last = token.rfind('.');
    const std::size_t first = token.find('.');
    if (token.size() > kTokenBytesMax || last == std::string_view::npos || first == last) {
        return std::nullopt;
    }
    // The text of the signature is compared, so that it has one spelling only.
    const std::string_view given = token.substr(last + 1);
    const std::string expected = sign(key_, token.substr(0, last));
    if (given.size() != expected.size() ||
        CRYPTO_memcmp(given.data(), expected.data(), expected.size()) != 0) {
        return std::nullopt;
    }
    const auto text = from_base64url(token.substr(first + 1, last - first - 1));
    const auto parsed =
        text ? json::parse(*text) : Result<json::Value>(fail(Code::invalid, "claims"));
    if (!parsed) {
        return std::nullopt;
    }
    const json::View view(parsed.value());
    if (view["exp"].present() && view["exp"].int_or(0) <= seconds_of(now)) {
        return std::nullopt;
    }
    const json::View about = view["kubernetes.io"];
    return PodIdentity{std::string(about["namespace"].string_or("")),
                       std::string(about["serviceaccount"]["name"].string_or("")),
                       std::string(about["pod"]["name"].string_or("")),
                       std::string(about["pod"]["uid"].string_or(""))};
}

}  // namespace capstan::cli
