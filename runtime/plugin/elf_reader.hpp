// Reads of an ELF shared object what a loader of plugins must know, from hostile bytes,
// with bounds on everything.
//
// Only positioned reads, never a mapping: a file truncated under a mapping is a SIGBUS.
// Program headers and the dynamic table are used, section headers never (they are optional at
// run time). Thread: any.
#pragma once

#include "capstan/error.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace capstan::plugin {

inline constexpr std::uint64_t kPluginBytesMin = 64;
inline constexpr std::uint64_t kPluginBytesMax = 256ull * 1024 * 1024;
inline constexpr std::size_t kProgramHeadersMax = 128;
inline constexpr std::uint64_t kNoteSegmentBytesMax = 1024 * 1024;
inline constexpr std::uint64_t kNoteBytesMax = 256 * 1024;  // the manifest
inline constexpr std::size_t kDynamicEntriesMax = 4096;
inline constexpr std::size_t kSymbolsMax = 1'000'000;
inline constexpr std::size_t kNeededMax = 64;
inline constexpr std::uint64_t kStringTableBytesMax = 64ull * 1024 * 1024;
inline constexpr std::string_view kEntrySymbol = "capstan_plugin_entry";

// Where the bytes come from; a test may hold them in memory.
class ByteSource {
public:
    virtual ~ByteSource() = default;
    virtual std::uint64_t size() const noexcept = 0;
    // Fills `out` whole from `offset`. Errors: invalid (past the end), unavailable (I/O).
    virtual Result<void> read_at(std::uint64_t offset, std::span<std::byte> out) const = 0;
};

struct VersionNeed {
    std::string library;  // "libc.so.6"
    std::string version;  // "GLIBC_2.34"
};

struct ElfFacts {
    std::string manifest;     // the JSON of the one CAPSTAN/1 note
    std::string build_facts;  // of the CAPSTAN/2 note; may be empty
    std::vector<std::string> needed;
    std::vector<VersionNeed> version_needs;
    // defined, global or weak dynamic symbols; sorted, at most 64 are kept
    std::vector<std::string> exports;
    std::size_t export_count{0};
    std::size_t unique_count{0};       // STB_GNU_UNIQUE
    std::size_t constructor_count{0};  // run when the file is loaded
    std::string soname;
    std::string run_path;  // DT_RUNPATH or DT_RPATH
    bool text_relocations{false};
    bool static_tls{false};
    bool executable_stack{false};
    bool marked_nodelete{false};
};

// Structure only: what the file is. Errors: invalid, one sentence ("no CAPSTAN manifest note: …").
Result<ElfFacts> read_elf(const ByteSource& source);

// Policy: reasons not to load what read_elf found, one sentence each; empty: none.
std::vector<std::string> refuse_reasons(const ElfFacts& facts);

}  // namespace capstan::plugin
