// From reviewed plugin files to plugins of the runtime.
#include "runtime/cli/host.hpp"

namespace capstan::cli {

control::Plugin plugin_of(const plugin::Module& module, const ReviewedPlugin& reviewed) {
    const config::PluginConfig& config = reviewed.chosen.config;
    control::Plugin plugin;
    plugin.manifest = module.manifest();
    plugin.table = &module.table();
    plugin.service = module.service();
    plugin.http_server = module.http_server();
    plugin.webhook = module.webhook();
    plugin.config = config.config;
    plugin.gates = reviewed.gates;
    if (config.permissions) {
        plugin.manifest.permissions =
            plugin::narrow(plugin.manifest.permissions, policy_of(config));
        plugin.narrowed = true;
    }
    for (const auto& [name, controller] : config.controllers) {
        if (controller.max_concurrent > 0) {
            plugin.max_concurrent[name] = static_cast<std::uint32_t>(controller.max_concurrent);
        }
    }
    return plugin;
}

void Host::refuse(const std::string& name, const std::string& reason) {
    log_.error("plugin refused; the others run", {{"plugin", name}, {"error", reason}});
    health_.add("plugin-file/" + name, obs::Probe::readyz, "refused: " + reason);
}

// `refused`: why the file cannot be used. Errors: of the configuration; nothing may start.
Result<void> Host::load_plugin(const ReviewedPlugin& reviewed, std::string& refused) {
    const ChosenPlugin& choice = reviewed.chosen;
    auto candidate = loader_->check(choice.path);
    if (!candidate) {
        refused = candidate.error().message;
        return ok();
    }
    const capstan_host* host = runtime_->host_for(candidate.value().manifest());
    auto loaded = loader_->load(std::move(candidate).value(), host);
    if (!loaded) {
        refused = loaded.error().message;
        return ok();
    }
    const plugin::Module& module = *loaded.value();
    control::Plugin plugin = plugin_of(module, reviewed);
    for (const plugin::ControllerSpec& controller : plugin.manifest.controllers) {
        for (const plugin::Watch& watch : controller.watches) {
            watched_kinds_.insert(watch.gvk);
        }
    }
    log_.info("loaded plugin",
              {{"plugin", module.manifest().id},
               {"version", module.manifest().version},
               {"sha256", module.sha256()}});
    CAPSTAN_TRY(runtime_->add(std::move(plugin)));
    ++loaded_;
    return ok();
}

int Host::load_plugins() {
    loader_.emplace(plugin::LoaderOptions{plugin_cache_directory(), {}, true, plugin::kTrialMax});
    for (const std::string& warning : review_.warnings) {
        log_.warn("configuration warning", {{"message", warning}});
    }
    for (const RefusedPlugin& refused : review_.refused) {
        refuse(refused.name, refused.reason);
    }
    std::vector<RefusedPlugin> refused = review_.refused;
    for (const ReviewedPlugin& reviewed : review_.plugins) {
        std::string why;
        if (const auto loaded = load_plugin(reviewed, why); !loaded) {
            return complain(loaded.error(), 2);
        }
        if (!why.empty()) {
            refuse(reviewed.chosen.name, why);
            refused.push_back({reviewed.chosen.name, why});
        }
    }
    if (loaded_ > 0) {
        return 0;
    }
    Review nothing;
    nothing.refused = std::move(refused);
    return report(nothing, "capstan run");
}

}  // namespace capstan::cli
