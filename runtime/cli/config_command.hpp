// `capstan inspect|rbac|webhooks`, `capstan config check|print`: look, run nothing. Exit codes as
// in docs/operations.md.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace capstan::cli {

// 3 when one would not be loaded
int run_inspect(const std::vector<std::string>& files, bool as_json);
// `config`: of the operator, "" for none: with what its settings need, and with leader election on
// a Role for its Lease.
int run_rbac(const std::vector<std::string>& files,
             const std::string& name,
             const std::string& config);
struct WebhooksOptions {
    std::string name{"capstan"};  // of the configurations
    std::string service, ns, url, ca_file;
    std::uint16_t port{443};
};
int run_webhooks(const std::vector<std::string>& files, const WebhooksOptions& options);
int run_config_check(const std::string& file, const std::vector<std::string>& plugin_dirs);
int run_config_print(const std::string& file);
int run_config_reference();  // every key, as a Markdown table

}  // namespace capstan::cli
