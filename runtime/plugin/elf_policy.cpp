// Reasons not to load a plugin that is a sound ELF file.
#include "runtime/plugin/elf_reader.hpp"
#include "runtime/plugin/host_versions.hpp"

#include <algorithm>
#include <string_view>

namespace capstan::plugin {

namespace {

// Anything else would be shared with the next version of the plugin: glibc loads a SONAME once
// (docs/plugin-guide.md).
constexpr std::string_view kAllowedLibraries[] = {
    "libc.so.6",
    "libm.so.6",
    "libstdc++.so.6",
    "libgcc_s.so.1",
    "libz.so.1",
    "ld-linux-x86-64.so.2",
    "ld-linux-aarch64.so.1",
    "libpthread.so.0",
    "libdl.so.2",
    "librt.so.1",
};
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
// A sanitizer build links the sanitizer's own runtime into every shared object.
constexpr std::string_view kSanitizerLibraries[] = {"libasan.so", "libubsan.so", "libtsan.so"};
#else
constexpr std::string_view kSanitizerLibraries[] = {"\n"};
#endif

bool is_allowed(std::string_view library) {
    return std::find(std::begin(kAllowedLibraries), std::end(kAllowedLibraries), library) !=
               std::end(kAllowedLibraries) ||
           std::any_of(std::begin(kSanitizerLibraries),
                       std::end(kSanitizerLibraries),
                       [library](std::string_view name) { return library.starts_with(name); });
}

void refuse_libraries(const ElfFacts& facts, std::vector<std::string>& reasons) {
    for (const std::string& library : facts.needed) {
        if (!is_allowed(library)) {
            reasons.push_back(
                "depends on " + library +
                "; only libc, libm, libstdc++, libgcc_s and libz may be shared, link " +
                "everything else statically");
        }
    }
    const auto versions = host_symbol_versions();
    for (const VersionNeed& need : facts.version_needs) {
        const auto library = versions.find(need.library);
        if (library != versions.end() && !library->second.contains(need.version)) {
            reasons.push_back(
                "needs " + need.version + " of " + need.library +
                ", which this system does not have; build the plugin on an older system");
        }
    }
}

}  // namespace

std::vector<std::string> refuse_reasons(const ElfFacts& facts) {
    std::vector<std::string> reasons;
    if (facts.export_count != 1 || facts.exports.front() != kEntrySymbol) {
        const bool has_entry =
            std::find(facts.exports.begin(), facts.exports.end(), kEntrySymbol) !=
            facts.exports.end();
        if (!has_entry) {
            reasons.push_back("does not export capstan_plugin_entry");
        } else {
            const auto other = std::find_if(
                facts.exports.begin(), facts.exports.end(), [](const std::string& name) {
                    return name != kEntrySymbol;
                });
            reasons.push_back("exports " + std::to_string(facts.export_count) + " symbols (" +
                              *other +
                              " among them), where only capstan_plugin_entry is allowed; link with "
                              "the SDK's version script");
        }
    }
    if (facts.unique_count > 0) {
        reasons.push_back("has " + std::to_string(facts.unique_count) +
                          " unique symbols, which two versions of the plugin would share; compile "
                          "with -fno-gnu-unique");
    }
    if (!facts.run_path.empty()) {
        reasons.push_back("has the run path \"" + facts.run_path + "\"; link without -rpath");
    }
    if (facts.text_relocations) {
        reasons.push_back("has text relocations; compile with -fPIC");
    }
    if (facts.static_tls) {
        reasons.push_back(
            "uses static thread-local storage, of which a process has very little; compile with "
            "-ftls-model=global-dynamic");
    }
    if (facts.executable_stack) {
        reasons.push_back("asks for an executable stack; link with -z noexecstack");
    }
    refuse_libraries(facts, reasons);
    return reasons;
}

}  // namespace capstan::plugin
