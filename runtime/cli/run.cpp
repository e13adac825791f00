#include "runtime/cli/run.hpp"

#include "runtime/cache/cache.hpp"
#include "runtime/cli/connection.hpp"
#include "runtime/cli/observers.hpp"
#include "runtime/cli/ops_server.hpp"
#include "runtime/cli/paths.hpp"
#include "runtime/cli/review.hpp"
#include "runtime/control/runtime.hpp"
#include "runtime/control/threads.hpp"
#include "runtime/kube/client.hpp"
#include "runtime/net/http_client.hpp"
#include "runtime/net/http_server.hpp"
#include "runtime/net/io_loop.hpp"

#include <malloc.h>
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <random>

namespace capstan::cli {
namespace {

constexpr std::chrono::seconds kFirstContactMax{30};
constexpr std::chrono::milliseconds kFirstContactPause{500};
constexpr std::chrono::seconds kTrimAfter{5};
constexpr int kArenasMax = 2;  // of the allocator: a further one for each thread costs a MiB

std::optional<std::string> environment(const std::string& name) {
    const char* value = std::getenv(name.c_str());
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

int complain(const Error& error, int code) {
    std::fprintf(stderr, "capstan run: %s\n", error.message.c_str());
    return code;
}

// The configuration of the file, or the profile's own.
Result<config::OperatorConfig> load_config(const RunOptions& options) {
    config::OperatorConfig config;
    if (!options.config.empty()) {
        CAPSTAN_TRY(config, config::load_operator_config(options.config));
    } else if (options.profile == "operator") {
        config.plugins["etcd"] = {};
        config.plugins["custodian"] = {};
    }
    if (options.profile == "steward") {
        config.plugins.try_emplace("steward-bridge");
        config.api.enabled = true;
        config.api.port = static_cast<std::uint16_t>(
            std::atoi(environment("CAPSTAN_API_PORT").value_or("8080").c_str()));
        // Containers of a pod share 127.0.0.1, except in local mode, where the pod has
        // an address of its own.
        const bool local = environment("CAPSTAN_POD_MAP").has_value();
        config.api.address = local ? environment("POD_IP").value_or("127.0.0.1") : "127.0.0.1";
        config.ops.address = config.api.address;
        config.ops.port = 8081;
    } else if (options.profile != "operator") {
        return fail(Code::invalid,
                    "--profile " + options.profile + ": there are operator and steward");
    }
    if (!options.kubeconfig.empty()) {
        config.kubeconfig = options.kubeconfig;
    }
    if (config.plugins.empty()) {
        return fail(Code::invalid,
                    options.config +
                        ": plugins: none is enabled; remedy: name at least one, such as etcd: {}");
    }
    return config;
}

// Everything between the configuration and a running Runtime. Members are
// destroyed in reverse order.
class Host {
public:
    Host(config::OperatorConfig config, Review review)
        : config_(std::move(config)),
          review_(std::move(review)),
          loop_(net::make_loop()),
          log_(obs::Log::to_stderr(
              *loop_, {obs::parse_level(config_.log_level).value_or(obs::Level::info)})),
          observers_(metrics_, log_),
          threads_(control::make_threads()),
          random_(std::random_device{}()) {}

    int run();

private:
    Result<void> connect();
    Result<void> first_contact();
    void watch_signals();
    int load_plugins();
    Result<void> load_plugin(const ReviewedPlugin& reviewed, std::string& refused);
    void refuse(const std::string& name, const std::string& reason);
    Result<void> listen();
    Result<std::unique_ptr<net::HttpServer>> serve(const config::ListenerConfig& listener,
                                                   net::ServerHandler handler);
    int stop();

    const config::OperatorConfig config_;
    const Review review_;
    std::unique_ptr<net::IoLoop> loop_;
    obs::Metrics metrics_;
    obs::Health health_;
    obs::Log log_;
    Observers observers_;
    std::unique_ptr<control::Threads> threads_;
    std::mt19937_64 random_;
    std::unique_ptr<kube::TokenSource> tokens_;
    std::unique_ptr<net::HttpClient> http_;
    std::unique_ptr<kube::Client> client_;
    std::unique_ptr<cache::Cache> cache_;
    std::unique_ptr<control::Runtime> runtime_;
    std::optional<plugin::Loader> loader_;
    std::vector<std::unique_ptr<net::HttpServer>> servers_;
    std::vector<std::unique_ptr<net::Watch>> signals_;
    bool stop_asked_{false};
    std::size_t loaded_{0};
};

Result<void> Host::connect() {
    CAPSTAN_TRY(kube::ConnectionConfig connection, find_connection(config_.kubeconfig));
    if (connection.http.tls.insecure) {
        log_.warn("the API server's certificate is not verified", {{"host", connection.host}});
    }
    tokens_ = connection.make_tokens(*loop_);
    CAPSTAN_TRY(http_, net::make_http_client(*loop_, connection.http));
    kube::ClientOptions options;
    options.host = connection.host;
    options.user_agent = "capstan/" CAPSTAN_VERSION;
    options.tokens = tokens_.get();
    options.observer = &observers_;
    client_ = std::make_unique<kube::Client>(*loop_, *http_, options);
    cache::CacheOptions cache_options;
    cache_options.random = [this] { return std::uniform_real_distribution<double>(0, 1)(random_); };
    cache_options.observer = &observers_;
    cache_ = std::make_unique<cache::Cache>(*loop_, *client_, cache_options);
    return ok();
}

// The server must answer once before anything starts; afterwards the runtime bears its absence.
Result<void> Host::first_contact() {
    const MonotonicTime limit = loop_->now() + kFirstContactMax;
    for (;;) {
        std::optional<Result<void>> outcome;
        const auto call = client_->raw("GET",
                                       "/version",
                                       {},
                                       loop_->now() + std::chrono::seconds(5),
                                       [&](const Result<net::HttpResponse>& answer) {
                                           outcome = answer ? Result<void>(ok())
                                                            : Result<void>(fail(answer.error()));
                                       });
        loop_->run_until([&] { return outcome.has_value() || stop_asked_; },
                         std::chrono::seconds(10));
        if (stop_asked_) {
            return ok();
        }
        const bool answered =
            outcome && (outcome->has_value() || outcome->error().code != Code::unavailable);
        if (answered || loop_->now() >= limit) {
            return answered ? Result<void>(ok())
                            : Result<void>(fail(Code::unavailable,
                                                "the API server does not answer: " +
                                                    (outcome ? outcome->error().message
                                                             : std::string("no answer"))));
        }
        bool waited = false;
        const auto timer = loop_->at(loop_->now() + kFirstContactPause, [&] { waited = true; });
        loop_->run_until([&] { return waited || stop_asked_; }, std::chrono::seconds(5));
    }
}

// From the first moment on: a stop during a slow start is a stop in order too.
void Host::watch_signals() {
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
        if (auto watch = loop_->on_signal(signal, [this] { stop_asked_ = true; })) {
            signals_.push_back(std::move(watch).value());
        }
    }
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
    control::Plugin plugin;
    plugin.manifest = module.manifest();
    plugin.table = &module.table();
    plugin.service = module.service();
    plugin.http_server = module.http_server();
    plugin.config = choice.config.config;
    plugin.gates = reviewed.gates;
    for (const auto& [name, controller] : choice.config.controllers) {
        if (controller.max_concurrent > 0) {
            plugin.max_concurrent[name] = static_cast<std::uint32_t>(controller.max_concurrent);
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
    const char* cache = std::getenv("XDG_CACHE_HOME");
    const std::string cache_dir = cache != nullptr
                                      ? std::string(cache) + "/capstan/plugins"
                                      : "/tmp/capstan-plugins-" + std::to_string(::getuid());
    std::error_code ignored;  // the loader says what is wrong with it
    std::filesystem::create_directories(std::filesystem::path(cache_dir).parent_path(), ignored);
    loader_.emplace(plugin::LoaderOptions{cache_dir, {}, true, plugin::kTrialMax});
    for (const std::string& warning : review_.warnings) {
        log_.warn("plugin warning", {{"message", warning}});
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

Result<std::unique_ptr<net::HttpServer>> Host::serve(const config::ListenerConfig& listener,
                                                     net::ServerHandler handler) {
    net::HttpServerOptions options;
    options.address = listener.address;
    options.port = listener.port;
    if (!listener.tls.certificate_file.empty()) {
        CAPSTAN_TRY(options.certificate_pem, kube::read_small_file(listener.tls.certificate_file));
        CAPSTAN_TRY(options.key_pem, kube::read_small_file(listener.tls.key_file));
    }
    if (!listener.tls.client_ca_file.empty()) {
        CAPSTAN_TRY(options.client_ca_pem, kube::read_small_file(listener.tls.client_ca_file));
        options.client_auth = listener.tls.client_auth == "require" ? net::ClientAuth::require
                                                                    : net::ClientAuth::request;
    }
    return net::make_http_server(*loop_, std::move(options), std::move(handler));
}

Result<void> Host::listen() {
    if (config_.ops.enabled) {
        CAPSTAN_TRY(auto server, serve(config_.ops, ops_handler(health_, metrics_)));
        log_.info("serving health and metrics",
                  {{"address", config_.ops.address}, {"port", server->port()}});
        servers_.push_back(std::move(server));
    }
    if (config_.api.enabled) {
        CAPSTAN_TRY(auto server, serve(config_.api, runtime_->routes()));
        log_.info("serving plugin routes",
                  {{"address", config_.api.address}, {"port", server->port()}});
        servers_.push_back(std::move(server));
    }
    return ok();
}

int Host::stop() {
    std::optional<control::StopReport> report;
    runtime_->stop(config_.graceful_stop,
                   [&](control::StopReport done) { report = std::move(done); });
    loop_->run_until([&] { return report.has_value(); },
                     config_.graceful_stop + std::chrono::seconds(10));
    for (const std::string& left :
         report ? report->left : std::vector<std::string>{"the runtime did not report"}) {
        log_.warn("not stopped in time", {{"message", left}});
    }
    log_.info("stopped");
    return report && report->clean() ? 0 : 1;
}

int Host::run() {
    watch_signals();
    ::mallopt(M_ARENA_MAX, kArenasMax);
    register_process_metrics(metrics_);
    if (const auto connected = connect(); !connected) {
        return complain(connected.error(), 2);
    }
    control::Parts parts{*loop_,
                         *threads_,
                         *client_,
                         *cache_,
                         log_,
                         metrics_,
                         health_,
                         [this](net::HttpClientOptions options) {
                             return net::make_http_client(*loop_, std::move(options));
                         },
                         [this] { return random_(); },
                         environment};
    runtime_ = std::make_unique<control::Runtime>(std::move(parts));
    if (const int code = load_plugins(); code != 0) {
        return code;
    }
    if (const auto listening = listen(); !listening) {
        return complain(listening.error(), 2);
    }
    if (const auto reached = first_contact(); !reached) {
        return complain(reached.error(), 4);
    }
    log_.info("starting", {{"version", CAPSTAN_VERSION}});
    runtime_->start();
    // Discovery and the first lists leave holes behind.
    const auto trim = loop_->at(loop_->now() + kTrimAfter, [] { ::malloc_trim(0); });
    while (!stop_asked_) {
        loop_->run_until([this] { return stop_asked_; }, std::chrono::hours(24));
    }
    return stop();
}

}  // namespace

int run(const RunOptions& options) {
    auto config = load_config(options);
    if (!config) {
        return complain(config.error(), 2);
    }
    Review reviewed = review(config.value(), options.config, options.plugin_dirs);
    if (options.validate_only) {
        const int code = report(reviewed, "capstan run");
        if (code == 0) {
            std::printf("good, %zu plugins\n", reviewed.plugins.size());
        }
        return code;
    }
    if (reviewed.code != 0) {
        return report(reviewed, "capstan run");
    }
    const auto host = std::make_unique<Host>(std::move(config).value(), std::move(reviewed));
    const int code = host->run();
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    // Static destructors of plugins must not race with a worker that did not come back.
    std::fflush(nullptr);
    ::_exit(code);
#else
    return code;
#endif
}

}  // namespace capstan::cli
