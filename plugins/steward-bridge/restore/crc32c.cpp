#include "plugins/steward-bridge/restore/crc32c.hpp"

#include <array>
#include <cstddef>
#include <cstring>

namespace capstan::steward {
namespace {

using Tables = std::array<std::array<std::uint32_t, 256>, 8>;

// Table k: what byte b does to the sum when k bytes follow it.
constexpr Tables make_tables() {
    Tables tables{};
    for (std::uint32_t byte = 0; byte < 256; ++byte) {
        std::uint32_t sum = byte;
        for (int bit = 0; bit < 8; ++bit) {
            sum = sum >> 1 ^ ((sum & 1) != 0 ? 0x82F63B78u : 0u);
        }
        tables[0][byte] = sum;
    }
    for (std::uint32_t byte = 0; byte < 256; ++byte) {
        for (std::size_t k = 1; k < tables.size(); ++k) {
            const std::uint32_t before = tables[k - 1][byte];
            tables[k][byte] = before >> 8 ^ tables[0][before & 0xFF];
        }
    }
    return tables;
}

constexpr Tables kTables = make_tables();

}  // namespace

std::uint32_t crc32c(std::uint32_t crc, std::span<const std::uint8_t> bytes) {
    std::uint32_t sum = ~crc;
    while (bytes.size() >= 8) {
        std::uint64_t word = 0;
        std::memcpy(&word, bytes.data(), 8);
        word ^= sum;
        sum = 0;
        for (std::size_t k = 0; k < 8; ++k) {
            sum ^= kTables[7 - k][word >> (8 * k) & 0xFF];
        }
        bytes = bytes.subspan(8);
    }
    for (const std::uint8_t byte : bytes) {
        sum = sum >> 8 ^ kTables[0][(sum ^ byte) & 0xFF];
    }
    return ~sum;
}

}  // namespace capstan::steward
