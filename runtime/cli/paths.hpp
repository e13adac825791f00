// Where the program, its plugins, CRDs and helpers are: installed, or in a build
// tree beside the binary.
//
// Installed: PREFIX/bin/capstan, PREFIX/lib/capstan/plugins/*.so, PREFIX/share/capstan/crds. Build
// tree: plugins/*.so, launcher/ and chart/crds below the directory of the binary. Thread: any.
#pragma once

#include "capstan/error.hpp"

#include <string>
#include <vector>

namespace capstan::cli {

struct Paths {
    std::string binary;      // absolute, links resolved
    std::string launcher;    // capstan-launcher
    std::string plugin_dir;  // holds NAME.so
    std::string data_dir;    // holds crds/

    // Errors: not_found, names what is missing and where it was looked for.
    static Result<Paths> find();
};

// Directories that may hold etcd, best first: `chosen` (--etcd-dir), $CAPSTAN_ETCD_DIR,
// .capstan/etcd/bin of `dir`, then $PATH. One that was named and holds no etcd is an error.
// Errors: not_found, with the remedy.
Result<std::string> find_etcd_dir(const std::string& dir, const std::string& chosen = {});

std::string absolute_path(const std::string& path);
// sorted, absolute
std::vector<std::string> files_in(const std::string& directory, const std::string& suffix);

}  // namespace capstan::cli
