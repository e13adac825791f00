// How a snapshot's bytes are packed. The suffix of each object alone decides how it is read, so a
// set may mix them.
//
// gzip (RFC 1952, concatenated members are read as one) and zlib (RFC 1950) at zlib's level 6; lzw
// as in lzw.hpp. Memory: below 512 KiB per filter.
#pragma once

#include "plugins/steward-bridge/stream/stream.hpp"

#include "capstan/error.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace capstan::steward {

enum class Compression : std::uint8_t { none, gzip, zlib, lzw };

std::string_view suffix(Compression compression) noexcept;  // "", ".gz", ".zlib", ".Z"
std::optional<Compression> compression_of_suffix(std::string_view suffix) noexcept;

// A policy as configured. Errors: invalid, names the policies there are.
Result<Compression> compression_of_policy(std::string_view policy);

// The unpacked bytes of `from`, borrowed. `object` is named in errors. Its end is only reported
// once the checksum of the format was right and nothing follows; until then what was read may be
// damaged. Errors: damaged() when the bytes are no such stream, end early or go on after it.
Result<std::unique_ptr<Source>> decompress(Compression compression,
                                           Source& from,
                                           std::string object);

// Packs what is written into `to`, borrowed; finish() ends the stream and finishes `to`.
Result<std::unique_ptr<Sink>> compress(Compression compression, Sink& to);

}  // namespace capstan::steward
