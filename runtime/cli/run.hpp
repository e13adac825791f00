// `capstan run`: loads the configured plugins and runs them against an API server until told
// to stop. Thread: main.
#pragma once

#include <string>
#include <vector>

namespace capstan::cli {

struct RunOptions {
    std::string config;                    // file; empty: the profile's built-in configuration
    std::string profile{"operator"};       // operator, steward
    std::vector<std::string> plugin_dirs;  // searched before those of the configuration
    std::string kubeconfig;                // overrides the configuration
    std::string context;                   // overrides the configuration and the current one
    bool validate_only{false};             // check everything, start nothing, ask no server
};

// Exit code: 0 stopped in order, 1 something did not stop in time, 2 configuration, 3 no plugin can
// be loaded (validate_only: any cannot), 4 API server unreachable, 5 leadership lost. A plugin file
// that is refused while others are good is logged and keeps readiness down.
int run(const RunOptions& options);

}  // namespace capstan::cli
