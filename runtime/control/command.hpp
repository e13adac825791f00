// One run of a plugin's command (capstan.cli/1), without instance, API server or configuration.
//
//     control::CommandHost host({loop, threads, …}, candidate.manifest());
//     CAPSTAN_TRY(plugin::Module* module, loader.load(std::move(candidate), host.host()));
//     host.start(*module->cli(), {"backup", {"list"}}, [&](CommandEnd end) { … });
//
// Thread: [io]; the command runs on a thread of its own.
#pragma once

#include "capstan/capstan.h"
#include "capstan/cli.h"
#include "capstan/error.hpp"
#include "runtime/control/runtime.hpp"

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace capstan::control {

inline constexpr int kExitCodeMax = 125;

// What a shell typed, and the streams, file descriptors that are borrowed.
struct CommandLine {
    std::string name;
    std::vector<std::string> args;
    int in{0}, out{1}, err{2};
};

struct CommandEnd {
    capstan_rc rc{CAPSTAN_OK};  // of run; E_INTERNAL: a code outside of 0 to kExitCodeMax
    int exit_code{0};
    int write_error{0};  // errno of the first write to `out` that failed; 0: none did
};

class CommandHost {
public:
    // `parts`: client and cache are there for what a command must not do; they need no server.
    CommandHost(Parts parts, const plugin::Manifest& manifest);
    ~CommandHost();  // requires: not started, or ended
    CommandHost(const CommandHost&) = delete;
    CommandHost& operator=(const CommandHost&) = delete;

    // For the plugin's entry and for its command; lives as long as the process.
    const capstan_host* host() const noexcept;

    // Once. `table` and `done`'s captures outlive the run. Errors: unavailable (no thread).
    Result<void> start(const capstan_plugin_cli& table,
                       CommandLine line,
                       std::function<void(CommandEnd)> done);
    void cancel();  // the command is asked to end; idempotent

private:
    struct State;
    std::shared_ptr<State> state_;  // shared with the thread of the command
};

}  // namespace capstan::control
