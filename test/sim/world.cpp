#include "test/sim/world.hpp"

#include <array>

namespace capstan::test {
namespace {

constexpr std::size_t kSlots = 4;  // plugins in one world
std::array<const TestPlugin*, kSlots> slots{};

class FunctionController final : public Controller {
public:
    explicit FunctionController(ReconcileFunction f) : f_(std::move(f)) {}
    Outcome reconcile(Call& call, const Request& request) override { return f_(call, request); }

private:
    ReconcileFunction f_;
};
class FunctionService final : public Service {
public:
    explicit FunctionService(std::function<Result<void>(Call&)> f) : f_(std::move(f)) {}
    Result<void> run(Call& call) override { return f_(call); }

private:
    std::function<Result<void>(Call&)> f_;
};
class FunctionRoute final : public Route {
public:
    explicit FunctionRoute(std::function<void(Call&, Exchange&)> f) : f_(std::move(f)) {}
    void handle(Call& call, Exchange& exchange) override { f_(call, exchange); }

private:
    std::function<void(Call&, Exchange&)> f_;
};

// The adapter keeps its make function in one global per plugin file; here several plugins share a
// file. The configuration says which slot an instance is made from.
Result<void> make_from_slot(Setup& setup) {
    const auto slot = static_cast<std::size_t>(json::View(setup.config())["slot"].int_or(0));
    const TestPlugin& plugin = *slots[slot];
    for (const auto& [name, f] : plugin.controllers) {
        setup.controller(name, std::make_unique<FunctionController>(f));
    }
    for (const auto& [name, f] : plugin.services) {
        setup.service(name, std::make_unique<FunctionService>(f));
    }
    for (const auto& [name, f] : plugin.routes) {
        setup.route(name, std::make_unique<FunctionRoute>(f));
    }
    return plugin.on_create ? plugin.on_create(setup) : ok();
}

std::unique_ptr<local::ApiServer> make_server(const Clock& clock, std::uint64_t seed) {
    local::ApiServerOptions options;
    options.rbac = false;
    options.seed = seed;
    options.expired_in_stream = seed % 2 == 0;  // servers do either
    return local::ApiServer::create(clock, std::move(options)).value();
}

}  // namespace

std::string manifest_json(const std::string& id, const json::Value& extra) {
    json::Value manifest = {
        {"schema", 1},
        {"id", id},
        {"version", "1.0.0"},
        {"abi", {{"major", 1}, {"minMinor", 0}, {"builtMinor", 0}}},
        {"requires",
         {{"extensions", json::list({"capstan.call/1", "capstan.cache/1", "capstan.client/1"})}}},
        {"controllers",
         json::list({{
             {"name", "main"},
             {"watches",
              json::list({
                  {{"gvk", "v1/ConfigMap"}, {"role", "for"}, {"predicate", true}},
                  {{"gvk", "v1/Secret"}, {"role", "owns"}, {"predicate", true}},
              })},
         }})},
        {"permissions",
         json::list({
             {{"groups", json::list({""})},
              {"resources", json::list({"configmaps", "secrets"})},
              {"verbs", json::list({"get", "list", "watch", "create", "patch", "delete"})}},
         })},
        {"fieldManager", "demo"},
        {"license", "Apache-2.0"},
    };
    for (const json::Member& member : json::View(extra).object()) {
        manifest.set(member.key, member.value);
    }
    return json::dump(manifest);
}

Result<std::unique_ptr<control::Thread>> ScarceThreads::start(std::string name,
                                                              std::function<void()> body) {
    if (refuse && refuse(name)) {
        return fail(Code::unavailable, "cannot start thread " + name + ": out of threads");
    }
    return baton_.start(std::move(name), std::move(body));
}

World::World(WorldOptions options)
    : random(options.seed),
      baton(loop, options.seed),
      api(loop, make_server(loop, options.seed)),
      transport(loop, api.handler(), LocalTransportOptions{options.latency, "127.0.0.1:1", "", {}}),
      options_(options) {
    transport.set_faults([this](const net::HttpRequest& request) {
        ++requests_seen_;
        writes_ += request.method != "GET" ? 1 : 0;
        Fault fault = faults ? faults(request) : Fault{};
        fault.refuse = fault.refuse || dead_;
        if (request.target.find("watch=") != std::string::npos) {
            fault.response_delay += options_.watch_delay;
        }
        return fault;
    });
    guard_.entered = [this](std::string_view controller, const ObjectKey& key) {
        ++reconciles;
        const bool alone = running_.insert(std::string(controller) + " " + key.to_string()).second;
        overlaps += alone ? 0 : 1;
    };
    guard_.left = [this](std::string_view controller, const ObjectKey& key) {
        running_.erase(std::string(controller) + " " + key.to_string());
    };
    api.ask("POST",
            "/api/v1/namespaces",
            R"({"apiVersion":"v1","kind":"Namespace","metadata":{"name":"ns"}})");
}

World::~World() {
    if (runtime != nullptr) {
        shut_down();
    }
}

void World::add(TestPlugin plugin) {
    CAPSTAN_CHECK(plugins_.size() < kSlots && runtime == nullptr,
                  "four plugins at most, before boot");
    plugins_.push_back(std::move(plugin));
}

void World::add(RealPlugin plugin) {
    CAPSTAN_CHECK(real_plugins_.size() < kGuardsMax && runtime == nullptr, "before boot");
    real_plugins_.push_back(std::move(plugin));
}

void World::boot() {
    metrics = std::make_unique<obs::Metrics>();
    health = std::make_unique<obs::Health>();
    client = std::make_unique<kube::Client>(
        loop, transport, kube::ClientOptions{"sim", "capstan-sim", nullptr, client_observer});
    cache::CacheOptions cache_options;
    cache_options.random = [this] { return static_cast<double>(random() >> 11) * 0x1p-53; };
    cache_options.observer = cache_observer;
    cache = std::make_unique<cache::Cache>(loop, *client, std::move(cache_options));
    obs::LogOptions log_options;
    log_options.level = options_.log_level;
    control::Parts parts{
        loop,
        threads,
        *client,
        *cache,
        obs::Log(loop, log.sink(), log_options),
        *metrics,
        *health,
        {},
        [this] { return random(); },
        {},
    };
    control::RuntimeOptions runtime_options;
    runtime_options.queue_keys_max = options_.queue_keys_max;
    runtime_options.namespaces = options_.namespaces;
    runtime_options.cluster_scoped = [this](const GroupVersionKind& gvk) {
        return options_.cluster_scoped.contains(gvk.kind);
    };
    runtime = std::make_unique<control::Runtime>(std::move(parts), std::move(runtime_options));
    running_.clear();
    for (std::size_t slot = 0; slot < plugins_.size() + real_plugins_.size(); ++slot) {
        const bool real = slot >= plugins_.size();
        const auto added =
            runtime->add(real ? make(slot, real_plugins_[slot - plugins_.size()]) : make(slot));
        CAPSTAN_CHECK(added.has_value(), added.error().message);
    }
    runtime->start();
    versions_.clear();
    for (const RealPlugin& real : real_plugins_) {
        spy(load_module(real.name, {}).manifest());
    }
}

void World::spy(const plugin::Manifest& manifest) {
    for (const plugin::ControllerSpec& controller : manifest.controllers) {
        for (const plugin::Watch& watch : controller.watches) {
            cache::WatchRequest request;
            request.spec.gvk = watch.gvk;
            request.spec.label_selector = watch.select.labels ? watch.select.labels->text : "";
            const std::string name = watch.gvk.to_string() + " " + request.spec.label_selector;
            request.on_event = [this, name](const cache::Event& event) {
                check_order(name, event);
            };
            spies_.push_back(std::move(cache->watch(std::move(request)).value()));
        }
    }
}

void World::check_order(const std::string& watch, const cache::Event& event) {
    const cache::ObjectPtr& object = event.new_object ? event.new_object : event.old_object;
    std::string& newest = versions_[watch + " " + std::string(object->uid())];
    const std::string version(object->resource_version());
    const auto order = kube::compare_resource_versions(version, newest);
    backwards += !newest.empty() && (!order || *order < 0) ? 1 : 0;
    newest = version;
}

control::Plugin World::make(std::size_t slot) {
    const TestPlugin& plugin = plugins_[slot];
    slots[slot] = &plugin;
    auto manifest = plugin::parse_manifest(plugin.manifest_json.empty() ? manifest_json(plugin.id)
                                                                        : plugin.manifest_json);
    CAPSTAN_CHECK(manifest.has_value(), manifest.error().message);
    const capstan_host* host = runtime->host_for(manifest.value());
    control::Plugin loaded;
    loaded.table = plugin.table != nullptr
                       ? plugin.table
                       : detail::plugin_entry(host, &make_from_slot, "test", "1.0.0");
    if (plugin.wrap) {
        wrapped_.push_back(std::make_unique<capstan_plugin>(plugin.wrap(*loaded.table)));
        loaded.table = wrapped_.back().get();
    }
    if (plugin.table == nullptr) {
        loaded.service = static_cast<const capstan_plugin_service*>(
            loaded.table->get_ext(to_str("capstan.service/1")));
        loaded.http_server = static_cast<const capstan_plugin_http_server*>(
            loaded.table->get_ext(to_str("capstan.http-server/1")));
    }
    loaded.config = {{"slot", slot}};
    const auto gates = manifest.value().gates.effective(plugin::Version{1, 0, 0});
    loaded.gates = gates.set;
    loaded.manifest = std::move(manifest).value();
    return loaded;
}

control::Plugin World::make(std::size_t slot, const RealPlugin& real) {
    const plugin::Module& module = load_module(real.name, [this](const plugin::Manifest& manifest) {
        return runtime->host_for(manifest);
    });
    control::Plugin loaded;
    loaded.manifest = module.manifest();
    for (plugin::ControllerSpec& controller : loaded.manifest.controllers) {
        controller.resync_every = resync_every_ ? resync_every_ : controller.resync_every;
    }
    loaded.table = guarded(module.table(), slot, guard_);
    loaded.service = module.service();
    loaded.http_server = module.http_server();
    loaded.config = real.config;
    const auto version = plugin::Version::parse(loaded.manifest.version);
    auto gates = loaded.manifest.gates.effective(version.value(), real.gates);
    CAPSTAN_CHECK(gates.errors.empty(), "gates of " + real.name);
    loaded.gates = std::move(gates.set);
    return loaded;
}

void World::crash() {
    dead_ = true;
    shut_down(std::chrono::nanoseconds(0));
    dead_ = false;
}

bool World::shut_down(std::chrono::nanoseconds grace) {
    bool stopped = false;
    runtime->stop(grace, [&](control::StopReport r) {
        report = std::move(r);
        stopped = true;
    });
    baton.run_until([&] { return stopped; }, loop.now() + grace + std::chrono::minutes(1));
    CAPSTAN_CHECK(stopped, "stop() did not report\n" + baton.describe());
    if (!report.clean()) {
        // Stuck plugin threads end in their own time; then everything may go.
        baton.run_until([&] { return baton.living() == 0; }, loop.now() + std::chrono::hours(2));
    }
    spies_.clear();
    runtime.reset();
    cache.reset();
    client.reset();
    baton.run_for(std::chrono::milliseconds(100));
    return report.clean();
}

bool World::settle(std::chrono::nanoseconds quiet, std::chrono::nanoseconds limit) {
    const MonotonicTime end = loop.now() + limit;
    while (loop.now() < end) {
        if (!baton.run_until([&] { return runtime->idle(); }, end)) {
            return false;
        }
        const std::uint64_t before = requests_seen_;
        const MonotonicTime until = loop.now() + quiet;
        const bool disturbed =
            baton.run_until([&] { return !runtime->idle() || requests_seen_ != before; }, until);
        if (!disturbed) {
            return true;
        }
    }
    return false;
}

bool World::run_until(const std::function<bool()>& done, std::chrono::nanoseconds limit) {
    return baton.run_until(done, loop.now() + limit);
}

int World::put_config_map(const std::string& name, const std::string& value) {
    return api.put_config_map(name, value);
}

int World::remove(const std::string& path) {
    return api.ask("DELETE", path).status;
}

std::optional<json::Value> World::read(const std::string& path) {
    const auto response = api.ask("GET", path);
    if (response.status != 200) {
        return std::nullopt;
    }
    return json::parse(response.body).value();
}

std::vector<json::Value> World::list(const std::string& path) {
    const auto tree = read(path);
    return tree ? json::View(*tree)["items"].array() : std::vector<json::Value>();
}

std::string World::metric(const std::string& series) {
    const std::string text = metrics->render();
    const std::size_t at = text.find("\n" + series + " ");
    if (at == std::string::npos) {
        return "";
    }
    const std::size_t from = at + series.size() + 2;
    return text.substr(from, text.find('\n', from) - from);
}

}  // namespace capstan::test
