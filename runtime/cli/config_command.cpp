#include "runtime/cli/config_command.hpp"

#include "runtime/cli/rbac.hpp"
#include "runtime/cli/review.hpp"
#include "runtime/cli/webhook_configuration.hpp"
#include "runtime/config/operator_config.hpp"
#include "runtime/config/yaml.hpp"
#include "runtime/kube/credentials.hpp"
#include "runtime/plugin/inspect.hpp"

#include <cstdio>

namespace capstan::cli {
namespace {

int complain(const Error& error, int code) {
    std::fprintf(stderr, "capstan: %s\n", error.message.c_str());
    return code;
}

}  // namespace

int run_inspect(const std::vector<std::string>& files, bool as_json) {
    bool all_good = true;
    json::Value reports = json::list();
    for (const std::string& file : files) {
        const plugin::Report report = plugin::inspect(file);
        all_good = all_good && report.loadable();
        if (as_json) {
            reports.push_back(plugin::to_json(report));
        } else {
            std::fputs(plugin::to_text(report).c_str(), stdout);
        }
    }
    if (as_json) {
        const json::Value& shown = files.size() == 1 ? reports.if_array()->front() : reports;
        std::printf("%s\n", json::dump_pretty(shown).c_str());
    }
    return all_good ? 0 : 3;
}

int run_rbac(const std::vector<std::string>& files,
             const std::string& name,
             const std::string& config) {
    config::OperatorConfig loaded;
    if (!config.empty()) {
        auto read = config::load_operator_config(config);
        if (!read) {
            return complain(read.error(), 2);
        }
        loaded = std::move(read).value();
    }
    if (const auto good = check_object_name("--name", name); !good) {
        return complain(good.error(), 2);
    }
    auto manifests = distinct_manifests_of(files);
    if (!manifests) {
        return complain(manifests.error(), 3);
    }
    for (plugin::Manifest& manifest : manifests.value()) {
        manifest = under_policy(std::move(manifest), loaded);
    }
    const bool reviews = loaded.ops.enabled && loaded.ops.authentication == "kubernetes";
    std::fputs(config::to_yaml(cluster_role(name, manifests.value(), reviews)).c_str(), stdout);
    const config::LeaderElectionConfig& election = loaded.leader_election;
    if (election.enabled) {
        const json::Value role =
            lease_role(name + "-leader-election", election.lease_namespace, election.lease_name);
        std::fputs(("---\n" + config::to_yaml(role)).c_str(), stdout);
    }
    return 0;
}

int run_webhooks(const std::vector<std::string>& files, const WebhooksOptions& options) {
    WebhookTarget target{options.service, options.ns, options.port, options.url, {}};
    auto ca = kube::read_small_file(options.ca_file);
    if (!ca) {
        return complain(with_context(ca.error(), "--ca-file"), 2);
    }
    target.ca_pem = std::move(ca).value();
    for (const Result<void>& good :
         {check_object_name("--name", options.name), check_target(target)}) {
        if (!good) {
            return complain(with_context(good.error(), "webhooks"), 2);
        }
    }
    const auto manifests = distinct_manifests_of(files);
    if (!manifests) {
        return complain(manifests.error(), 3);
    }
    const json::Value made = webhook_configurations(options.name, target, manifests.value());
    if (made.find("items")->if_array()->empty()) {
        return complain({Code::invalid, "none of these plugins has a webhook", {}}, 3);
    }
    std::fputs(config::to_yaml(made).c_str(), stdout);
    return 0;
}

int run_config_check(const std::string& file, const std::vector<std::string>& plugin_dirs) {
    const auto checked = config::check_operator_config_file(file);
    if (!checked) {
        return complain(checked.error(), 2);
    }
    Review reviewed = review(checked.value(), file, plugin_dirs);
    const int code = report(reviewed, "capstan");
    if (code == 0) {
        const std::size_t count = reviewed.plugins.size();
        std::printf("%s: good, %zu plugin%s\n", file.c_str(), count, count == 1 ? "" : "s");
    }
    return code;
}

int run_config_print(const std::string& file) {
    config::OperatorConfig config;
    if (!file.empty()) {
        auto loaded = config::load_operator_config(file);
        if (!loaded) {
            return complain(loaded.error(), 2);
        }
        config = std::move(loaded).value();
    }
    std::fputs(config::print(config).c_str(), stdout);
    return 0;
}

int run_config_reference() {
    std::fputs(config::operator_config_reference().c_str(), stdout);
    return 0;
}

}  // namespace capstan::cli
