// For tests: the host's own digests, called directly.
#pragma once

#include "plugins/steward-bridge/stream/digest.hpp"
#include "runtime/control/digest.hpp"

#include "capstan/capstan.h"

namespace capstan::steward {

class TestingDigests final : public Digests {
public:
    Result<std::unique_ptr<Hasher>> sha256() override { return open(CAPSTAN_DIGEST_SHA256, {}); }
    Result<std::unique_ptr<Hasher>> md5() override { return open(CAPSTAN_DIGEST_MD5, {}); }
    Result<std::unique_ptr<Hasher>> hmac_sha256(std::string_view key) override {
        return open(CAPSTAN_DIGEST_HMAC_SHA256, key);
    }
    Result<std::unique_ptr<Hasher>> crc32c() override { return open(CAPSTAN_DIGEST_CRC32C, {}); }

private:
    class HostHasher final : public Hasher {
    public:
        explicit HostHasher(std::unique_ptr<control::Digest> digest) : digest_(std::move(digest)) {}
        Result<void> update(std::span<const std::uint8_t> bytes) override {
            if (!digest_->update({reinterpret_cast<const char*>(bytes.data()), bytes.size()})) {
                return fail(Code::internal, "the digest was not updated");
            }
            return ok();
        }
        Result<std::string> finish() override { return digest_->finish(); }

    private:
        std::unique_ptr<control::Digest> digest_;
    };

    static Result<std::unique_ptr<Hasher>> open(std::int32_t algorithm, std::string_view key) {
        CAPSTAN_TRY(auto digest, control::Digest::open(algorithm, key));
        return std::unique_ptr<Hasher>(std::make_unique<HostHasher>(std::move(digest)));
    }
};

}  // namespace capstan::steward
