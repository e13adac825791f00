#include "test/live/live_world.hpp"

#include "capstan/plugin.hpp"
#include "runtime/net/http_client.hpp"
#include "test/sim/world.hpp"

namespace capstan::test {

// The plugin's tables. One world at a time.
struct LiveWorld::Tables {
    static inline LiveWorld* world = nullptr;

    static capstan_rc create(const capstan_host*, capstan_str, capstan_ctl** ctl) noexcept {
        *ctl = reinterpret_cast<capstan_ctl*>(world);
        return CAPSTAN_OK;
    }
    static capstan_rc start(capstan_ctl*) noexcept { return CAPSTAN_OK; }
    static capstan_rc stop(capstan_ctl*, std::uint64_t) noexcept { return CAPSTAN_OK; }
    static void destroy(capstan_ctl*) noexcept {}
    static capstan_rc reconcile(capstan_ctl* ctl,
                                capstan_call* call,
                                const capstan_request* request) noexcept {
        auto& w = *reinterpret_cast<LiveWorld*>(ctl);
        std::function<void(capstan_call*)> job;
        {
            const std::lock_guard lock(w.mutex_);
            if (view_of(request->name) == w.job_key_) {
                job = std::exchange(w.job_, nullptr);
            }
        }
        if (job) {
            job(call);
            {
                const std::lock_guard lock(w.mutex_);
                w.job_done_ = true;
            }
            w.wake();
            return CAPSTAN_OK;
        }
        return w.reconcile ? w.reconcile(call, request) : CAPSTAN_OK;
    }
    static void cancel(capstan_ctl* ctl, capstan_call* call) noexcept {
        if (const auto& w = *reinterpret_cast<LiveWorld*>(ctl); w.cancel) {
            w.cancel(call);
        }
    }
    static void handle(capstan_ctl* ctl,
                       capstan_call* call,
                       capstan_str route,
                       capstan_exchange* exchange) noexcept {
        reinterpret_cast<LiveWorld*>(ctl)->handle(call, view_of(route), exchange);
    }
    static constexpr capstan_plugin_http_server kServer{
        {sizeof(capstan_plugin_http_server), CAPSTAN_ABI}, &handle};
    static capstan_rc run(capstan_ctl* ctl, capstan_call* call, capstan_str) noexcept {
        return reinterpret_cast<LiveWorld*>(ctl)->service(call);
    }
    static constexpr capstan_plugin_service kService{{sizeof(capstan_plugin_service), CAPSTAN_ABI},
                                                     &run};
    static capstan_rc review(capstan_ctl* ctl,
                             capstan_call* call,
                             const capstan_admission_request* request) noexcept {
        return reinterpret_cast<LiveWorld*>(ctl)->review(call, request);
    }
    static constexpr capstan_plugin_webhook kWebhook{{sizeof(capstan_plugin_webhook), CAPSTAN_ABI},
                                                     &review};
    static const void* get_ext(capstan_str id) noexcept {
        const std::string_view name = view_of(id);
        if (name == "capstan.webhook/1") {
            return &kWebhook;
        }
        return name == "capstan.http-server/1" ? static_cast<const void*>(&kServer)
               : name == "capstan.service/1"   ? &kService
                                               : nullptr;
    }
};

namespace {

constexpr const char* kId = "live.example.io";

std::unique_ptr<local::ApiServer> make_server(const Clock& clock) {
    local::ApiServerOptions options;
    options.rbac = false;
    return local::ApiServer::create(clock, std::move(options)).value();
}

template <class T>
void find_table(const capstan_host* host, const char* id, const T** table) {
    *table = static_cast<const T*>(host->get_ext(host, to_str(id)));
    CAPSTAN_CHECK(*table != nullptr, id);
}

}  // namespace

LiveWorld::LiveWorld()
    : loop(net::make_loop()),
      api(*loop, make_server(*loop)),
      transport(*loop, api.handler()),
      threads_(control::make_threads()) {
    Tables::world = this;
    api.ask("POST",
            "/api/v1/namespaces",
            R"({"apiVersion":"v1","kind":"Namespace","metadata":{"name":"ns"}})");
}

LiveWorld::~LiveWorld() {
    if (runtime != nullptr) {
        stop();
    }
}

void LiveWorld::boot() {
    client_ = std::make_unique<kube::Client>(
        *loop, transport, kube::ClientOptions{"live", "capstan-live", nullptr, nullptr});
    cache::CacheOptions cache_options;
    cache_options.random = [] { return 0.5; };
    cache_ = std::make_unique<cache::Cache>(*loop, *client_, std::move(cache_options));
    control::Parts parts{*loop,
                         *threads_,
                         *client_,
                         *cache_,
                         obs::Log(*loop, log.sink(), {}),
                         metrics,
                         health,
                         [this](net::HttpClientOptions options) {
                             return net::make_http_client(*loop, std::move(options));
                         },
                         [this] { return random_(); },
                         {}};
    runtime = std::make_unique<control::Runtime>(std::move(parts));
    static constexpr std::string_view kVersion = "1.0.0";
    static const capstan_plugin table{{sizeof(capstan_plugin), CAPSTAN_ABI},
                                      to_str(kId),
                                      to_str(kVersion),
                                      &Tables::create,
                                      &Tables::start,
                                      &Tables::reconcile,
                                      &Tables::cancel,
                                      &Tables::stop,
                                      &Tables::destroy,
                                      &Tables::get_ext};
    auto parsed = plugin::parse_manifest(manifest_json(kId, manifest));
    CAPSTAN_CHECK(parsed.has_value(), parsed.error().message);
    host = runtime->host_for(parsed.value());
    find_table(host, "capstan.call/1", &call);
    find_table(host, "capstan.clock/1", &clock);
    find_table(host, "capstan.http/1", &http);
    find_table(host, "capstan.http-server/1", &http_server);
    find_table(host, "capstan.client/1", &client);
    find_table(host, "capstan.cache/1", &cache);
    find_table(host, "capstan.webhook/1", &webhook);
    control::Plugin loaded;
    loaded.table = &table;
    loaded.service = &Tables::kService;
    loaded.http_server = &Tables::kServer;
    loaded.webhook = &Tables::kWebhook;
    loaded.manifest = std::move(parsed).value();
    const auto added = runtime->add(std::move(loaded));
    CAPSTAN_CHECK(added.has_value(), added.error().message);
    runtime->start();
    CAPSTAN_CHECK(until([&] { return health.is_ready(); }), "the plugin does not start");
}

bool LiveWorld::stop() {
    std::optional<control::StopReport> report;
    runtime->stop(std::chrono::seconds(20), [&](control::StopReport r) { report = std::move(r); });
    CAPSTAN_CHECK(until([&] { return report.has_value(); }), "stop() did not report");
    runtime.reset();
    cache_.reset();
    client_.reset();
    return report->clean();
}

bool LiveWorld::until(const std::function<bool()>& done) {
    const MonotonicTime end = loop->now() + kLiveLimit;
    bool held = done();
    while (!held && loop->now() < end) {
        held = loop->run_until(done, kLiveGlance);
    }
    return held;
}

void LiveWorld::start_on_worker(std::function<void(capstan_call*)> job) {
    const std::string key = "job-" + std::to_string(++jobs_);
    {
        const std::lock_guard lock(mutex_);
        job_ = std::move(job);
        job_key_ = key;
        job_done_ = false;
    }
    put_config_map(key);
}

bool LiveWorld::on_worker(std::function<void(capstan_call*)> job) {
    start_on_worker(std::move(job));
    return until([this] {
        const std::lock_guard lock(mutex_);
        return job_done_;
    });
}

int LiveWorld::put_config_map(const std::string& name) {
    const json::Value object = {{"apiVersion", "v1"},
                                {"kind", "ConfigMap"},
                                {"metadata", {{"name", name}, {"namespace", "ns"}}}};
    return api.ask("POST", "/api/v1/namespaces/ns/configmaps", json::dump(object)).status;
}

void LiveWorld::wake() {
    loop->post([] {});
}

std::string LiveWorld::last_error(capstan_call* handle_of) const {
    return std::string(view_of(call->last_error_json(handle_of)));
}

}  // namespace capstan::test
