// `capstan inspect`, `capstan config check|print`: look, run nothing. Exit codes as
// in docs/operations.md.
#pragma once

#include <string>
#include <vector>

namespace capstan::cli {

// 3 when one would not be loaded
int run_inspect(const std::vector<std::string>& files, bool as_json);
int run_rbac(const std::vector<std::string>& files, const std::string& name);
int run_config_check(const std::string& file, const std::vector<std::string>& plugin_dirs);
int run_config_print(const std::string& file);

}  // namespace capstan::cli
