// `capstan up`: an API server, a node and an operator on this machine, and the objects of the given
// files brought to readiness. `capstan down`: ends what a killed `up` left running. Docs:
// docs/local.md. Thread: main.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace capstan::cli {

struct UpOptions {
    std::vector<std::string> files;  // manifests, applied in order
    std::string dir{".capstan"};     // everything is kept here
    std::uint16_t port{0};           // of the API server; 0: the one of last time, or any free one
    bool once{false};                // end after readiness and one put and get through the cluster
    // longest wait for readiness; passed: exit code 1, nothing left running
    std::chrono::seconds timeout{180};
    // operator configuration to start from; empty: the built-in one
    std::string config;
    std::string etcd_dir;  // holds the program etcd; empty: see find_etcd_dir
    bool api_only{false};  // the API server alone: no node, no operator, no etcd needed
};

// Both return the process's exit code (decisions in docs/operations.md): 0, 1 not ready in time, 2
// bad input, 3 a plugin, 4 the API server or etcd did not answer.
int run_up(const UpOptions& options);
int run_down(const std::string& dir);

}  // namespace capstan::cli
