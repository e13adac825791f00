// CRC-32C (Castagnoli), running: the checksum of etcd's log, of its .snap files and of HashKV.
#pragma once

#include <cstdint>
#include <span>

namespace capstan::steward {

// Of what was summed up before (`crc`, 0 at the start) and `bytes`. Thread: any.
std::uint32_t crc32c(std::uint32_t crc, std::span<const std::uint8_t> bytes);

}  // namespace capstan::steward
