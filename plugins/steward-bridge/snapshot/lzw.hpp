// LZW as in GIF: least significant bit first, 8-bit literals, codes of 9 to 12 bits, no header.
// It is not the format of Unix compress, although the suffix is .Z.
//
// Codes 0 to 255 are literals, 256 clears the table, 257 ends the stream.
#pragma once

#include "plugins/steward-bridge/stream/stream.hpp"

#include "capstan/error.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace capstan::steward {

inline constexpr unsigned kLzwWidthMax = 12;  // bits of a code
inline constexpr unsigned kLzwCodes = 1u << kLzwWidthMax;

class LzwSource final : public Source {
public:
    LzwSource(Source& from, std::string object);  // borrowed

    // Errors: damaged() for a code that is not defined yet, an end without code 257, or bytes
    // after it.
    Result<std::size_t> read(std::span<std::uint8_t> into) override;

private:
    Result<bool> fill();  // false: `from` has ended
    Result<bool> next_code(unsigned& code);
    Result<void> decode();  // one code into pending_
    Result<void> expect_end();
    Error damaged_here(const std::string& what) const;

    Source& from_;
    const std::string object_;
    std::vector<std::uint8_t> packed_;
    std::size_t at_{0}, size_{0};  // of packed_
    std::uint64_t offset_{0};      // of packed_[at_] in the object
    std::uint32_t bits_{0};
    unsigned bit_count_{0};
    unsigned width_{9};
    unsigned high_{257};  // the newest code that may be used
    unsigned last_;       // code before, or kNone
    bool ended_{false};
    std::array<std::uint8_t, kLzwCodes> suffix_{};
    std::array<std::uint16_t, kLzwCodes> prefix_{};
    std::array<std::uint8_t, kLzwCodes> text_{};  // of the code just read, at its end
    std::size_t text_at_{kLzwCodes};
};

class LzwSink final : public Sink {
public:
    explicit LzwSink(Sink& to);  // borrowed

    Result<void> write(std::span<const std::uint8_t> bytes) override;
    Result<void> finish() override;

private:
    Result<void> emit(unsigned code);
    Result<bool> count_code();  // false: the table was full and has been cleared
    Result<void> flush();

    Sink& to_;
    std::vector<std::uint32_t> table_;  // (prefix << 8 | byte) << 12 | code, open addressing
    std::vector<std::uint8_t> packed_;
    std::uint32_t bits_{0};
    unsigned bit_count_{0};
    unsigned width_{9};
    unsigned high_{257};
    unsigned code_;  // what is matched so far, or kNone
};

}  // namespace capstan::steward
