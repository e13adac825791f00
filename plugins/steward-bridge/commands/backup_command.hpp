// `capstan backup …`: the command this plugin brings (capstan.cli/1).
#pragma once

#include "capstan/cli.hpp"

namespace capstan::steward {

int run_backup_command(CommandCall& command);  // the exit code

}  // namespace capstan::steward
