// Loading of plugins: check, then map, then call the entry; never unload.
//
//     Loader loader({.cache_dir = "/var/lib/capstan/plugins"});
//     CAPSTAN_TRY(auto candidate, loader.check("etcd.so"));            // no plugin code has run
//     … make the host tables for candidate.manifest() …
//     CAPSTAN_TRY(Module* module, loader.load(std::move(candidate), host));
//     module->table().create(host, config, &ctl);
//
// What is mapped is a private copy under a path that holds the file's digest, because glibc hands
// out the old mapping for a path it has seen. Libraries are marked NODELETE and their handles are
// leaked on purpose: a thread-local destructor or a running thread of an unloaded plugin is a
// crash. Thread: one loader on one thread; a Module is immutable.
#pragma once

#include "capstan/capstan.h"
#include "capstan/cli.h"
#include "capstan/error.hpp"
#include "capstan/webhook.h"
#include "runtime/plugin/inspect.hpp"
#include "runtime/plugin/manifest.hpp"
#include "runtime/plugin/trial.hpp"

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace capstan::plugin {

inline constexpr std::size_t kModulesMax = 64;

// A file that passed every check and the private copy of exactly the checked bytes.
class Candidate {
public:
    const Manifest& manifest() const noexcept { return manifest_; }
    const std::string& source_path() const noexcept { return source_path_; }
    const std::string& load_path() const noexcept { return load_path_; }  // holds the digest
    const std::string& sha256() const noexcept { return sha256_; }
    const std::vector<std::string>& warnings() const noexcept { return warnings_; }

private:
    friend class Loader;
    Manifest manifest_;
    std::string source_path_, load_path_, sha256_;
    std::vector<std::string> warnings_;
};

// A loaded plugin. Lives until the process ends.
class Module {
public:
    Module(const Module&) = delete;
    Module& operator=(const Module&) = delete;

    const Manifest& manifest() const noexcept { return manifest_; }
    const capstan_plugin& table() const noexcept { return *table_; }
    const std::string& path() const noexcept { return path_; }
    const std::string& sha256() const noexcept { return sha256_; }

    // The plugin's own extensions; nullptr: it has none of that name (or is older than it).
    const capstan_plugin_service* service() const noexcept { return service_; }
    const capstan_plugin_http_server* http_server() const noexcept { return http_server_; }
    const capstan_plugin_webhook* webhook() const noexcept { return webhook_; }
    const capstan_plugin_cli* cli() const noexcept { return cli_; }

private:
    friend class Loader;
    Module() = default;
    Manifest manifest_;
    std::string path_, sha256_;
    const capstan_plugin* table_{nullptr};
    const capstan_plugin_service* service_{nullptr};
    const capstan_plugin_http_server* http_server_{nullptr};
    const capstan_plugin_webhook* webhook_{nullptr};
    const capstan_plugin_cli* cli_{nullptr};
};

struct LoaderOptions {
    // absolute, ours alone (0700 is made); copies go to <cache_dir>/sha256-<hex>/plugin.so
    std::string cache_dir;
    HostOffer host;
    bool check_permissions{true};
    std::chrono::milliseconds trial_limit{kTrialMax};
};

class Loader {
public:
    explicit Loader(LoaderOptions options);

    // Errors: invalid or unsupported, one sentence per reason, joined by "; "; each names the file.
    Result<Candidate> check(const std::string& path);
    // Maps the copy, in a child process first (trial.hpp), and calls its entry with `host`, which
    // must live as long as the process.
    // Errors: invalid (what the trial saw; the loader's own text; an entry that refused, with its
    // reason; an answer that contradicts the manifest; an id that is loaded already). Code of the
    // plugin may have run.
    Result<Module*> load(Candidate candidate, const capstan_host* host);

    // in order of loading; never freed
    const std::vector<Module*>& modules() const noexcept { return modules_; }

private:
    LoaderOptions options_;
    std::vector<Module*> modules_;
};

}  // namespace capstan::plugin
