#include "plugins/steward-bridge/configuration.hpp"

#include "plugins/common/schedule.hpp"

#include "capstan/clock.hpp"
#include "capstan/plugin.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <utility>

namespace capstan::steward {

Result<Identity> Identity::from_environment() {
    Identity identity;
    const std::array<std::pair<const char*, std::string*>, 6> variables{
        {{"POD_NAME", &identity.pod},
         {"POD_NAMESPACE", &identity.ns},
         {"CAPSTAN_ETCD_NAME", &identity.etcd},
         {"CAPSTAN_MEMBER_NAME", &identity.member},
         {"CAPSTAN_CONFIGMAP_NAME", &identity.config_map},
         {"CAPSTAN_RUN_DIR", &identity.run_dir}}};
    for (const auto& [name, field] : variables) {
        const char* value = std::getenv(name);
        if (value == nullptr || *value == '\0') {
            return fail(Code::invalid,
                        std::string("environment variable ") + name +
                            " is not set; the etcd plugin's StatefulSet sets it");
        }
        *field = value;
    }
    return identity;
}

namespace {

Result<std::optional<TlsGroup>> parse_tls(const json::View& view) {
    if (!view.present()) {
        return std::optional<TlsGroup>();
    }
    TlsGroup group;
    CAPSTAN_TRY(const std::string_view ca, view["caSecret"].as_string());
    CAPSTAN_TRY(const std::string_view server, view["serverSecret"].as_string());
    group.ca_secret = ca;
    group.ca_key = view["caKey"].string_or("ca.crt");
    group.server_secret = server;
    group.client_secret = view["clientSecret"].string_or("");
    return std::optional(std::move(group));
}

Result<void> read_defragmentation(const json::View& view, Configuration& out) {
    const json::View schedule = view["defragmentationSchedule"];
    out.defragmentation_schedule = schedule.string_or("");
    if (!out.defragmentation_schedule.empty()) {
        const auto parsed = Schedule::parse(out.defragmentation_schedule);
        if (!parsed) {
            return fail(schedule.error(parsed.error().message));
        }
    }
    const auto timeout = parse_duration(view["defragTimeout"].string_or("15m"));
    if (!timeout || *timeout < std::chrono::seconds(1)) {
        return fail(view["defragTimeout"].error("not a duration of at least 1s"));
    }
    out.defragmentation_timeout = *timeout;
    return ok();
}

}  // namespace

Result<Configuration> Configuration::parse(std::string_view text, const std::string& member) {
    CAPSTAN_TRY(const json::Value root, json::parse(text));
    const json::View view(root);
    CAPSTAN_TRY(const std::string_view version, view["apiVersion"].as_string());
    if (version != "config.capstan.dev/v1alpha1") {
        return fail(
            view["apiVersion"].error("this steward reads config.capstan.dev/v1alpha1 only"));
    }
    Configuration out;
    CAPSTAN_TRY(out.replicas, view["etcd"]["replicas"].as_int());
    out.launcher_port = static_cast<std::uint16_t>(view["ports"]["launcher"].int_or(9095));
    CAPSTAN_TRY(const std::string_view local, view["endpoints"]["local"].as_string());
    out.local_endpoint = local;
    for (const json::Value& endpoint : view["endpoints"]["service"].array()) {
        if (const std::string* url = endpoint.if_string()) {
            out.service_endpoints.push_back(*url);
        }
    }
    CAPSTAN_TRY(const std::string_view data_dir, view["dataDir"].as_string());
    out.data_dir = data_dir;
    const auto heartbeat = parse_duration(view["heartbeat"].string_or("10s"));
    if (!heartbeat || *heartbeat < std::chrono::seconds(1)) {
        return fail(view["heartbeat"].error("not a duration of at least 1s"));
    }
    out.heartbeat = *heartbeat;
    CAPSTAN_TRY(out.client_tls, parse_tls(view["tls"]["client"]));
    CAPSTAN_TRY(out.peer_tls, parse_tls(view["tls"]["peer"]));
    CAPSTAN_TRY(out.backup_tls, parse_tls(view["tls"]["backup"]));
    out.api_token_secret = view["apiTokenSecret"].string_or("");
    out.api_port = static_cast<std::uint16_t>(view["ports"]["api"].int_or(8080));
    CAPSTAN_TRY(read_defragmentation(view, out));
    for (const json::Member& each : view["members"].object()) {
        out.member_names.push_back(each.key);
    }
    std::sort(out.member_names.begin(), out.member_names.end());
    const json::View own = view["members"][member];
    CAPSTAN_TRY(const std::string_view hash, own["configHash"].as_string());
    out.config_hash = hash;
    CAPSTAN_TRY(own["config"].as_object());
    out.etcd = *own["config"].value();
    for (const json::Member& each : view["members"].object()) {
        const std::string_view url =
            json::View(each.value)["config"]["advertise-client-urls"].string_or("");
        if (each.key == member) {
            out.own_client_url = url;
        } else if (!url.empty()) {
            out.peer_endpoints.emplace_back(url);
        }
    }
    if (view["backup"].present()) {
        out.backup = *view["backup"].value();
    }
    return out;
}

Result<Configuration> read_configuration(Call& call, const Identity& identity) {
    CAPSTAN_TRY(const json::Value object,
                call.cache().get_value("ConfigMap", identity.config_map_key()));
    const json::View text = json::View(object)["data"]["steward.yaml"];
    CAPSTAN_TRY(const std::string_view yaml, text.as_string());
    auto parsed = Configuration::parse(yaml, identity.member);
    if (!parsed) {
        return fail(
            with_context(parsed.error(),
                         "ConfigMap " + identity.config_map_key().to_string() + " steward.yaml"));
    }
    return parsed;
}

}  // namespace capstan::steward
