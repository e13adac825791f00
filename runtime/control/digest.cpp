#include "runtime/control/digest.hpp"

#include "capstan/capstan.h"

#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/params.h>

#include <array>

namespace capstan::control {
namespace {

constexpr std::array<std::uint32_t, 256> make_crc32c_table() {
    std::array<std::uint32_t, 256> table{};
    for (std::uint32_t i = 0; i < 256; ++i) {
        std::uint32_t value = i;
        for (int bit = 0; bit < 8; ++bit) {
            // Castagnoli, reflected
            value = (value & 1u) != 0 ? (value >> 1) ^ 0x82F63B78u : value >> 1;
        }
        table[i] = value;
    }
    return table;
}
constexpr auto kCrc32cTable = make_crc32c_table();

class Crc32c final : public Digest {
public:
    bool update(std::string_view bytes) override {
        for (const char c : bytes) {
            state_ = kCrc32cTable[(state_ ^ static_cast<unsigned char>(c)) & 0xFFu] ^ (state_ >> 8);
        }
        return true;
    }
    Result<std::string> finish() override {
        const std::uint32_t sum = ~state_;
        std::string out;
        for (int shift = 24; shift >= 0; shift -= 8) {
            out += static_cast<char>((sum >> shift) & 0xFFu);
        }
        return out;
    }

private:
    std::uint32_t state_{0xFFFFFFFFu};
};

class Hash final : public Digest {
public:
    explicit Hash(EVP_MD_CTX* context) : context_(context) {}
    ~Hash() override { EVP_MD_CTX_free(context_); }
    bool update(std::string_view bytes) override {
        return EVP_DigestUpdate(context_, bytes.data(), bytes.size()) == 1;
    }
    Result<std::string> finish() override {
        std::array<unsigned char, EVP_MAX_MD_SIZE> raw{};
        unsigned length = 0;
        if (EVP_DigestFinal_ex(context_, raw.data(), &length) != 1) {
            return fail(Code::internal, "digest cannot be finished");
        }
        return std::string(raw.begin(), raw.begin() + length);
    }

private:
    EVP_MD_CTX* const context_;
};

class Hmac final : public Digest {
public:
    explicit Hmac(EVP_MAC_CTX* context) : context_(context) {}
    ~Hmac() override { EVP_MAC_CTX_free(context_); }
    bool update(std::string_view bytes) override {
        return EVP_MAC_update(context_,
                              reinterpret_cast<const unsigned char*>(bytes.data()),
                              bytes.size()) == 1;
    }
    Result<std::string> finish() override {
        std::array<unsigned char, EVP_MAX_MD_SIZE> raw{};
        std::size_t length = 0;
        if (EVP_MAC_final(context_, raw.data(), &length, raw.size()) != 1) {
            return fail(Code::internal, "hmac cannot be finished");
        }
        return std::string(raw.begin(), raw.begin() + static_cast<std::ptrdiff_t>(length));
    }

private:
    EVP_MAC_CTX* const context_;
};

Result<std::unique_ptr<Digest>> open_hash(const EVP_MD* type) {
    EVP_MD_CTX* context = EVP_MD_CTX_new();
    if (context == nullptr || EVP_DigestInit_ex(context, type, nullptr) != 1) {
        EVP_MD_CTX_free(context);
        return fail(Code::unsupported, "this OpenSSL does not offer the digest");
    }
    return std::unique_ptr<Digest>(std::make_unique<Hash>(context));
}

Result<std::unique_ptr<Digest>> open_hmac(std::string_view key) {
    EVP_MAC* mac = EVP_MAC_fetch(nullptr, "HMAC", nullptr);
    EVP_MAC_CTX* context = mac == nullptr ? nullptr : EVP_MAC_CTX_new(mac);
    EVP_MAC_free(mac);
    std::string name = "SHA256";
    const OSSL_PARAM params[] = {
        OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, name.data(), 0),
        OSSL_PARAM_construct_end()};
    // A null key pointer would mean "no key"; an empty key is a key.
    const auto* bytes = reinterpret_cast<const unsigned char*>(key.empty() ? "" : key.data());
    if (context == nullptr || EVP_MAC_init(context, bytes, key.size(), params) != 1) {
        EVP_MAC_CTX_free(context);
        return fail(Code::unsupported, "this OpenSSL does not offer HMAC");
    }
    return std::unique_ptr<Digest>(std::make_unique<Hmac>(context));
}

}  // namespace

std::string sha256(std::string_view bytes) {
    std::array<unsigned char, EVP_MAX_MD_SIZE> raw{};
    unsigned length = 0;
    CAPSTAN_CHECK(
        EVP_Digest(bytes.data(), bytes.size(), raw.data(), &length, EVP_sha256(), nullptr) == 1,
        "sha256");
    return std::string(raw.begin(), raw.begin() + length);
}

Result<std::unique_ptr<Digest>> Digest::open(std::int32_t algorithm, std::string_view key) {
    switch (algorithm) {
        case CAPSTAN_DIGEST_SHA256: return open_hash(EVP_sha256());
        case CAPSTAN_DIGEST_MD5: return open_hash(EVP_md5());
        case CAPSTAN_DIGEST_HMAC_SHA256: return open_hmac(key);
        case CAPSTAN_DIGEST_CRC32C: return std::unique_ptr<Digest>(std::make_unique<Crc32c>());
        default:
            return fail(Code::invalid, "unknown digest algorithm " + std::to_string(algorithm));
    }
}

}  // namespace capstan::control
