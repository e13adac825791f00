// `capstan debug`: prints the /debug page of an operator on this machine.
#pragma once

#include <string>

namespace capstan::cli {

struct DebugOptions {
    std::string address{"127.0.0.1:8080"};  // of its ops listener; or a URL
    std::string token_file;                 // with listeners.ops.authentication: kubernetes
    std::string ca_file;                    // of an https:// address
    bool as_json{false};
};

// 0; 1: it answers something else; 2: usage; 4: it does not answer.
int run_debug(const DebugOptions& options);

}  // namespace capstan::cli
