#include "runtime/cli/run.hpp"

#include "runtime/cli/exit_guard.hpp"
#include "runtime/cli/host.hpp"
#include "runtime/cli/review.hpp"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>

namespace capstan::cli {
namespace {

// Containers of a pod share 127.0.0.1, except in local mode, where the pod has an address of its
// own. Without TLS nobody else is listened to; with it all are. The launcher has a socket of its
// own in either case (docs/adr/0005).
void listen_as_steward(config::OperatorConfig& config) {
    const bool local = environment("CAPSTAN_POD_MAP").has_value();
    const std::string pod_ip = environment("POD_IP").value_or("127.0.0.1");
    const std::string near = local ? pod_ip : "127.0.0.1";
    const std::string all = pod_ip.find(':') == std::string::npos ? "0.0.0.0" : "::";
    const bool secure = !config.api.tls.certificate_file.empty();
    config.api.enabled = true;
    config.api.port = static_cast<std::uint16_t>(
        std::atoi(environment("CAPSTAN_API_PORT").value_or("8080").c_str()));
    config.api.address = secure && !local ? all : near;
    if (const auto run_dir = environment("CAPSTAN_RUN_DIR")) {
        config.api_local.enabled = true;
        config.api_local.address = "unix:" + *run_dir + "/steward.sock";
        const std::string files = *run_dir + "/tls/backup/";
        config.api_secure = config.api;
        config.api_secure.enabled = !secure;
        config.api_secure.address = local ? near : all;
        config.api_secure.tls = {files + "tls.crt", files + "tls.key", files + "ca.crt", "request"};
    }
    config.ops.address = near;
    config.ops.port = 8081;
}

// The configuration of the file, or the profile's own. Errors: there is none to speak of.
Result<config::CheckedConfig> load_config(const RunOptions& options) {
    config::CheckedConfig checked;
    config::OperatorConfig& config = checked.config;
    if (!options.config.empty()) {
        CAPSTAN_TRY(checked, config::check_operator_config_file(options.config));
    } else if (options.profile == "operator") {
        config.plugins["etcd"] = {};
        config.plugins["custodian"] = {};
    }
    if (options.profile == "steward") {
        if (config.leader_election.enabled) {
            checked.problems.push_back(
                options.config +
                ": /leaderElection/enabled: a steward works for its own pod and is never elected; "
                "write false");
        }
        config.plugins.try_emplace("steward-bridge");
        listen_as_steward(config);
    } else if (options.profile != "operator") {
        return fail(Code::invalid,
                    "--profile " + options.profile + ": there are operator and steward");
    }
    if (!options.kubeconfig.empty()) {
        config.kubeconfig = options.kubeconfig;
    }
    if (!options.context.empty()) {
        config.context = options.context;
    }
    return checked;
}

}  // namespace

int run(const RunOptions& options) {
    auto checked = load_config(options);
    if (!checked) {
        return complain(checked.error(), 2);
    }
    std::string flag = options.context.empty() ? "" : "--context";
    if (!options.kubeconfig.empty()) {
        flag = "--kubeconfig";
    }
    Review reviewed = review(checked.value(), options.config, options.plugin_dirs, flag);
    if (options.validate_only) {
        const int code = report(reviewed, "capstan run");
        if (code == 0) {
            const std::size_t count = reviewed.plugins.size();
            std::printf("good, %zu plugin%s\n", count, count == 1 ? "" : "s");
        }
        return code;
    }
    if (reviewed.code != 0) {
        return report(reviewed, "capstan run");
    }
    const auto host =
        std::make_unique<Host>(std::move(checked.value().config), std::move(reviewed));
    const int code = host->run();
    end_guard();
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    // Static destructors of plugins must not race with a worker that did not come back.
    host->end_children();
    std::fflush(nullptr);
    ::_exit(code);
#else
    return code;
#endif
}

}  // namespace capstan::cli
