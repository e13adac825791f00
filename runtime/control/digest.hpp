// Message digests for the host and for plugins (capstan.digest/1). Thread: any;
// one Digest on one thread.
#pragma once

#include "capstan/error.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace capstan::control {

std::string sha256(std::string_view bytes);  // 32 raw bytes

class Digest {
public:
    // `algorithm`: CAPSTAN_DIGEST_…. Errors: invalid (unknown algorithm), unsupported (not in this
    // OpenSSL, e.g. MD5 in FIPS).
    static Result<std::unique_ptr<Digest>> open(std::int32_t algorithm, std::string_view key);
    virtual ~Digest() = default;
    virtual bool update(std::string_view bytes) = 0;
    virtual Result<std::string> finish() = 0;  // raw bytes; once
};

}  // namespace capstan::control
