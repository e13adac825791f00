// What stands behind a capstan_ctl of a C++ plugin. Internal to the SDK.
#pragma once

#include "capstan/cli.hpp"
#include "capstan/plugin.hpp"
#include "capstan/webhook.hpp"

#include <exception>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace capstan {

struct PluginInstance;

// The host's tables as an instance has them: they lead back to it, for what joins through Setup.
struct InstanceHost : HostTables {
    InstanceHost(const capstan_host* h, PluginInstance& i) noexcept : HostTables(h), instance(i) {}
    PluginInstance& instance;
};

// One of the two is set.
struct WebhookPart {
    std::unique_ptr<ValidatingWebhook> validating;
    std::unique_ptr<MutatingWebhook> mutating;
};

struct PluginInstance {
    template <class Part>
    using Parts = std::vector<std::pair<std::string, Part>>;

    // Order matters: parts go before the state they share, and that before the tables.
    InstanceHost host;
    json::Value config;
    std::vector<std::shared_ptr<void>> owned;
    Parts<std::unique_ptr<Controller>> controllers;
    Parts<std::unique_ptr<Service>> services;
    Parts<std::unique_ptr<Route>> routes;
    Parts<WebhookPart> webhooks;
    Parts<CommandBody> commands;
    bool for_command{false};  // made for one run of a command, then gone

    explicit PluginInstance(const capstan_host* h) noexcept : host(h, *this) {}
    PluginInstance(const PluginInstance&) = delete;
    PluginInstance& operator=(const PluginInstance&) = delete;

    Result<void> build(MakePlugin make) {
        Setup setup(host, config);
        Result<void> made = make(setup);
        owned = std::move(setup.owned_);
        controllers = std::move(setup.controllers_);
        services = std::move(setup.services_);
        routes = std::move(setup.routes_);
        return made;
    }
};

inline PluginInstance* instance_of(capstan_ctl* ctl) noexcept {
    return reinterpret_cast<PluginInstance*>(ctl);
}

// Runs `body`; what it throws is logged under `where`, told to `tell` and becomes CAPSTAN_E_PANIC.
template <class Body, class Tell>
capstan_rc guarded(const HostTables& host, const char* where, Body&& body, Tell&& tell) noexcept {
    try {
        return body();
    } catch (const std::exception& e) {
        try {
            host.log(LogLevel::error,
                     "exception stopped at the plugin border",
                     {{"where", where}, {"error", e.what()}});
            tell(e.what());
        } catch (...) {
        }
    } catch (...) {
        try {
            host.log(LogLevel::error, "exception stopped at the plugin border", {{"where", where}});
        } catch (...) {
        }
    }
    return CAPSTAN_E_PANIC;
}

template <class Body>
capstan_rc guarded(const HostTables& host, const char* where, Body&& body) noexcept {
    return guarded(host, where, std::forward<Body>(body), [](const char*) {});
}

MakePlugin plugin_make() noexcept;                   // plugin_entry.cpp
extern const capstan_plugin_webhook kPluginWebhook;  // plugin_webhook.cpp
extern const capstan_plugin_cli kPluginCli;          // plugin_cli.cpp

}  // namespace capstan
