#include "runtime/plugin/host_versions.hpp"

#include <elf.h>
#include <link.h>

#include <string_view>

namespace capstan::plugin {

namespace {

using Versions = std::map<std::string, std::set<std::string>>;

// The mapped libraries are ours and trusted; glibc relocates the pointers of their dynamic
// sections, except the vDSO's.
int add_library(dl_phdr_info* info, std::size_t, void* user) {
    auto& versions = *static_cast<Versions*>(user);
    const ElfW(Dyn)* dynamic = nullptr;
    for (int i = 0; i < info->dlpi_phnum; ++i) {
        if (info->dlpi_phdr[i].p_type == PT_DYNAMIC) {
            dynamic =
                reinterpret_cast<const ElfW(Dyn)*>(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr);
        }
    }
    const std::string_view path = info->dlpi_name != nullptr ? info->dlpi_name : "";
    if (dynamic == nullptr || path.empty() || path.find("vdso") != std::string_view::npos) {
        return 0;
    }
    std::uintptr_t strings = 0, definitions = 0;
    std::size_t count = 0, soname = 0;
    for (; dynamic->d_tag != DT_NULL; ++dynamic) {
        switch (dynamic->d_tag) {
            case DT_STRTAB: strings = dynamic->d_un.d_ptr; break;
            case DT_VERDEF: definitions = dynamic->d_un.d_ptr; break;
            case DT_VERDEFNUM: count = dynamic->d_un.d_val; break;
            case DT_SONAME: soname = dynamic->d_un.d_val; break;
            default: break;
        }
    }
    if (strings < info->dlpi_addr || definitions < info->dlpi_addr || soname == 0) {
        return 0;  // none, or not relocated
    }
    const char* names = reinterpret_cast<const char*>(strings);
    std::set<std::string>& known = versions[names + soname];
    for (std::size_t i = 0; i < count; ++i) {
        const auto* definition = reinterpret_cast<const ElfW(Verdef)*>(definitions);
        const auto* aux = reinterpret_cast<const ElfW(Verdaux)*>(definitions + definition->vd_aux);
        known.insert(names + aux->vda_name);
        definitions += definition->vd_next;
    }
    return 0;
}

}  // namespace

Versions host_symbol_versions() {
    Versions versions;
    dl_iterate_phdr(&add_library, &versions);
    return versions;
}

}  // namespace capstan::plugin
