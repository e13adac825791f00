#include "plugins/steward-bridge/stream/digest.hpp"

#include <algorithm>

namespace capstan::steward {

std::string to_hex(std::string_view bytes) {
    constexpr std::string_view digits = "0123456789abcdef";
    std::string out;
    out.reserve(bytes.size() * 2);
    for (const char c : bytes) {
        const auto byte = static_cast<unsigned char>(c);
        out += digits[byte >> 4];
        out += digits[byte & 15];
    }
    return out;
}

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
