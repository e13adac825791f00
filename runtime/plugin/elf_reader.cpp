#include "runtime/plugin/elf_reader.hpp"

#include "runtime/plugin/elf_layout.hpp"

#include <algorithm>
#include <cstring>

namespace capstan::plugin {

namespace {

constexpr std::size_t kHeaderBytes = 64;
constexpr std::size_t kProgramHeaderBytes = 56;
constexpr std::uint64_t kTypeShared = 3;
#if defined(__x86_64__)
constexpr std::uint64_t kMachine = 62;
#elif defined(__aarch64__)
constexpr std::uint64_t kMachine = 183;
#elif defined(__riscv)
constexpr std::uint64_t kMachine = 243;
#else
#error "add the e_machine of this architecture"
#endif

std::string machine_name(std::uint64_t machine) {
    switch (machine) {
        case 3: return "i386";
        case 40: return "arm";
        case 62: return "x86-64";
        case 183: return "aarch64";
        case 243: return "riscv";
        default: return "machine " + std::to_string(machine);
    }
}

auto wrong(std::string what) {
    return fail(Code::invalid, std::move(what));
}

Result<void> check_identification(const Bytes& header) {
    if (header.text(0, 4) != std::string_view("\x7f"
                                              "ELF",
                                              4)) {
        return wrong("is not an ELF file");
    }
    if (header.number(4, 1) != 2 || header.number(5, 1) != 1) {
        return wrong("is not a 64-bit little-endian ELF file");
    }
    if (header.number(16, 2) != kTypeShared) {
        return wrong("is an ELF file but not a shared object");
    }
    if (header.number(18, 2) != kMachine) {
        return wrong("is built for " + machine_name(header.number(18, 2)) + ", this host is " +
                     machine_name(kMachine));
    }
    return ok();
}

}  // namespace

std::uint64_t Bytes::number(std::size_t offset, std::size_t width) const noexcept {
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < width; ++i) {
        value |= std::to_integer<std::uint64_t>(data_[offset + i]) << (8 * i);
    }
    return value;
}

std::string_view Bytes::text(std::size_t offset, std::size_t length) const noexcept {
    return {reinterpret_cast<const char*>(data_.data()) + offset, length};
}

std::optional<std::string_view> Bytes::c_string(std::size_t offset) const noexcept {
    if (offset >= data_.size()) {
        return std::nullopt;
    }
    const std::string_view rest = text(offset, data_.size() - offset);
    const std::size_t end = rest.find('\0');
    return end == std::string_view::npos ? std::nullopt : std::optional(rest.substr(0, end));
}

Result<ElfImage> ElfImage::open(const ByteSource& source) {
    if (source.size() < kPluginBytesMin) {
        return wrong(source.size() == 0 ? "is empty" : "is not an ELF file");
    }
    if (source.size() > kPluginBytesMax) {
        return wrong("is larger than 256 MiB");
    }
    ElfImage image(source);
    CAPSTAN_TRY(const auto header, image.read(0, kHeaderBytes));
    CAPSTAN_TRY(check_identification(header));
    const std::uint64_t table = header.number(32, 8);
    const std::uint64_t count = header.number(56, 2);
    if (header.number(54, 2) != kProgramHeaderBytes || count == 0 || count > kProgramHeadersMax) {
        return wrong("has no sound program header table");
    }
    CAPSTAN_TRY(const auto bytes, image.read(table, count * kProgramHeaderBytes));
    for (std::size_t i = 0; i < count; ++i) {
        const std::size_t at = i * kProgramHeaderBytes;
        image.headers_.push_back({static_cast<std::uint32_t>(bytes.number(at, 4)),
                                  static_cast<std::uint32_t>(bytes.number(at + 4, 4)),
                                  bytes.number(at + 8, 8),
                                  bytes.number(at + 16, 8),
                                  bytes.number(at + 32, 8),
                                  bytes.number(at + 40, 8),
                                  bytes.number(at + 48, 8)});
    }
    for (const ProgramHeader& segment : image.headers_) {
        if (segment.type == kSegmentLoad && (segment.offset > source.size() ||
                                             segment.file_bytes > source.size() - segment.offset)) {
            return wrong("is truncated: a segment reaches past the end of the file");
        }
    }
    return image;
}

Result<Bytes> ElfImage::read(std::uint64_t offset, std::uint64_t length) const {
    if (offset > source_->size() || length > source_->size() - offset) {
        return wrong("is truncated or damaged: a table reaches past the end of the file");
    }
    std::vector<std::byte> data(static_cast<std::size_t>(length));
    CAPSTAN_TRY(source_->read_at(offset, data));
    return Bytes(std::move(data));
}

std::optional<ElfImage::Place> ElfImage::locate(std::uint64_t address) const noexcept {
    for (const ProgramHeader& segment : headers_) {
        if (segment.type == kSegmentLoad && address >= segment.address &&
            address - segment.address < segment.file_bytes) {
            const std::uint64_t inside = address - segment.address;
            if (segment.offset > UINT64_MAX - inside) {
                return std::nullopt;
            }
            return Place{segment.offset + inside, segment.file_bytes - inside};
        }
    }
    return std::nullopt;
}

Result<Bytes> ElfImage::read_address(std::uint64_t address, std::uint64_t length) const {
    const auto place = locate(address);
    if (!place || length > place->left) {
        return wrong("is damaged: the dynamic section points outside the file");
    }
    return read(place->offset, length);
}

namespace {

// One note at `at`; moves `at` behind it. False: the segment is damaged.
bool next_note(const Bytes& bytes,
               std::size_t alignment,
               std::size_t& at,
               std::string_view& owner,
               std::string_view& body,
               std::uint64_t& type) {
    if (bytes.size() - at < 12) {
        return false;
    }
    const auto name_bytes = static_cast<std::size_t>(bytes.number(at, 4));
    const auto body_bytes = static_cast<std::size_t>(bytes.number(at + 4, 4));
    type = bytes.number(at + 8, 4);
    const auto padded = [alignment](std::size_t size) {
        return (size + alignment - 1) / alignment * alignment;
    };
    // 32-bit sizes in 64-bit arithmetic: no sum below can overflow. Padding counts from
    // the start of the note.
    const std::size_t body_at = padded(12 + name_bytes);
    if (body_at > bytes.size() - at || body_bytes > bytes.size() - at - body_at) {
        return false;
    }
    owner = bytes.text(at + 12, name_bytes);
    body = bytes.text(at + body_at, body_bytes);
    at += std::min(padded(body_at + body_bytes), bytes.size() - at);
    return true;
}

}  // namespace

Result<void> read_notes(const ElfImage& image, ElfFacts& facts) {
    std::size_t manifests = 0;
    for (const ProgramHeader& segment : image.headers()) {
        if (segment.type != kSegmentNote) {
            continue;
        }
        if (segment.file_bytes > kNoteSegmentBytesMax) {
            return wrong("has a note segment of more than 1 MiB");
        }
        CAPSTAN_TRY(const auto bytes, image.read(segment.offset, segment.file_bytes));
        const std::size_t alignment = segment.alignment == 8 ? 8 : 4;
        for (std::size_t at = 0; at < bytes.size();) {
            std::string_view owner, body;
            std::uint64_t type = 0;
            if (!next_note(bytes, alignment, at, owner, body, type)) {
                return wrong("has a damaged note segment");
            }
            if (owner != std::string_view("CAPSTAN\0", 8)) {
                continue;
            }
            if (body.size() > kNoteBytesMax) {
                return wrong("has a CAPSTAN note of " + std::to_string(body.size() / 1024) +
                             " KiB; at most 256 KiB are read");
            }
            if (type == 1) {
                ++manifests;
                facts.manifest = std::string(body);
            } else if (type == 2) {
                facts.build_facts = std::string(body);
            }
        }
    }
    if (manifests != 1) {
        return wrong(manifests == 0 ? "has no CAPSTAN manifest note: it is no plugin, or was "
                                      "linked without its manifest"
                                    : "has " + std::to_string(manifests) +
                                          " CAPSTAN manifest notes, where one is expected");
    }
    while (!facts.manifest.empty() && facts.manifest.back() == '\0') {
        facts.manifest.pop_back();
    }
    return ok();
}

Result<ElfFacts> read_elf(const ByteSource& source) {
    CAPSTAN_TRY(const auto image, ElfImage::open(source));
    ElfFacts facts;
    CAPSTAN_TRY(read_notes(image, facts));
    CAPSTAN_TRY(read_dynamic(image, facts));
    for (const ProgramHeader& segment : image.headers()) {
        facts.executable_stack = facts.executable_stack ||
                                 (segment.type == kSegmentGnuStack && (segment.flags & 1U) != 0);
    }
    return facts;
}

}  // namespace capstan::plugin
