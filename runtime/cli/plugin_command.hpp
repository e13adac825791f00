// Commands that plugins bring (capstan.cli/1): `capstan backup …`. They need no API server and no
// configuration. Thread: main.
#pragma once

#include <string>
#include <vector>

namespace capstan::cli {

struct OfferedCommand {
    std::string name, summary;
    std::string plugin;  // id
    std::string path;    // of its file
};

struct OfferedCommands {
    std::vector<OfferedCommand> commands;  // by name; of one name the first plugin found has it
    std::vector<std::string> refused;      // "FILE: why", files that must not be loaded
};

// What the plugins in `first` and in those directories that come with the program declare. None of
// their code runs.
OfferedCommands offered_commands(const std::vector<std::string>& first);

// A command line that begins with no command of the program: `[--plugin-dir DIR]… NAME ARG…`.
struct ForeignWords {
    std::vector<std::string> plugin_dirs;
    std::string name;  // "": a command of the program, none, or an option
    std::vector<std::string> args;
    bool asks_for_help{false};  // of the program
};
ForeignWords foreign_words(const std::vector<std::string>& own,
                           const std::vector<std::string>& words);

// Runs a command to its end. `own`: those of the program, for a suggestion. Exit code: the
// command's; 2 no plugin has it, 3 its plugin cannot be loaded or panicked, 128 and the number of
// the signal that ended it.
int run_plugin_command(const ForeignWords& words, std::vector<std::string> own);

}  // namespace capstan::cli
