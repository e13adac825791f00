// Message digests as the snapshot code needs them. In the plugin they are the host's
// (capstan.digest/1), in tests the same functions called directly; neither links a crypto library.
// One thread at a time per object.
#pragma once

#include "capstan/capstan.h"
#include "capstan/error.hpp"

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace capstan::steward {

using Sha256 = std::array<std::uint8_t, 32>;

class Hasher {
public:
    virtual ~Hasher() = default;

    virtual Result<void> update(std::span<const std::uint8_t> bytes) = 0;
    virtual Result<std::string> finish() = 0;  // raw bytes; once, nothing after it
};

// Makes hashers; outlives them. Thread: any.
class Digests {
public:
    virtual ~Digests() = default;

    Result<std::unique_ptr<Hasher>> sha256() { return open(CAPSTAN_DIGEST_SHA256, {}); }
    Result<std::unique_ptr<Hasher>> md5() { return open(CAPSTAN_DIGEST_MD5, {}); }
    Result<std::unique_ptr<Hasher>> hmac_sha256(std::string_view key) {
        return open(CAPSTAN_DIGEST_HMAC_SHA256, key);
    }

private:
    // `algorithm`: CAPSTAN_DIGEST_….
    virtual Result<std::unique_ptr<Hasher>> open(std::int32_t algorithm, std::string_view key) = 0;
};

std::string to_hex(std::string_view bytes);  // lower case

// The digest of bytes in memory.
Result<Sha256> sha256_of(Digests& digests, std::span<const std::uint8_t> bytes);

}  // namespace capstan::steward
