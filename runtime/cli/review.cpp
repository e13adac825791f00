#include "runtime/cli/review.hpp"

#include "runtime/plugin/inspect.hpp"

#include <algorithm>
#include <cstdio>
#include <map>

namespace capstan::cli {
namespace {

std::string joined(const std::vector<std::string>& texts, const std::string& between) {
    std::string all;
    for (const std::string& text : texts) {
        all += (all.empty() ? "" : between) + text;
    }
    return all;
}

// Settings of controllers the plugin does not have would be ignored for ever.
void check_controllers(const plugin::Manifest& manifest,
                       const ChosenPlugin& chosen,
                       std::vector<std::string>& problems) {
    std::vector<std::string> known;
    for (const plugin::ControllerSpec& controller : manifest.controllers) {
        known.push_back(controller.name);
    }
    for (const auto& [name, settings] : chosen.config.controllers) {
        if (std::find(known.begin(), known.end(), name) == known.end()) {
            problems.push_back("plugin " + manifest.id + ": controllers: unknown controller " +
                               name + "; known are " + joined(known, ", "));
        }
    }
}

// A webhook nobody serves is asked in vain, and with failurePolicy Fail that stops the users.
void check_listener(const plugin::Manifest& manifest,
                    const config::OperatorConfig& config,
                    Review& review) {
    if (!manifest.webhooks.empty() && !config.webhook.enabled) {
        review.warnings.push_back(
            "plugin " + manifest.id +
            " has webhooks and nothing listens for them; remedy: listeners.webhook with tls, or no "
            "webhook configuration in the cluster");
    }
}

void check_policy(const plugin::Manifest& manifest,
                  const ChosenPlugin& chosen,
                  std::vector<std::string>& problems) {
    if (!chosen.config.permissions) {
        return;
    }
    for (const std::string& what : plugin::policy_problems(manifest, policy_of(chosen.config))) {
        problems.push_back("plugin " + manifest.id + ": permissions: with them " + what);
    }
}

// `ids`: of the plugins seen so far, with the name each is configured under.
void review_plugin(const ChosenPlugin& chosen,
                   const config::OperatorConfig& config,
                   std::map<std::string, std::string>& ids,
                   Review& review) {
    const plugin::Report report = plugin::inspect(chosen.path);
    if (!report.loadable()) {
        const std::string why =
            report.problems.empty() ? "is no plugin" : joined(report.problems, "; ");
        review.refused.push_back({chosen.name, chosen.path + ": " + why});
        return;
    }
    const std::string& id = report.manifest->id;
    // Which of them loads shows only then: the loader takes the first and refuses the others.
    if (const auto [first, fresh] = ids.emplace(id, chosen.name); !fresh) {
        review.twins.push_back("plugins." + chosen.name + ": " + chosen.path + " is plugin " + id +
                               " as is plugins." + first->second +
                               "; remedy: leave one of them out");
    }
    if (chosen.name != id && chosen.name != id.substr(0, id.find('.'))) {
        review.warnings.push_back("plugins." + chosen.name + ": " + chosen.path + " is plugin " +
                                  id + " and runs under that id");
    }
    for (const std::string& warning : report.warnings) {
        review.warnings.push_back("plugin " + id + ": " + warning);
    }
    check_controllers(*report.manifest, chosen, review.problems);
    check_listener(*report.manifest, config, review);
    check_policy(*report.manifest, chosen, review.problems);
    auto gates = gates_for(*report.manifest, chosen.config, review.warnings);
    if (!gates) {
        review.problems.push_back(gates.error().message);
        return;
    }
    review.plugins.push_back({chosen, std::move(gates).value()});
}

}  // namespace

std::vector<plugin::PermissionRule> policy_of(const config::PluginConfig& config) {
    std::vector<plugin::PermissionRule> rules;
    for (const config::PermissionConfig& rule :
         config.permissions.value_or(std::vector<config::PermissionConfig>{})) {
        rules.push_back({rule.groups, rule.resources, rule.verbs, rule.resource_names});
    }
    return rules;
}

std::vector<std::string> unsupported_settings(const config::OperatorConfig& config,
                                              const std::string& file) {
    const config::LimitsConfig usual;
    const config::LimitsConfig& given = config.limits;
    struct Setting {
        bool used;
        const char* path;
        const char* what;
    };
    const Setting settings[] = {
        {given.requests_in_flight != usual.requests_in_flight, "/limits/requestsInFlight", nullptr},
        {given.request_timeout != usual.request_timeout, "/limits/requestTimeout", nullptr},
        {given.reconcile_timeout != usual.reconcile_timeout, "/limits/reconcileTimeout", nullptr},
        {given.cache_sync_timeout != usual.cache_sync_timeout, "/limits/cacheSyncTimeout", nullptr},
    };
    std::vector<std::string> problems;
    for (const Setting& setting : settings) {
        if (setting.used) {
            const char* what = setting.what != nullptr
                                   ? setting.what
                                   : "this version cannot change it; leave it at its default";
            problems.push_back((file.empty() ? "" : file + ": ") + setting.path + ": " + what);
        }
    }
    return problems;
}

Review review(const config::OperatorConfig& config,
              const std::string& file,
              const std::vector<std::string>& plugin_dirs) {
    Review review;
    review.problems = unsupported_settings(config, file);
    std::vector<std::string> missing;
    std::map<std::string, std::string> ids;
    for (const ChosenPlugin& chosen :
         choose_plugins(config, plugin_directories(plugin_dirs, config), missing)) {
        review_plugin(chosen, config, ids, review);
    }
    review.code = !review.problems.empty() ? 2 : missing.empty() ? 0 : 3;
    review.problems.insert(review.problems.end(), missing.begin(), missing.end());
    return review;
}

void judge_twins(Review& review) {
    if (!review.twins.empty() && review.code == 0) {
        review.code = 2;
    }
    review.problems.insert(review.problems.end(), review.twins.begin(), review.twins.end());
    review.twins.clear();
}

int report(const Review& review, const std::string& who) {
    for (const std::string& warning : review.warnings) {
        std::fprintf(stderr, "%s: warning: %s\n", who.c_str(), warning.c_str());
    }
    for (const std::string& problem : review.problems) {
        std::fprintf(stderr, "%s: %s\n", who.c_str(), problem.c_str());
    }
    for (const RefusedPlugin& refused : review.refused) {
        std::fprintf(stderr,
                     "%s: plugin \"%s\" is refused: %s\n",
                     who.c_str(),
                     refused.name.c_str(),
                     refused.reason.c_str());
    }
    return review.code != 0 ? review.code : review.refused.empty() ? 0 : 3;
}

}  // namespace capstan::cli
