#include "runtime/cli/plugins.hpp"

#include "runtime/cli/paths.hpp"
#include "runtime/plugin/inspect.hpp"
#include "runtime/plugin/policy.hpp"

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <optional>

namespace capstan::cli {
namespace {

namespace fs = std::filesystem;

// DIR/ID/sha256-*/plugin.so: the layout of installed versions side by side.
std::optional<std::string> newest_version(const fs::path& directory) {
    std::optional<std::string> best;
    fs::file_time_type best_time{};
    std::error_code error;
    for (fs::directory_iterator at(directory, error), end; !error && at != end;
         at.increment(error)) {
        const fs::path file = at->path() / "plugin.so";
        std::error_code absent;
        const auto time = fs::last_write_time(file, absent);
        if (!absent && (!best || time > best_time)) {
            best = file.string();
            best_time = time;
        }
    }
    return best;
}

std::optional<std::string> find_plugin(const std::string& name,
                                       const std::vector<std::string>& directories) {
    const std::string label = name.substr(0, name.find('.'));
    for (const std::string& directory : directories) {
        for (const std::string& stem : {name, label}) {
            const fs::path file = fs::path(directory) / (stem + ".so");
            std::error_code error;
            // A link that leads nowhere is refused by name, not passed over for the next directory.
            if (fs::symlink_status(file, error).type() != fs::file_type::not_found) {
                return absolute_path(file.string());
            }
            if (const auto version = newest_version(fs::path(directory) / stem)) {
                return version;
            }
        }
    }
    return std::nullopt;
}

}  // namespace

std::vector<std::string> plugin_files(const std::vector<std::string>& directories) {
    std::vector<std::string> files;
    for (const std::string& directory : directories) {
        const std::vector<std::string> plain = files_in(directory, ".so");
        files.insert(files.end(), plain.begin(), plain.end());
        std::error_code error;
        for (fs::directory_iterator at(directory, error), end; !error && at != end;
             at.increment(error)) {
            std::error_code ignored;
            const auto version =
                at->is_directory(ignored) ? newest_version(at->path()) : std::nullopt;
            if (version) {
                files.push_back(absolute_path(*version));
            }
        }
    }
    return files;
}

std::string plugin_cache_directory() {
    const char* cache = std::getenv("XDG_CACHE_HOME");
    std::string directory = cache != nullptr ? std::string(cache) + "/capstan/plugins"
                                             : "/tmp/capstan-plugins-" + std::to_string(::getuid());
    std::error_code ignored;  // the loader says what is wrong with it
    fs::create_directories(fs::path(directory).parent_path(), ignored);
    return directory;
}

std::vector<std::string> plugin_directories(std::vector<std::string> first,
                                            const config::OperatorConfig& config) {
    first.insert(first.end(), config.plugin_dirs.begin(), config.plugin_dirs.end());
    if (const auto paths = Paths::find()) {
        first.push_back(paths.value().plugin_dir);
    }
    return first;
}

std::vector<ChosenPlugin> choose_plugins(const config::OperatorConfig& config,
                                         const std::vector<std::string>& directories,
                                         std::vector<std::string>& missing) {
    std::vector<ChosenPlugin> chosen;
    std::string searched;
    for (const std::string& directory : directories) {
        searched += (searched.empty() ? "" : ", ") + directory;
    }
    for (const auto& [name, plugin] : config.plugins) {
        if (!plugin.enabled) {
            continue;
        }
        const auto path = plugin.path.empty() ? find_plugin(name, directories)
                                              : std::optional(absolute_path(plugin.path));
        std::error_code error;
        if (path && fs::symlink_status(*path, error).type() != fs::file_type::not_found) {
            chosen.push_back({name, *path, plugin});
        } else if (path) {
            missing.push_back("plugin \"" + name + "\": " + *path + " does not exist");
        } else {
            missing.push_back("plugin \"" + name + "\": no " + name.substr(0, name.find('.')) +
                              ".so in " + searched + "; remedy: plugins." + name +
                              ".path, or --plugin-dir");
        }
    }
    return chosen;
}

Result<std::vector<plugin::Manifest>> manifests_of(const std::vector<std::string>& files) {
    std::vector<plugin::Manifest> manifests;
    for (const std::string& file : files) {
        plugin::Report report = plugin::inspect(file);
        if (!report.loadable()) {
            return fail(Code::invalid,
                        report.problems.empty() ? file + " is no plugin" : report.problems.front());
        }
        manifests.push_back(std::move(*report.manifest));
    }
    return manifests;
}

Result<std::vector<plugin::Manifest>> distinct_manifests_of(const std::vector<std::string>& files) {
    std::map<std::string, std::string> seen;  // resolved path, plugin id -> file as given
    for (const std::string& file : files) {
        std::error_code error;
        const fs::path real = fs::canonical(file, error);
        if (!seen.emplace(error ? file : real.string(), file).second) {
            return fail(Code::invalid, file + " is given twice");
        }
    }
    CAPSTAN_TRY(auto manifests, manifests_of(files));
    for (std::size_t i = 0; i < manifests.size(); ++i) {
        if (const auto [first, fresh] = seen.emplace(manifests[i].id, files[i]); !fresh) {
            return fail(Code::invalid,
                        files[i] + " and " + first->second + " are both plugin " + manifests[i].id +
                            "; give one of them");
        }
    }
    return manifests;
}

std::vector<plugin::PermissionRule> policy_of(const config::PluginConfig& config) {
    std::vector<plugin::PermissionRule> rules;
    for (const config::PermissionConfig& rule :
         config.permissions.value_or(std::vector<config::PermissionConfig>{})) {
        rules.push_back({rule.groups, rule.resources, rule.verbs, rule.resource_names});
    }
    return rules;
}

plugin::Manifest under_policy(plugin::Manifest manifest, const config::OperatorConfig& config) {
    for (const std::string& name : {manifest.id, manifest.id.substr(0, manifest.id.find('.'))}) {
        const auto found = config.plugins.find(name);
        if (found != config.plugins.end() && found->second.permissions) {
            manifest.permissions = plugin::narrow(manifest.permissions, policy_of(found->second));
            break;
        }
    }
    return manifest;
}

Result<plugin::GateSet> gates_for(const plugin::Manifest& manifest,
                                  const config::PluginConfig& config,
                                  std::vector<std::string>& warnings) {
    std::vector<plugin::GateOverride> overrides;
    for (const auto& [name, enabled] : config.feature_gates) {
        overrides.push_back({name, enabled});
    }
    CAPSTAN_TRY(const plugin::Version version, plugin::Version::parse(manifest.version));
    plugin::GateResult result = manifest.gates.effective(version, overrides);
    for (const std::string& warning : result.warnings) {
        warnings.push_back("plugin " + manifest.id + ": " + warning);
    }
    for (const std::string& note : manifest.gates.off_notes(version, result.set)) {
        warnings.push_back("plugin " + manifest.id + ": " + note);
    }
    if (!result.errors.empty()) {
        std::string text;
        for (const std::string& error : result.errors) {
            text +=
                (text.empty() ? "" : "\n") + ("plugin " + manifest.id + ": featureGates: " + error);
        }
        return fail(Code::invalid, text);
    }
    return std::move(result.set);
}

}  // namespace capstan::cli
