#include "plugins/steward-bridge/stream/digest.hpp"

#include <algorithm>

namespace capstan::steward {

Result<Sha256> sha256_of(Digests& digests, std::span<const std::uint8_t> bytes) {
    CAPSTAN_TRY(auto hasher, digests.sha256());
    CAPSTAN_TRY(hasher->update(bytes));
    CAPSTAN_TRY(const std::string raw, hasher->finish());
    Sha256 digest{};
    if (raw.size() != digest.size()) {
        return fail(Code::internal, "a sha256 of " + std::to_string(raw.size()) + " bytes");
    }
    std::copy(raw.begin(), raw.end(), digest.begin());
    return digest;
}

}  // namespace capstan::steward
