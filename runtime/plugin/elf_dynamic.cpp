// The dynamic section of a plugin: dependencies, flags, version needs, exports.
#include "runtime/plugin/elf_layout.hpp"

#include <algorithm>
#include <map>

namespace capstan::plugin {

namespace {

enum Tag : std::uint64_t {
    kTagNeeded = 1,
    kTagHash = 4,
    kTagStrings = 5,
    kTagSymbols = 6,
    kTagStringsSize = 10,
    kTagSoname = 14,
    kTagRpath = 15,
    kTagTextRelocations = 22,
    kTagInit = 12,
    kTagInitArraySize = 27,
    kTagRunpath = 29,
    kTagFlags = 30,
    kTagGnuHash = 0x6ffffef5,
    kTagFlags1 = 0x6ffffffb,
    kTagVersionNeeds = 0x6ffffffe,
    kTagVersionNeedsCount = 0x6fffffff,
};
constexpr std::uint64_t kFlagTextRelocations = 4, kFlagStaticTls = 16, kFlag1NoDelete = 8;
constexpr std::size_t kDynamicEntryBytes = 16, kSymbolBytes = 24;
constexpr std::size_t kExportsKept = 64;
constexpr std::size_t kVersionNeedsMax = 1024;
constexpr std::uint64_t kHashBytesMax = 64ull * 1024 * 1024;

auto wrong(std::string what) {
    return fail(Code::invalid, std::move(what));
}

struct Dynamic {
    std::map<std::uint64_t, std::uint64_t> values;  // the last of each tag
    std::vector<std::uint64_t> needed;

    std::uint64_t get(std::uint64_t tag) const {
        const auto at = values.find(tag);
        return at == values.end() ? 0 : at->second;
    }
    bool has(std::uint64_t tag) const { return values.contains(tag); }
};

Result<Dynamic> read_entries(const ElfImage& image) {
    const auto segment = std::find_if(
        image.headers().begin(), image.headers().end(), [](const ProgramHeader& header) {
            return header.type == kSegmentDynamic;
        });
    if (segment == image.headers().end()) {
        return wrong("has no dynamic section");
    }
    const std::uint64_t count = segment->file_bytes / kDynamicEntryBytes;
    if (count > kDynamicEntriesMax) {
        return wrong("has a dynamic section of more than 4096 entries");
    }
    CAPSTAN_TRY(const auto bytes, image.read(segment->offset, count * kDynamicEntryBytes));
    Dynamic dynamic;
    for (std::size_t i = 0; i < count; ++i) {
        const std::uint64_t tag = bytes.number(i * kDynamicEntryBytes, 8);
        const std::uint64_t value = bytes.number(i * kDynamicEntryBytes + 8, 8);
        if (tag == 0) {
            break;
        }
        if (tag == kTagNeeded) {
            dynamic.needed.push_back(value);
        } else {
            dynamic.values[tag] = value;
        }
    }
    if (dynamic.needed.size() > kNeededMax) {
        return wrong("depends on more than 64 libraries");
    }
    return dynamic;
}

Result<std::string> string_at(const Bytes& strings, std::uint64_t offset) {
    const auto text = strings.c_string(static_cast<std::size_t>(offset));
    if (!text || text->size() > 4096) {
        return wrong("is damaged: a name lies outside the string table");
    }
    return std::string(*text);
}

// How many dynamic symbols there are: ELF has no count, only hash tables that imply it.
Result<std::uint64_t> count_symbols(const ElfImage& image, const Dynamic& dynamic) {
    if (dynamic.has(kTagHash)) {
        CAPSTAN_TRY(const auto head, image.read_address(dynamic.get(kTagHash), 8));
        return head.number(4, 4);
    }
    if (!dynamic.has(kTagGnuHash)) {
        return wrong("has no symbol hash table");
    }
    const std::uint64_t table = dynamic.get(kTagGnuHash);
    CAPSTAN_TRY(const auto head, image.read_address(table, 16));
    const std::uint64_t buckets = head.number(0, 4);
    const std::uint64_t first = head.number(4, 4);
    const std::uint64_t bloom_words = head.number(8, 4);
    const std::uint64_t buckets_at = 16 + bloom_words * 8;
    if (buckets * 4 > kHashBytesMax || buckets_at > kHashBytesMax) {
        return wrong("is damaged: its symbol hash table is too large");
    }
    if (table > UINT64_MAX - 2 * kHashBytesMax) {
        return wrong("is damaged: its symbol hash table lies outside the file");
    }
    CAPSTAN_TRY(const auto bucket_bytes, image.read_address(table + buckets_at, buckets * 4));
    std::uint64_t last = 0;
    for (std::size_t i = 0; i < buckets; ++i) {
        last = std::max(last, bucket_bytes.number(i * 4, 4));
    }
    if (last < first) {
        return first;
    }
    if (last > kSymbolsMax) {
        return wrong("has more than a million dynamic symbols");
    }
    // The chain of the highest bucket runs to the last symbol; its end has the lowest bit set.
    const std::uint64_t chains = table + buckets_at + buckets * 4;
    for (; last <= kSymbolsMax; ++last) {
        CAPSTAN_TRY(const auto link, image.read_address(chains + (last - first) * 4, 4));
        if ((link.number(0, 4) & 1U) != 0) {
            return last + 1;
        }
    }
    return wrong("has more than a million dynamic symbols");
}

Result<void> read_symbols(const ElfImage& image,
                          const Dynamic& dynamic,
                          const Bytes& strings,
                          ElfFacts& facts) {
    CAPSTAN_TRY(const std::uint64_t count, count_symbols(image, dynamic));
    if (count > kSymbolsMax) {
        return wrong("has more than a million dynamic symbols");
    }
    CAPSTAN_TRY(const auto symbols,
                image.read_address(dynamic.get(kTagSymbols), count * kSymbolBytes));
    for (std::size_t i = 1; i < count; ++i) {
        const std::size_t at = i * kSymbolBytes;
        const std::uint64_t binding = symbols.number(at + 4, 1) >> 4U;
        const std::uint64_t section = symbols.number(at + 6, 2);
        constexpr std::uint64_t kLocal = 0, kUnique = 10;
        if (binding == kLocal || section == 0) {
            continue;
        }
        facts.unique_count += binding == kUnique ? 1 : 0;
        ++facts.export_count;
        if (facts.exports.size() < kExportsKept) {
            CAPSTAN_TRY(auto name, string_at(strings, symbols.number(at, 4)));
            facts.exports.push_back(std::move(name));
        }
    }
    std::sort(facts.exports.begin(), facts.exports.end());
    return ok();
}

Result<void> read_version_needs(const ElfImage& image,
                                const Dynamic& dynamic,
                                const Bytes& strings,
                                ElfFacts& facts) {
    const std::uint64_t count = dynamic.get(kTagVersionNeedsCount);
    std::uint64_t at = dynamic.get(kTagVersionNeeds);
    if (!dynamic.has(kTagVersionNeeds)) {
        return ok();
    }
    if (count > kVersionNeedsMax) {
        return wrong("needs symbol versions of more than 1024 libraries");
    }
    for (std::uint64_t i = 0; i < count; ++i) {
        CAPSTAN_TRY(const auto need, image.read_address(at, 16));
        CAPSTAN_TRY(const auto library, string_at(strings, need.number(4, 4)));
        std::uint64_t aux_at = at + need.number(8, 4);
        for (std::uint64_t k = 0; k < need.number(2, 2); ++k) {
            if (facts.version_needs.size() == kVersionNeedsMax || aux_at < at) {
                return wrong("is damaged: its version needs do not end");
            }
            CAPSTAN_TRY(const auto aux, image.read_address(aux_at, 16));
            CAPSTAN_TRY(auto version, string_at(strings, aux.number(8, 4)));
            facts.version_needs.push_back({library, std::move(version)});
            if (aux.number(12, 4) == 0) {
                break;
            }
            aux_at += aux.number(12, 4);
        }
        if (need.number(12, 4) == 0) {
            break;
        }
        at += need.number(12, 4);
    }
    return ok();
}

}  // namespace

Result<void> read_dynamic(const ElfImage& image, ElfFacts& facts) {
    CAPSTAN_TRY(const auto dynamic, read_entries(image));
    const std::uint64_t strings_size = dynamic.get(kTagStringsSize);
    if (!dynamic.has(kTagStrings) || !dynamic.has(kTagSymbols) ||
        strings_size > kStringTableBytesMax) {
        return wrong("has no sound dynamic symbol table");
    }
    CAPSTAN_TRY(const auto strings, image.read_address(dynamic.get(kTagStrings), strings_size));
    for (const std::uint64_t offset : dynamic.needed) {
        CAPSTAN_TRY(auto name, string_at(strings, offset));
        facts.needed.push_back(std::move(name));
    }
    if (dynamic.has(kTagSoname)) {
        CAPSTAN_TRY(facts.soname, string_at(strings, dynamic.get(kTagSoname)));
    }
    for (const std::uint64_t tag : {kTagRpath, kTagRunpath}) {
        if (dynamic.has(tag)) {
            CAPSTAN_TRY(facts.run_path, string_at(strings, dynamic.get(tag)));
        }
    }
    const std::uint64_t flags = dynamic.get(kTagFlags);
    facts.text_relocations =
        dynamic.has(kTagTextRelocations) || (flags & kFlagTextRelocations) != 0;
    facts.static_tls = (flags & kFlagStaticTls) != 0;
    facts.marked_nodelete = (dynamic.get(kTagFlags1) & kFlag1NoDelete) != 0;
    facts.constructor_count = static_cast<std::size_t>(dynamic.get(kTagInitArraySize) / 8);
    CAPSTAN_TRY(read_version_needs(image, dynamic, strings, facts));
    return read_symbols(image, dynamic, strings, facts);
}

}  // namespace capstan::plugin
