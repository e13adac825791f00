// Message digests as the snapshot code needs them. In the plugin they are the host's
// (capstan.digest/1), in tests the same functions called directly; neither links a crypto library.
// One thread at a time per object.
#pragma once

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

    virtual Result<std::unique_ptr<Hasher>> sha256() = 0;
    virtual Result<std::unique_ptr<Hasher>> md5() = 0;
    virtual Result<std::unique_ptr<Hasher>> hmac_sha256(std::string_view key) = 0;
    virtual Result<std::unique_ptr<Hasher>> crc32c() = 0;  // 4 bytes, big endian
};

// The digest of bytes in memory.
Result<Sha256> sha256_of(Digests& digests, std::span<const std::uint8_t> bytes);

}  // namespace capstan::steward
