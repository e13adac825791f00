// Bytes in pieces: how snapshots move between etcd, a codec, a store and a file in constant memory.
// One thread at a time per object.
#pragma once

#include "capstan/error.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace capstan::steward {

class Source {
public:
    virtual ~Source() = default;

    // Fills the front of `into`, which is not empty; how many bytes, 0 only at the end. An error is
    // final.
    virtual Result<std::size_t> read(std::span<std::uint8_t> into) = 0;
};

class Sink {
public:
    virtual ~Sink() = default;

    virtual Result<void> write(std::span<const std::uint8_t> bytes) = 0;

    // Once, after the last write: what was written is complete and, where the sink keeps it,
    // durable. A sink that is destroyed without it keeps nothing.
    virtual Result<void> finish() = 0;
};

inline std::span<const std::uint8_t> bytes_of(std::string_view text) noexcept {
    return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

// Everything of `from` into `to`, without finishing it; how many bytes. Memory: 64 KiB.
Result<std::uint64_t> copy(Source& from, Sink& to);

}  // namespace capstan::steward
