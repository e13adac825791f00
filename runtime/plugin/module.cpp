#include "runtime/plugin/module.hpp"

#include "runtime/plugin/plugin_file.hpp"

#include <boost/dll/shared_library.hpp>

#include <dlfcn.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace capstan::plugin {

namespace {

using Entry = const capstan_plugin*(const capstan_host*);

Error named(const std::string& path, const std::string& what) {
    return {Code::invalid, path + ": " + what, {}};
}

std::string_view view_of(capstan_str text) noexcept {
    return {text.ptr, static_cast<std::size_t>(text.len)};
}

Result<void> make_private_directory(const std::string& path) {
    if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) {
        return fail(Code::unavailable,
                    "cannot make the directory " + path + ": " + std::strerror(errno));
    }
    struct stat status {};
    if (::lstat(path.c_str(), &status) != 0 || !S_ISDIR(status.st_mode)) {
        return fail(Code::invalid, path + " is not a directory");
    }
    if ((status.st_mode & (S_IWGRP | S_IWOTH)) != 0 || status.st_uid != ::geteuid()) {
        return fail(
            Code::invalid,
            "the directory " + path + " must belong to this user and be writable by nobody else");
    }
    return ok();
}

Result<void> check_executable_mount(const std::string& directory) {
    struct statvfs mount {};
    if (::statvfs(directory.c_str(), &mount) == 0 && (mount.f_flag & ST_NOEXEC) != 0) {
        return fail(Code::invalid,
                    directory +
                        " is mounted noexec, nothing can be loaded from there; choose another "
                        "cache directory");
    }
    return ok();
}

// The private copy of the checked bytes; its digest is computed while it is written.
Result<std::string> private_copy(const std::string& cache_dir,
                                 const PluginFile& file,
                                 const std::string& sha256) {
    CAPSTAN_TRY(make_private_directory(cache_dir));
    CAPSTAN_TRY(check_executable_mount(cache_dir));
    const std::string directory = cache_dir + "/sha256-" + sha256;
    CAPSTAN_TRY(make_private_directory(directory));
    std::string path = directory + "/plugin.so";
    if (const auto existing = PluginFile::open(path)) {
        const auto digest = existing.value()->sha256_hex();
        if (digest && digest.value() == sha256) {
            return path;
        }
    }
    CAPSTAN_TRY(const std::string written, file.copy_to(path));
    if (written != sha256) {
        ::unlink(path.c_str());
        return fail(Code::invalid, "changed while it was checked");
    }
    return path;
}

// What the entry function sees: the host's tables, but a refusal lands here.
struct EntryHost {
    capstan_host host;
    std::string reason;
};

void collect_refusal(const capstan_host* host, capstan_rc, capstan_str message) noexcept {
    auto* entry = reinterpret_cast<EntryHost*>(const_cast<capstan_host*>(host));
    entry->reason = std::string(view_of(message).substr(0, 512));
}

// Everything that was ever mapped, of all loaders; never destroyed, see module.hpp. It is
// the one global of this folder, because the mappings are global to the process too.
// Loaders live on one thread.
struct Kept {
    std::vector<std::unique_ptr<boost::dll::shared_library>> libraries;
    std::vector<std::unique_ptr<Module>> modules;
    std::vector<std::unique_ptr<EntryHost>> hosts;  // a plugin may have kept what its entry got
};
Kept& kept() {
    static Kept* const registry = new Kept();  // tidy: allow new: never destroyed
    return *registry;
}

Result<Entry*> map_library(const std::string& path) {
    // `append_decorations` and search paths are off; the path is absolute.
    boost::dll::shared_library* library =
        kept().libraries.emplace_back(std::make_unique<boost::dll::shared_library>()).get();
    try {
        const auto mode = static_cast<boost::dll::load_mode::type>(RTLD_NODELETE);
        library->load(boost::dll::fs::path(path),
                      boost::dll::load_mode::rtld_now | boost::dll::load_mode::rtld_local | mode);
        return &library->get<Entry>(std::string(kEntrySymbol));
    } catch (const std::exception& e) {  // carries dlerror's text, the error_code overload does not
        return fail(Code::invalid,
                    "the dynamic loader refuses it: " + std::string(e.what()).substr(0, 512));
    }
}

std::string answer_problem(const capstan_plugin& table, const Manifest& manifest) {
    if (table.head.size < sizeof(capstan_plugin)) {
        return "its table has " + std::to_string(table.head.size) + " bytes, ABI 1.0 has " +
               std::to_string(sizeof(capstan_plugin));
    }
    if (table.head.abi >> 16U != manifest.abi_major) {
        return "its code speaks ABI major " + std::to_string(table.head.abi >> 16U) +
               ", its manifest says " + std::to_string(manifest.abi_major);
    }
    if (view_of(table.id) != manifest.id || view_of(table.version) != manifest.version) {
        return "its code says it is " + std::string(view_of(table.id)) + " " +
               std::string(view_of(table.version)) + ", its manifest says " + manifest.id + " " +
               manifest.version;
    }
    if (table.create == nullptr || table.start == nullptr || table.reconcile == nullptr ||
        table.stop == nullptr || table.destroy == nullptr) {
        return "its table lacks create, start, reconcile, stop or destroy";
    }
    return "";
}

template <class Table>
const Table* extension(const capstan_plugin& table, std::string_view id) noexcept {
    if (table.get_ext == nullptr) {
        return nullptr;
    }
    const auto* found = static_cast<const Table*>(table.get_ext({id.data(), id.size()}));
    return found != nullptr && found->head.size >= sizeof(Table) ? found : nullptr;
}

// What the manifest promises and the code does not have; "": nothing.
std::string missing_extension(const Module& module) {
    const Manifest& manifest = module.manifest();
    const auto lacks = [](const char* what, const char* id) {
        return std::string("its manifest names ") + what + ", its code has no " + id;
    };
    if (!manifest.services.empty() && module.service() == nullptr) {
        return lacks("services", "capstan.service/1");
    }
    if (!manifest.routes.empty() && module.http_server() == nullptr) {
        return lacks("routes", "capstan.http-server/1");
    }
    if (!manifest.webhooks.empty() && module.webhook() == nullptr) {
        return lacks("webhooks", "capstan.webhook/1");
    }
    if (!manifest.cli.empty() && module.cli() == nullptr) {
        return lacks("commands in \"cli\"", "capstan.cli/1");
    }
    return "";
}

}  // namespace

Loader::Loader(LoaderOptions options) : options_(std::move(options)) {}

Result<Candidate> Loader::check(const std::string& path) {
    InspectOptions inspect_options;
    inspect_options.host = options_.host;
    inspect_options.check_permissions = options_.check_permissions;
    Report report = inspect(path, inspect_options);
    if (!report.loadable()) {
        std::string reasons;
        for (const std::string& problem : report.problems) {
            reasons += (reasons.empty() ? "" : "; ") + problem;
        }
        return fail(named(path, reasons));
    }
    for (const Module* module : modules_) {
        if (module->manifest().id == report.manifest->id) {
            return fail(named(path,
                              "the plugin id " + report.manifest->id + " is loaded already, from " +
                                  module->path()));
        }
    }
    Candidate candidate;
    candidate.source_path_ = path;
    candidate.sha256_ = report.sha256;
    candidate.warnings_ = std::move(report.warnings);
    candidate.manifest_ = std::move(*report.manifest);
    if (path.front() == '/' && path.find("/sha256-" + report.sha256 + "/") != std::string::npos) {
        candidate.load_path_ = path;
        return candidate;
    }
    const auto file = PluginFile::open(path);
    if (!file) {
        return fail(named(path, file.error().message));
    }
    auto copy = private_copy(options_.cache_dir, *file.value(), report.sha256);
    if (!copy) {
        return fail(named(path, copy.error().message));
    }
    candidate.load_path_ = std::move(copy).value();
    return candidate;
}

Result<Module*> Loader::load(Candidate candidate, const capstan_host* host) {
    const std::string& source = candidate.source_path_;
    const bool duplicate =
        std::any_of(modules_.begin(), modules_.end(), [&candidate](const Module* module) {
            return module->manifest().id == candidate.manifest_.id;
        });
    if (duplicate || modules_.size() == kModulesMax) {
        return fail(named(source,
                          duplicate
                              ? "the plugin id " + candidate.manifest_.id + " is loaded already"
                              : "more than 64 plugins"));
    }
    if (const auto tried = try_mapping(candidate.load_path_, options_.trial_limit); !tried) {
        return fail(named(source, tried.error().message));
    }
    const auto entry = map_library(candidate.load_path_);
    if (!entry) {
        return fail(named(source, entry.error().message));
    }
    EntryHost& entry_host =
        *kept().hosts.emplace_back(std::make_unique<EntryHost>(EntryHost{*host, {}}));
    entry_host.host.refuse = &collect_refusal;
    const capstan_plugin* table = entry.value()(&entry_host.host);
    if (table == nullptr) {
        return fail(
            named(source,
                  "it refuses to be loaded: " +
                      (entry_host.reason.empty() ? "it gives no reason" : entry_host.reason)));
    }
    if (const std::string problem = answer_problem(*table, candidate.manifest_); !problem.empty()) {
        return fail(named(source, problem));
    }
    kept().modules.emplace_back(new Module());  // tidy: allow new: the constructor is private
    Module* module = kept().modules.back().get();
    module->table_ = table;
    module->service_ = extension<capstan_plugin_service>(*table, "capstan.service/1");
    module->http_server_ = extension<capstan_plugin_http_server>(*table, "capstan.http-server/1");
    module->webhook_ = extension<capstan_plugin_webhook>(*table, "capstan.webhook/1");
    module->cli_ = extension<capstan_plugin_cli>(*table, "capstan.cli/1");
    module->path_ = candidate.load_path_;
    module->sha256_ = candidate.sha256_;
    module->manifest_ = std::move(candidate.manifest_);
    if (const std::string problem = missing_extension(*module); !problem.empty()) {
        return fail(named(source, problem));
    }
    modules_.push_back(module);
    return module;
}

}  // namespace capstan::plugin
