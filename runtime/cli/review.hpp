// Everything that can be said about a configuration before a server is asked or plugin code runs.
// `capstan run` refuses to start on its problems, `run --validate-only` and `config check` print
// them. Thread: [startup].
#pragma once

#include "runtime/cli/plugins.hpp"
#include "runtime/config/operator_config.hpp"
#include "runtime/control/runtime.hpp"
#include "runtime/plugin/policy.hpp"

#include <string>
#include <vector>

namespace capstan::cli {

// A plugin that will be loaded, with its effective gates.
struct ReviewedPlugin {
    ChosenPlugin chosen;
    plugin::GateSet gates;
};

// A plugin file that must not be loaded. The others run; readiness says so.
struct RefusedPlugin {
    std::string name;    // as configured
    std::string reason;  // names the file
};

struct Review {
    std::vector<ReviewedPlugin> plugins;
    std::vector<RefusedPlugin> refused;
    std::vector<std::string> problems;  // all of them; with one nothing starts
    std::vector<std::string> warnings;
    int code{0};  // exit code of the problems: 2 configuration, 3 a plugin without a file
};

// `file`: of the configuration, for the texts; "" for a built-in one. `flag`: "--kubeconfig" or
// "--context" where that took the place of what the file says of the connection, else "". Reads the
// files that it names (plugins, certificates, kubeconfig), asks no server and opens no port.
Review review(const config::CheckedConfig& checked,
              const std::string& file,
              const std::vector<std::string>& plugin_dirs,
              const std::string& flag = {});

// The part of it that is about plugins: no listener, no connection.
Review review_plugins(const config::CheckedConfig& checked,
                      const std::string& file,
                      const std::vector<std::string>& plugin_dirs);

// What the runtime runs of a loaded file, under its configuration.
control::Plugin plugin_of(const plugin::Module& module, const ReviewedPlugin& reviewed);

// Settings that decode and that this version does not obey: silence would be worse. One line each.
std::vector<std::string> unsupported_settings(const config::OperatorConfig& config,
                                              const std::string& file);

// Prints problems, refusals and warnings to stderr as `who: …`; the exit code: 0, 2 or 3.
int report(const Review& review, const std::string& who);

}  // namespace capstan::cli
