// Subcommands in C++ (capstan.cli/1): `capstan NAME …` without an API server.
//
//     // manifest: "requires": {"extensions": ["capstan.cli/1", …]},
//     //   "cli": [{"name": "hello", "summary": "Greet somebody"}]
//     int hello(capstan::CommandCall& command) {
//         if (command.args().size() != 1) {
//             command.complain("usage: capstan hello NAME\n");
//             return CAPSTAN_EXIT_USAGE;
//         }
//         return command.print("hello " + command.args()[0] + "\n") ? CAPSTAN_EXIT_GOOD
//                                                                    : CAPSTAN_EXIT_FAILED;
//     }
//
//     capstan::Result<void> make_plugin(capstan::Setup& setup) {
//         capstan::add_command(setup, "hello", &hello);
//         if (capstan::is_for_command(setup)) {
//             return capstan::ok();  // no pod, no configuration: commands alone
//         }
//         …
//     }
//
// What a command throws ends the process with code 3.
#pragma once

#include "capstan/cli.h"
#include "capstan/plugin.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace capstan {

// One run of a command: what it was given and where it writes. Thread: the one run is on.
class CommandCall {
public:
    CommandCall(Call& call, const capstan_ext_cli& table, const capstan_command& command);
    CommandCall(const CommandCall&) = delete;
    CommandCall& operator=(const CommandCall&) = delete;

    const std::string& name() const noexcept { return name_; }
    const std::vector<std::string>& args() const noexcept { return args_; }
    std::optional<std::string> environment(std::string_view name) const;
    // `stream`: CAPSTAN_STDIN, CAPSTAN_STDOUT or CAPSTAN_STDERR.
    bool is_terminal(std::int32_t stream) const noexcept;
    std::uint32_t columns() const noexcept { return columns_; }  // 0: not known

    // To stdout. Errors: unavailable; the host reports it at the end.
    Result<void> print(std::string_view text);
    // To stderr; what cannot be written there is lost.
    void complain(std::string_view text) noexcept;
    // From stdin; 0: the end. Errors: cancelled, unavailable.
    Result<std::size_t> read(std::span<char> into);

    // Time, digests and HTTP; its cancelled() tells of SIGINT and SIGTERM.
    Call& call() noexcept { return call_; }

private:
    Call& call_;
    const capstan_ext_cli& table_;
    const std::uint32_t terminals_, columns_;
    std::string name_;
    std::vector<std::string> args_;
};

// The exit code, 0 to 125.
using CommandBody = std::function<int(CommandCall&)>;

// In make_plugin. `name` must be one of the manifest's "cli".
void add_command(Setup& setup, std::string name, CommandBody body);

// True while make_plugin runs for a command: only what add_command adds counts.
bool is_for_command(const Setup& setup) noexcept;

}  // namespace capstan
