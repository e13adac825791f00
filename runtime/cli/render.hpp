// `capstan render`: the objects that plugins would make of the given ones, without a cluster. Docs:
// docs/local.md. Thread: main.
#pragma once

#include "runtime/cli/render_objects.hpp"

#include <chrono>
#include <string>
#include <vector>

namespace capstan::cli {

struct RenderOptions {
    std::vector<std::string> files;          // manifests; "-": standard input
    std::string config;                      // operator configuration, or empty
    std::vector<std::string> plugins;        // these alone; empty: as `capstan run`
    std::vector<std::string> plugin_dirs;    // searched first
    std::vector<std::string> feature_gates;  // "etcd.EtcdMember=true"
    std::string ns{"default"};               // of objects that name none
    std::string output{"yaml"};              // or json
    bool all{false};                         // also what was given
    bool secrets{false};                     // also Secrets that plugins make
    bool verbose{false};                     // the plugins' log on stderr
    RenderShape shape;
    std::chrono::seconds timeout{60};
};

// The process's exit code: 0; 1 an object is refused, or no rest in time; 2 bad input or
// configuration; 3 a plugin. Objects are printed with 0 alone.
int run_render(const RenderOptions& options);

}  // namespace capstan::cli
