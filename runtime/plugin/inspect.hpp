// What a plugin file is, found without running any of its code: bounded reads of the ELF file, its
// manifest, its dependencies, and the permissions of the file and its directory. `capstan inspect`
// prints it; the loader obeys it.
// Thread: any.
#pragma once

#include "capstan/json.hpp"
#include "runtime/plugin/elf_reader.hpp"
#include "runtime/plugin/manifest.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace capstan::plugin {

struct Report {
    std::string path;  // as given
    std::uint64_t size_bytes{0};
    std::string sha256;                 // hex; empty when the file could not be read
    std::optional<ElfFacts> elf;        // nullopt: not readable as a plugin
    std::optional<Manifest> manifest;   // nullopt: none, or refused
    std::vector<std::string> problems;  // one sentence each; empty: would be loaded
    std::vector<std::string> warnings;  // worth knowing, no reason to refuse

    bool loadable() const noexcept { return problems.empty() && manifest.has_value(); }
};

struct InspectOptions {
    HostOffer host;
    bool check_permissions{true};  // of the file and the directory it lies in
};

Report inspect(const std::string& path, const InspectOptions& options = {});

std::string to_text(const Report& report);  // for a person; ends with a newline
json::Value to_json(const Report& report);

// An array of strings.
json::Value list_of(const std::vector<std::string>& parts);

}  // namespace capstan::plugin
