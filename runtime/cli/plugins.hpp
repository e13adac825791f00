// Which plugin files a configuration means, and their check and loading. Thread: [startup].
#pragma once

#include "capstan/error.hpp"
#include "runtime/config/operator_config.hpp"
#include "runtime/plugin/gates.hpp"
#include "runtime/plugin/module.hpp"

#include <string>
#include <vector>

namespace capstan::cli {

struct ChosenPlugin {
    std::string name;  // as configured
    std::string path;
    config::PluginConfig config;
};

// Where plugin files are looked for, best first: `first` (--plugin-dir), the configuration's, then
// those that come with the program.
std::vector<std::string> plugin_directories(std::vector<std::string> first,
                                            const config::OperatorConfig& config);

// Every plugin file in `directories`, in their order: *.so, and of DIR/ID/sha256-*/plugin.so the
// one with the newest change time.
std::vector<std::string> plugin_files(const std::vector<std::string>& directories);

// Where the loader keeps its copies. What it lies in is made when it is missing.
std::string plugin_cache_directory();

// Every enabled plugin of the configuration with its file: `path`, else NAME.so (NAME: id or its
// first label) in one of `directories`, else DIR/ID/sha256-*/plugin.so with the newest change time.
// One sentence in `missing` for each without a file.
std::vector<ChosenPlugin> choose_plugins(const config::OperatorConfig& config,
                                         const std::vector<std::string>& directories,
                                         std::vector<std::string>& missing);

// The manifests of plugin files, read without running code. Errors: invalid, the first file that
// cannot be loaded, with the reason.
Result<std::vector<plugin::Manifest>> manifests_of(const std::vector<std::string>& files);
// The same where each plugin may be named once. Errors also: invalid, a file or a plugin twice.
Result<std::vector<plugin::Manifest>> distinct_manifests_of(const std::vector<std::string>& files);
// With the permissions that `config` leaves it: plugins.NAME.permissions, NAME its id or label.
plugin::Manifest under_policy(plugin::Manifest manifest, const config::OperatorConfig& config);
// The `permissions` of a plugin's configuration; empty when it has none.
std::vector<plugin::PermissionRule> policy_of(const config::PluginConfig& config);

// The set of gates for a manifest under the configured overrides; warnings are appended. Errors:
// invalid, names the plugin, the gate and those there are.
Result<plugin::GateSet> gates_for(const plugin::Manifest& manifest,
                                  const config::PluginConfig& config,
                                  std::vector<std::string>& warnings);

}  // namespace capstan::cli
