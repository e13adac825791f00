#include "plugins/steward-bridge/bolt/format.hpp"

namespace capstan::steward::bolt {
namespace {

std::uint64_t fnv1a(Bytes over) {
    std::uint64_t hash = 0xcbf29ce484222325ULL;
    for (const std::uint8_t byte : over) {
        hash = (hash ^ byte) * 0x100000001b3ULL;
    }
    return hash;
}

constexpr std::size_t kChecksumAt = kMetaBytes - 8;

}  // namespace

PageHeader PageHeader::decode(const std::uint8_t* at) {
    return {load<std::uint64_t>(at),
            load<std::uint16_t>(at + 8),
            load<std::uint16_t>(at + 10),
            load<std::uint32_t>(at + 12)};
}

void PageHeader::encode(std::uint8_t* at) const {
    store(at, id);
    store(at + 8, flags);
    store(at + 10, count);
    store(at + 12, overflow);
}

std::optional<Meta> Meta::decode(std::span<const std::uint8_t, kMetaBytes> from) {
    const std::uint8_t* at = from.data();
    Meta meta;
    meta.page_size = load<std::uint32_t>(at + 8);
    meta.root = load<std::uint64_t>(at + 16);
    meta.sequence = load<std::uint64_t>(at + 24);
    meta.freelist = load<std::uint64_t>(at + 32);
    meta.page_count = load<std::uint64_t>(at + 40);
    meta.transaction = load<std::uint64_t>(at + 48);
    const bool intact = load<std::uint32_t>(at) == kMagic &&
                        load<std::uint32_t>(at + 4) == kVersion && meta.page_size >= kPageSizeMin &&
                        meta.page_size <= kPageSizeMax &&
                        (meta.page_size & (meta.page_size - 1)) == 0 &&
                        load<std::uint64_t>(at + kChecksumAt) == fnv1a(from.first(kChecksumAt));
    if (!intact) {
        return std::nullopt;
    }
    return meta;
}

std::array<std::uint8_t, kMetaBytes> Meta::encode() const {
    std::array<std::uint8_t, kMetaBytes> to{};
    store(to.data(), kMagic);
    store(to.data() + 4, kVersion);
    store(to.data() + 8, page_size);
    store(to.data() + 16, root);
    store(to.data() + 24, sequence);
    store(to.data() + 32, freelist);
    store(to.data() + 40, page_count);
    store(to.data() + 48, transaction);
    store(to.data() + kChecksumAt, fnv1a(Bytes(to).first(kChecksumAt)));
    return to;
}

}  // namespace capstan::steward::bolt
