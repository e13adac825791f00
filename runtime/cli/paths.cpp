#include "runtime/cli/paths.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <system_error>

namespace capstan::cli {
namespace {

namespace fs = std::filesystem;

bool is_program(const fs::path& path) {
    return ::access(path.c_str(), X_OK) == 0 && fs::is_regular_file(path);
}

// The first of `candidates` that exists.
Result<std::string> first_of(const std::vector<fs::path>& candidates, const std::string& what) {
    std::string tried;
    for (const fs::path& candidate : candidates) {
        std::error_code ignored;
        if (fs::exists(candidate, ignored)) {
            return candidate.string();
        }
        tried += (tried.empty() ? "" : ", ") + candidate.string();
    }
    return fail(Code::not_found, what + " is missing; looked for " + tried);
}

}  // namespace

Result<Paths> Paths::find() {
    std::error_code error;
    const fs::path binary = fs::read_symlink("/proc/self/exe", error);
    if (error) {
        return fail(Code::unavailable, "/proc/self/exe: " + error.message());
    }
    const fs::path dir = binary.parent_path();
    Paths paths;
    paths.binary = binary.string();
    CAPSTAN_TRY(paths.launcher,
                first_of({dir / "capstan-launcher", dir / "launcher" / "capstan-launcher"},
                         "capstan-launcher"));
    CAPSTAN_TRY(paths.plugin_dir,
                first_of({dir / "plugins", dir.parent_path() / "lib" / "capstan" / "plugins"},
                         "the plugin directory"));
    CAPSTAN_TRY(
        paths.data_dir,
        first_of({dir / "chart", dir.parent_path() / "share" / "capstan"}, "the data directory"));
    return paths;
}

Result<std::string> find_etcd_dir(const std::string& dir, const std::string& chosen) {
    if (!chosen.empty()) {
        if (is_program(fs::path(chosen) / "etcd")) {
            return absolute_path(chosen);
        }
        return fail(Code::not_found, "--etcd-dir " + chosen + " holds no program etcd");
    }
    if (const char* given = std::getenv("CAPSTAN_ETCD_DIR")) {
        if (is_program(fs::path(given) / "etcd")) {
            return absolute_path(given);
        }
        return fail(Code::not_found,
                    std::string("CAPSTAN_ETCD_DIR=") + given + " holds no program etcd");
    }
    std::vector<fs::path> candidates{fs::path(dir) / "etcd" / "bin"};
    const char* path = std::getenv("PATH");
    std::string_view rest = path == nullptr ? "" : path;
    while (!rest.empty()) {
        const std::size_t end = std::min(rest.find(':'), rest.size());
        candidates.emplace_back(rest.substr(0, end));
        rest.remove_prefix(std::min(end + 1, rest.size()));
    }
    for (const fs::path& candidate : candidates) {
        if (is_program(candidate / "etcd")) {
            return absolute_path(candidate.string());
        }
    }
    return fail(Code::not_found,
                "there is no program etcd in " + dir +
                    "/etcd/bin or PATH; remedy: tools/fetch-etcd " + dir +
                    "/etcd, or --etcd-dir with the directory that holds it");
}

std::string absolute_path(const std::string& path) {
    std::error_code error;
    const fs::path absolute = fs::absolute(path, error);
    return error ? path : absolute.lexically_normal().string();
}

std::vector<std::string> files_in(const std::string& directory, const std::string& suffix) {
    std::vector<std::string> files;
    std::error_code error;
    for (fs::directory_iterator at(directory, error), end; !error && at != end;
         at.increment(error)) {
        const std::string name = at->path().filename().string();
        if (name.size() > suffix.size() &&
            name.compare(name.size() - suffix.size(), suffix.size(), suffix) == 0) {
            files.push_back(absolute_path(at->path().string()));
        }
    }
    std::sort(files.begin(), files.end());
    return files;
}

}  // namespace capstan::cli
