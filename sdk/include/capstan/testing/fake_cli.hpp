// Commands of plugins under the fake host.
//
//     FakeHost host;
//     const CommandOutput said =
//         run_command(host, &capstan_plugin_entry, "hello", {.args = {"you"}});
//     EXPECT_EQ(said.exit_code, 0);
//     EXPECT_EQ(said.out, "hello you\n");
//
// Its lies: nothing is lost when a reader goes; a failing write is asked for with fail_call.
// Thread: one.
#pragma once

#include "capstan/cli.h"
#include "capstan/testing/fake_host.hpp"

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace capstan::testing {

struct CommandInput {
    std::vector<std::string> args;
    std::map<std::string, std::string, std::less<>> environment;
    std::string in;              // what is piped into it
    std::uint32_t terminals{0};  // as capstan_command has it
    std::uint32_t columns{0};
};

struct CommandOutput {
    capstan_rc rc{CAPSTAN_E_UNSUPP};  // of run; E_UNSUPP: no such extension, or the entry refused
    std::int32_t exit_code{-1};
    std::string out, err;
};

// Runs the command of a plugin once, without an instance, as a host does.
CommandOutput run_command(FakeHost& host,
                          PluginEntry entry,
                          std::string_view command,
                          const CommandInput& input = {});

}  // namespace capstan::testing
