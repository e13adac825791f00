// One short-lived child process with its output: credential plugins.
//
// No shell, no terminal, standard input is empty. The child leads a process group of its own, which
// is killed as a whole. When we are killed or the thread that started it ends, the kernel kills the
// child. Thread: [io]; callbacks never run inside the call.
#pragma once

#include "capstan/error.hpp"
#include "runtime/net/io_loop.hpp"

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace capstan::net {

inline constexpr std::size_t kCommandOutputBytesMax = 1024 * 1024;
inline constexpr std::size_t kCommandErrorsBytesKept = 4 * 1024;  // of standard error; the last

struct Command {
    std::vector<std::string> argv;         // argv[0]: a path, or a name looked for in $PATH
    std::vector<std::string> environment;  // "NAME=value", over our own
    std::chrono::nanoseconds time_max{std::chrono::seconds(60)};
};

struct CommandResult {
    int code{0};  // 128 + n: killed by signal n
    std::string output;
    std::string errors;
};

// Destroying it kills the child; no callback follows.
class RunningCommand {
public:
    virtual ~RunningCommand() = default;
};

using CommandDone = std::function<void(Result<CommandResult>)>;
// Any exit code is a success here. Errors: not_found (no such program), unavailable (cannot be
// started), timeout and too_large (it was killed).
std::unique_ptr<RunningCommand> run_command(IoLoop& loop, Command command, CommandDone done);

}  // namespace capstan::net
