// The digests of the plugin: the host's (capstan.digest/1). Thread: any; a hasher on one.
#pragma once

#include "plugins/steward-bridge/stream/digest.hpp"

#include "capstan/plugin.hpp"

#include <utility>

namespace capstan::steward {

class HostDigests final : public Digests {
public:
    explicit HostDigests(const HostTables& host) noexcept : host_(host) {}  // outlives *this

private:
    class HostHasher final : public Hasher {
    public:
        HostHasher(const capstan_ext_digest* table, capstan_hash* hash)
            : table_(table), hash_(hash) {}
        ~HostHasher() override { free(); }
        HostHasher(const HostHasher&) = delete;
        HostHasher& operator=(const HostHasher&) = delete;

        Result<void> update(std::span<const std::uint8_t> bytes) override {
            const capstan_rc rc =
                table_->update(hash_, {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
            return rc == CAPSTAN_OK ? Result<void>(ok()) : refused(rc);
        }
        Result<std::string> finish() override {
            const capstan_rc rc = free();
            if (rc != CAPSTAN_OK) {
                return refused(rc).error();
            }
            return std::string(reinterpret_cast<const char*>(raw_), length_);
        }

    private:
        static Result<void> refused(capstan_rc rc) {
            return fail(code_of(rc), "digest: the host refused");
        }
        capstan_rc free() noexcept {
            capstan_hash* const hash = std::exchange(hash_, nullptr);
            return hash == nullptr ? CAPSTAN_OK : table_->finish(hash, raw_, &length_);
        }
        const capstan_ext_digest* const table_;
        capstan_hash* hash_;
        std::uint8_t raw_[CAPSTAN_DIGEST_BYTES_MAX]{};
        std::uint32_t length_{0};
    };

    Result<std::unique_ptr<Hasher>> open(std::int32_t algorithm, std::string_view key) override {
        if (host_.digest_table == nullptr) {
            return fail(Code::unsupported, "the host has no capstan.digest/1");
        }
        capstan_hash* hash = nullptr;
        const capstan_rc rc = host_.digest_table->open(host_.host, algorithm, to_str(key), &hash);
        if (rc != CAPSTAN_OK) {
            return fail(code_of(rc), "digest: the host does not offer it");
        }
        return std::unique_ptr<Hasher>(std::make_unique<HostHasher>(host_.digest_table, hash));
    }

    const HostTables& host_;
};

}  // namespace capstan::steward
