// The file format of bbolt, version 2, as etcd writes it: page and element headers, meta pages.
//
// A file is a row of equally long pages; pages 0 and 1 hold one meta each, the intact one with the
// higher transaction counts. All numbers are little endian. Values; thread: any.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>

namespace capstan::steward::bolt {

inline constexpr std::uint32_t kMagic = 0xED0CDAED;
inline constexpr std::uint32_t kVersion = 2;
inline constexpr std::uint64_t kNoFreelist = ~std::uint64_t{0};
inline constexpr std::size_t kPageHeaderBytes = 16;
inline constexpr std::size_t kElementBytes = 16;  // of leaf and branch pages alike
inline constexpr std::size_t kBucketBytes = 16;   // root page, sequence
inline constexpr std::size_t kMetaBytes = 64;
inline constexpr std::uint32_t kPageSizeMin = 1024;
inline constexpr std::uint32_t kPageSizeMax = 64 * 1024;
inline constexpr std::size_t kKeyBytesMax = 32768;
inline constexpr std::uint64_t kValueBytesMax = 0x7FFFFFFE;

inline constexpr std::uint16_t kBranchPage = 0x01;
inline constexpr std::uint16_t kLeafPage = 0x02;
inline constexpr std::uint16_t kMetaPage = 0x04;
inline constexpr std::uint32_t kBucketElement = 0x01;

using Bytes = std::span<const std::uint8_t>;

template <class T>
T load(const std::uint8_t* at) {
    T value{};
    std::memcpy(&value, at, sizeof value);  // the machines we run on are little endian
    return value;
}

template <class T>
void store(std::uint8_t* at, T value) {
    std::memcpy(at, &value, sizeof value);
}

inline std::string_view text(Bytes bytes) {
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

inline Bytes bytes(std::string_view text) {
    return {reinterpret_cast<const std::uint8_t*>(text.data()), text.size()};
}

struct PageHeader {
    std::uint64_t id{0};
    std::uint16_t flags{0};
    std::uint16_t count{0};
    std::uint32_t overflow{0};  // how many pages follow that belong to this one

    static PageHeader decode(const std::uint8_t* at);
    void encode(std::uint8_t* at) const;
};

struct Meta {
    std::uint32_t page_size{0};
    std::uint64_t root{0};
    std::uint64_t sequence{0};
    std::uint64_t freelist{kNoFreelist};
    std::uint64_t page_count{0};  // pages at and above it do not exist
    std::uint64_t transaction{0};

    // Nothing when magic, version, page size or checksum are not right.
    static std::optional<Meta> decode(std::span<const std::uint8_t, kMetaBytes> from);
    std::array<std::uint8_t, kMetaBytes> encode() const;
};

}  // namespace capstan::steward::bolt
