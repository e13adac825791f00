// Fields of 64-bit little-endian ELF files, read from bytes. Internal to the ELF reader.
// Source: System V gABI, glibc's elf.h. We read field by field instead of casting structs:
// nothing about the bytes is trusted.
#pragma once

#include "runtime/plugin/elf_reader.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace capstan::plugin {

// Bytes read from a file, with checked little-endian access.
class Bytes {
public:
    explicit Bytes(std::vector<std::byte> data) noexcept : data_(std::move(data)) {}
    std::size_t size() const noexcept { return data_.size(); }
    // Requires offset + width <= size(); callers have checked the record's size.
    std::uint64_t number(std::size_t offset, std::size_t width) const noexcept;
    std::string_view text(std::size_t offset, std::size_t length) const noexcept;
    // nullopt: unterminated or outside
    std::optional<std::string_view> c_string(std::size_t offset) const noexcept;

private:
    std::vector<std::byte> data_;
};

struct ProgramHeader {
    std::uint32_t type{0}, flags{0};
    std::uint64_t offset{0}, address{0}, file_bytes{0}, memory_bytes{0}, alignment{0};
};

inline constexpr std::uint32_t kSegmentLoad = 1;
inline constexpr std::uint32_t kSegmentDynamic = 2;
inline constexpr std::uint32_t kSegmentNote = 4;
inline constexpr std::uint32_t kSegmentGnuStack = 0x6474e551;

// The file seen through its program headers.
class ElfImage {
public:
    // Checks identification, type, machine and the header table.
    static Result<ElfImage> open(const ByteSource& source);

    const std::vector<ProgramHeader>& headers() const noexcept { return headers_; }
    // invalid: outside the file
    Result<Bytes> read(std::uint64_t offset, std::uint64_t length) const;
    // Where a virtual address lies in the file, and how many bytes follow it in its segment.
    struct Place {
        std::uint64_t offset{0}, left{0};
    };
    std::optional<Place> locate(std::uint64_t address) const noexcept;
    Result<Bytes> read_address(std::uint64_t address, std::uint64_t length) const;

private:
    explicit ElfImage(const ByteSource& source) noexcept : source_(&source) {}
    const ByteSource* source_;
    std::vector<ProgramHeader> headers_;
};

// Notes of all PT_NOTE segments. Errors: invalid.
Result<void> read_notes(const ElfImage& image, ElfFacts& facts);
// What PT_DYNAMIC says: dependencies, flags, versions, symbols. Errors: invalid.
Result<void> read_dynamic(const ElfImage& image, ElfFacts& facts);

}  // namespace capstan::plugin
