// For tests: the host's own digests, called directly.
#pragma once

#include "plugins/steward-bridge/stream/digest.hpp"
#include "runtime/control/digest.hpp"

namespace capstan::steward {

class TestingDigests final : public Digests {
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

    Result<std::unique_ptr<Hasher>> open(std::int32_t algorithm, std::string_view key) override {
        CAPSTAN_TRY(auto digest, control::Digest::open(algorithm, key));
        return std::unique_ptr<Hasher>(std::make_unique<HostHasher>(std::move(digest)));
    }
};

}  // namespace capstan::steward
