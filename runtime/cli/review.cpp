#include "runtime/cli/review.hpp"

#include "runtime/cli/connection.hpp"
#include "runtime/cli/ops_server.hpp"
#include "runtime/kube/credentials.hpp"
#include "runtime/net/certificate_watcher.hpp"
#include "runtime/net/http_client.hpp"
#include "runtime/plugin/config_schema.hpp"
#include "runtime/plugin/inspect.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <utility>

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

std::string in_file(const std::string& file) {
    return file.empty() ? std::string() : file + ": ";
}

// What the plugin's manifest says of its own configuration.
void check_settings(const plugin::Manifest& manifest,
                    const ChosenPlugin& chosen,
                    const std::string& file,
                    std::vector<std::string>& problems) {
    if (!manifest.config_schema.is_object() || chosen.config.config.is_null()) {
        return;
    }
    for (const std::string& problem :
         plugin::config_problems(manifest.config_schema, chosen.config.config)) {
        problems.push_back(in_file(file) + "/plugins/" + chosen.name + "/config" + problem);
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

// "1.5s", "250ms"
std::string to_text(std::chrono::nanoseconds value) {
    const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(value).count();
    return ms % 1000 == 0 ? std::to_string(ms / 1000) + "s" : std::to_string(ms) + "ms";
}

// What a listener would refuse at its start, and a certificate that has ended: it is served.
void check_tls(const std::string& name,
               const config::ListenerConfig& listener,
               const std::string& file,
               Review& review) {
    const config::TlsConfig& tls = listener.tls;
    if (!listener.enabled || tls.certificate_file.empty() || tls.key_file.empty()) {
        return;
    }
    const std::string where = in_file(file) + "/listeners/" + name + "/tls: ";
    const auto read = net::read_server_tls({tls.certificate_file, tls.key_file, tls.client_ca_file},
                                           &kube::read_small_file);
    if (!read) {
        review.problems.push_back(where + read.error().message);
        return;
    }
    const auto info = net::check_server_tls(read.value(), tls.certificate_file);
    if (!info) {
        review.problems.push_back(where + info.error().message);
        return;
    }
    const WallTime ends = info.value().validity.not_after;
    if (ends <=
        std::chrono::time_point_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now())) {
        review.warnings.push_back(where + tls.certificate_file + " has ended at " +
                                  to_rfc3339(ends) +
                                  "; it is served and readiness fails until there is another");
    }
}

// Bearer tokens are as good as passwords.
void check_tokens_in_clear(const config::OperatorConfig& config,
                           const std::string& file,
                           Review& review) {
    const config::ListenerConfig& ops = config.ops;
    if (ops.enabled && ops.authentication == "kubernetes" && ops.tls.certificate_file.empty() &&
        !is_loopback(ops.address)) {
        review.warnings.push_back(
            in_file(file) + "/listeners/ops: authentication kubernetes on " + ops.address +
            " without tls: whoever sees the traffic has the tokens; remedy: tls, or address "
            "127.0.0.1");
    }
}

// Files of the connection. That there is no API server at all is no fault of a configuration.
void check_connection(const config::OperatorConfig& config,
                      const std::string& file,
                      const std::string& flag,
                      Review& review) {
    const auto found = find_connection(config.kubeconfig, config.context);
    const kube::ConnectionConfig* connection = found ? &found.value() : nullptr;
    if (connection != nullptr) {
        const auto good = net::check_tls(connection->http.tls);
        if (!good && connection->http.endpoint.starts_with("https://")) {
            const std::string& ca = connection->files.ca;
            review.problems.push_back(
                (config.kubeconfig.empty() ? "" : config.kubeconfig + ": ") + good.error().message +
                (ca.empty() ? "" : " (CA " + ca + ")") +
                "; remedy: certificate-authority(-data) holds certificates in PEM, "
                "client-certificate(-data) and client-key(-data) are a pair");
        }
        return;
    }
    if (found.error().code == Code::not_found) {
        review.warnings.push_back(found.error().message + "; `capstan run` would end here");
        return;
    }
    std::string place = flag;
    if (flag.empty() && !config.kubeconfig.empty()) {
        place = in_file(file) + "/kubeconfig";
    } else if (flag.empty() && !config.context.empty()) {
        place = in_file(file) + "/context";
    }
    review.problems.push_back(place + (place.empty() ? "" : ": ") + found.error().message);
}

void review_plugin(const ChosenPlugin& chosen,
                   const config::OperatorConfig& config,
                   const std::string& file,
                   Review& review) {
    const plugin::Report report = plugin::inspect(chosen.path);
    if (!report.loadable()) {
        const std::string why =
            report.problems.empty() ? "is no plugin" : joined(report.problems, "; ");
        review.refused.push_back({chosen.name, chosen.path + ": " + why});
        return;
    }
    const std::string& id = report.manifest->id;
    // Policy, gates and settings were written for another plugin.
    if (chosen.name != id && chosen.name != id.substr(0, id.find('.'))) {
        review.refused.push_back({chosen.name,
                                  chosen.path + ": is plugin " + id +
                                      "; remedy: configure it as \"" + id +
                                      "\", or name another path"});
        return;
    }
    for (const std::string& warning : report.warnings) {
        review.warnings.push_back("plugin " + id + ": " + warning);
    }
    check_controllers(*report.manifest, chosen, review.problems);
    check_settings(*report.manifest, chosen, file, review.problems);
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

std::vector<std::string> unsupported_settings(const config::OperatorConfig& config,
                                              const std::string& file) {
    const config::LimitsConfig usual;
    const config::LimitsConfig& given = config.limits;
    struct Setting {
        const char* path;
        std::string given, usual;
    };
    const Setting settings[] = {
        {"/limits/requestsInFlight",
         std::to_string(given.requests_in_flight),
         std::to_string(usual.requests_in_flight)},
        {"/limits/requestTimeout", to_text(given.request_timeout), to_text(usual.request_timeout)},
        {"/limits/reconcileTimeout",
         to_text(given.reconcile_timeout),
         to_text(usual.reconcile_timeout)},
        {"/limits/cacheSyncTimeout",
         to_text(given.cache_sync_timeout),
         to_text(usual.cache_sync_timeout)},
    };
    std::vector<std::string> problems;
    for (const Setting& setting : settings) {
        if (setting.given != setting.usual) {
            problems.push_back(in_file(file) + setting.path + ": this version cannot change it; " +
                               setting.given + " is given, its default " + setting.usual +
                               " is all it takes");
        }
    }
    return problems;
}

namespace {

// What is wrong with the text, and that nothing would run.
void check_outline(const config::CheckedConfig& checked, const std::string& file, Review& review) {
    const config::OperatorConfig& config = checked.config;
    review.problems = checked.problems;
    const auto unsupported = unsupported_settings(config, file);
    review.problems.insert(review.problems.end(), unsupported.begin(), unsupported.end());
    const bool none = std::none_of(config.plugins.begin(),
                                   config.plugins.end(),
                                   [](const auto& entry) { return entry.second.enabled; });
    if (none && checked.problems.empty()) {  // else they may be behind what could not be read
        review.problems.push_back(
            in_file(file) +
            "/plugins: none is enabled; remedy: name at least one, such as etcd: {}");
    }
}

void check_plugins(const config::OperatorConfig& config,
                   const std::string& file,
                   const std::vector<std::string>& plugin_dirs,
                   Review& review) {
    std::vector<std::string> missing;
    for (const ChosenPlugin& chosen :
         choose_plugins(config, plugin_directories(plugin_dirs, config), missing)) {
        review_plugin(chosen, config, file, review);
    }
    review.code = !review.problems.empty() ? 2 : missing.empty() ? 0 : 3;
    review.problems.insert(review.problems.end(), missing.begin(), missing.end());
}

}  // namespace

Review review(const config::CheckedConfig& checked,
              const std::string& file,
              const std::vector<std::string>& plugin_dirs,
              const std::string& flag) {
    const config::OperatorConfig& config = checked.config;
    Review review;
    check_outline(checked, file, review);
    for (const auto& [name, listener] :
         {std::pair<const char*, const config::ListenerConfig*>{"ops", &config.ops},
          {"api", &config.api},
          {"webhook", &config.webhook}}) {
        check_tls(name, *listener, file, review);
    }
    check_tokens_in_clear(config, file, review);
    check_connection(config, file, flag, review);
    check_plugins(config, file, plugin_dirs, review);
    return review;
}

Review review_plugins(const config::CheckedConfig& checked,
                      const std::string& file,
                      const std::vector<std::string>& plugin_dirs) {
    Review review;
    check_outline(checked, file, review);
    check_plugins(checked.config, file, plugin_dirs, review);
    return review;
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
