#include "plugins/steward-bridge/commands/backup_command.hpp"

#include "plugins/steward-bridge/commands/session.hpp"

#include <array>
#include <utility>

namespace capstan::steward {
namespace {

constexpr std::array<std::pair<std::string_view, int (*)(Session&)>, 8> kCommands{{
    {"list", &run_list},
    {"explain", &run_explain},
    {"verify", &run_verify},
    {"restore", &run_restore},
    {"compact", &run_compact},
    {"copy", &run_copy},
    {"dump", &run_dump},
    {"check", &run_check},
}};

}  // namespace

int run_backup_command(CommandCall& command) {
    const ParsedArguments parsed = parse_backup_arguments(command.args());
    if (!parsed.arguments) {
        if (parsed.exit_code == CAPSTAN_EXIT_GOOD) {
            return command.print(parsed.text) ? CAPSTAN_EXIT_GOOD : CAPSTAN_EXIT_FAILED;
        }
        command.complain(parsed.text);
        return parsed.exit_code;
    }
    Session session(command, *parsed.arguments);
    for (const auto& [name, run] : kCommands) {
        if (name == parsed.arguments->command) {
            return run(session);
        }
    }
    return CAPSTAN_EXIT_USAGE;
}

}  // namespace capstan::steward
