// The adapter behind CAPSTAN_PLUGIN: C calls in, nothing but return codes out.
#include "capstan/plugin.hpp"

#include "plugin_instance.hpp"

#include <algorithm>
#include <string>

namespace capstan {

void Setup::controller(std::string name, std::unique_ptr<Controller> controller) {
    controllers_.emplace_back(std::move(name), std::move(controller));
}
void Setup::service(std::string name, std::unique_ptr<Service> service) {
    services_.emplace_back(std::move(name), std::move(service));
}
void Setup::route(std::string name, std::unique_ptr<Route> route) {
    routes_.emplace_back(std::move(name), std::move(route));
}

Outcome Outcome::failed(const Error& error) {
    return Outcome(rc_of(error.code), CAPSTAN_RETRY_BACKOFF, error.retry_after, error.message);
}

Outcome Outcome::parked(const Error& error) {
    return Outcome(rc_of(error.code), CAPSTAN_RETRY_PARKED, {}, error.message);
}

namespace {

// written once in [entry], before any other call; read-only afterwards
MakePlugin g_make = nullptr;
std::string_view g_parts;  // "controller a\nservice b\n", of the manifest

template <class Part>
Part* find_part(std::vector<std::pair<std::string, std::unique_ptr<Part>>>& parts,
                std::string_view name) noexcept {
    for (auto& [part_name, part] : parts) {
        if (part_name == name) {
            return part.get();
        }
    }
    return nullptr;
}

template <class Part>
void list_parts(std::vector<std::string>& lines,
                std::string_view kind,
                const std::vector<std::pair<std::string, Part>>& parts) {
    for (const auto& [name, part] : parts) {
        lines.push_back(std::string(kind) + " " + name);
    }
}

// Errors: invalid, the first difference between the manifest's parts and make_plugin's.
Result<void> compare_parts(std::string_view manifest_parts, const PluginInstance& instance) {
    std::vector<std::string> added, wanted;
    list_parts(added, "controller", instance.controllers);
    list_parts(added, "service", instance.services);
    list_parts(added, "route", instance.routes);
    list_parts(added, "webhook", instance.webhooks);
    list_parts(added, "command", instance.commands);
    for (auto end = manifest_parts.find('\n'); end != manifest_parts.npos;
         end = manifest_parts.find('\n')) {
        wanted.emplace_back(manifest_parts.substr(0, end));
        manifest_parts.remove_prefix(end + 1);
    }
    const auto in = [](const std::vector<std::string>& list, const std::string& part) {
        return std::find(list.begin(), list.end(), part) != list.end();
    };
    for (const std::string& part : wanted) {
        if (!in(added, part)) {
            return fail(Code::invalid,
                        "make_plugin adds no " + part + ", which the manifest names");
        }
    }
    for (const std::string& part : added) {
        if (!in(wanted, part)) {
            return fail(Code::invalid, "make_plugin adds " + part + ", which the manifest lacks");
        }
    }
    return ok();
}

capstan_rc create(const capstan_host* host, capstan_str config_json, capstan_ctl** ctl) noexcept {
    const HostTables tables(host);
    return guarded(tables, "create", [&] {
        auto instance = std::make_unique<PluginInstance>(host);
        const std::string_view text = view_of(config_json);
        auto config = text.empty() ? Result<json::Value>(json::object()) : json::parse(text);
        if (!config) {
            tables.log(LogLevel::error,
                       "the plugin's configuration is no JSON",
                       {{"error", config.error().message}});
            return CAPSTAN_E_INVALID;
        }
        instance->config = std::move(config).value();
        Result<void> made = instance->build(g_make);
        if (made && !g_parts.empty()) {
            made = compare_parts(g_parts, *instance);
        }
        if (!made) {
            tables.log(
                LogLevel::error, "the plugin cannot be created", {{"error", made.error().message}});
            return rc_of(made.error().code);
        }
        *ctl = reinterpret_cast<capstan_ctl*>(instance.release());
        return capstan_rc{CAPSTAN_OK};
    });
}

capstan_rc start(capstan_ctl*) noexcept {
    return CAPSTAN_OK;
}

capstan_rc reconcile(capstan_ctl* ctl, capstan_call* handle, const capstan_request* raw) noexcept {
    PluginInstance& instance = *instance_of(ctl);
    const auto run = [&]() -> capstan_rc {
        Controller* controller = find_part(instance.controllers, view_of(raw->controller));
        if (controller == nullptr) {
            return CAPSTAN_E_UNSUPP;
        }
        Call call(instance.host, handle);
        const Request request{
            std::string(view_of(raw->controller)),
            {std::string(view_of(raw->group)), {}, std::string(view_of(raw->kind))},
            {std::string(view_of(raw->ns)), std::string(view_of(raw->name))},
            raw->attempt};
        const Outcome outcome = controller->reconcile(call, request);
        const capstan_result result{
            {sizeof(capstan_result), CAPSTAN_ABI},
            outcome.rc(),
            outcome.retry(),
            static_cast<std::uint64_t>(std::max<std::int64_t>(outcome.delay().count(), 0)),
            to_str(outcome.message())};
        instance.host.call->reconcile_done(handle, &result);
        return outcome.rc();
    };
    // The host names the text where it says why the plugin failed.
    const auto tell = [&](const char* what) {
        const capstan_result result{{sizeof(capstan_result), CAPSTAN_ABI},
                                    CAPSTAN_E_PANIC,
                                    CAPSTAN_RETRY_BACKOFF,
                                    0,
                                    to_str(what)};
        instance.host.call->reconcile_done(handle, &result);
    };
    return guarded(instance.host, "reconcile", run, tell);
}

capstan_rc stop(capstan_ctl*, std::uint64_t) noexcept {
    return CAPSTAN_OK;
}

void destroy(capstan_ctl* ctl) noexcept {
    const HostTables host = instance_of(ctl)->host;
    guarded(host, "destroy", [&] {
        delete instance_of(ctl);
        return capstan_rc{CAPSTAN_OK};
    });
}

capstan_rc run_service(capstan_ctl* ctl, capstan_call* handle, capstan_str name) noexcept {
    PluginInstance& instance = *instance_of(ctl);
    return guarded(instance.host, "service", [&]() -> capstan_rc {
        Service* service = find_part(instance.services, view_of(name));
        if (service == nullptr) {
            return CAPSTAN_E_UNSUPP;
        }
        Call call(instance.host, handle);
        const Result<void> ended = service->run(call);
        if (!ended) {
            instance.host.log(LogLevel::warn,
                              "service ended with an error",
                              {{"service", view_of(name)}, {"error", ended.error().message}});
            return rc_of(ended.error().code);
        }
        return CAPSTAN_OK;
    });
}

void handle_request(capstan_ctl* ctl,
                    capstan_call* handle,
                    capstan_str name,
                    capstan_exchange* raw) noexcept {
    PluginInstance& instance = *instance_of(ctl);
    guarded(instance.host, "route", [&]() -> capstan_rc {
        Call call(instance.host, handle);
        Exchange exchange(instance.host, raw);
        if (Route* route = find_part(instance.routes, view_of(name))) {
            route->handle(call, exchange);
        } else {
            exchange.respond(501, "text/plain", "no handler for this route\n");
        }
        return CAPSTAN_OK;
    });
}

const void* get_ext(capstan_str id) noexcept {
    static const capstan_plugin_service kService{{sizeof(capstan_plugin_service), CAPSTAN_ABI},
                                                 &run_service};
    static const capstan_plugin_http_server kHttpServer{
        {sizeof(capstan_plugin_http_server), CAPSTAN_ABI}, &handle_request};
    if (view_of(id) == "capstan.service/1") {
        return &kService;
    }
    if (view_of(id) == "capstan.http-server/1") {
        return &kHttpServer;
    }
    if (view_of(id) == "capstan.webhook/1") {
        return &kPluginWebhook;
    }
    if (view_of(id) == "capstan.cli/1") {
        return &kPluginCli;
    }
    return nullptr;
}

}  // namespace

MakePlugin plugin_make() noexcept {
    return g_make;
}

namespace detail {

const capstan_plugin* plugin_entry(const capstan_host* host,
                                   MakePlugin make,
                                   const char* id,
                                   const char* version,
                                   const char* parts) noexcept {
    if ((host->head.abi >> 16U) != CAPSTAN_ABI_MAJOR) {
        constexpr std::string_view kWhy = "this plugin speaks ABI major 1 only";
        host->refuse(host, CAPSTAN_E_UNSUPP, to_str(kWhy));
        return nullptr;
    }
    g_make = make;
    g_parts = parts;
    static const capstan_plugin kPlugin{{sizeof(capstan_plugin), CAPSTAN_ABI},
                                        to_str(id),
                                        to_str(version),
                                        &create,
                                        &start,
                                        &reconcile,
                                        nullptr,
                                        &stop,
                                        &destroy,
                                        &get_ext};
    return &kPlugin;
}

}  // namespace detail
}  // namespace capstan
