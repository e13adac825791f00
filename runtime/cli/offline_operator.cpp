#include "runtime/cli/offline_operator.hpp"

#include "runtime/cli/connection.hpp"

#include <unistd.h>

#include <cstdio>

namespace capstan::cli {
namespace {

constexpr const char* kManager = "capstan-render";
constexpr std::uint64_t kSeed = 1;
constexpr int kQuietWindows = 2;
constexpr std::chrono::seconds kPause{1};
constexpr std::chrono::hours kStuckMax{2};  // of virtual time: plugin calls end long before

// A plugin that computes without an end cannot be stopped, and this process serves nobody else.
void end_stalled(const std::string& thread) {
    std::fprintf(stderr,
                 "capstan render: thread \"%s\" of a plugin ran for %lld s without a host call\n",
                 thread.c_str(),
                 static_cast<long long>(offline::kStallMax.count()));
    std::fflush(nullptr);
    ::_exit(3);
}

// From the answer; where the client asked for metadata alone, from what it sent.
json::Value written_object(const std::string& answer, const std::string& sent) {
    for (const std::string* text : {&answer, &sent}) {
        auto parsed = json::parse(*text);
        const json::Value object = parsed ? std::move(parsed).value() : json::Value();
        const json::View view(object);
        const std::string_view kind = view["kind"].string_or("");
        if (!view["metadata"]["name"].string_or("").empty() && !kind.empty() &&
            kind != "PartialObjectMetadata") {
            return object;
        }
    }
    return {};
}

// What is wrong with one controller of the debug page.
void add_failures(const json::View& controller,
                  const std::string& plugin,
                  std::vector<std::string>& failures) {
    const std::string who =
        plugin + ", controller " + std::string(controller["controller"].string_or(""));
    if (!controller["synced"].bool_or(true) && controller["waitsFor"].present()) {
        failures.push_back(who + ": waits for " +
                           std::string(controller["waitsFor"].string_or("")) +
                           "; remedy: give the CustomResourceDefinition with -f");
    }
    for (std::size_t i = 0; i < controller["keys"].array().size(); ++i) {
        const json::View key = controller["keys"][i];
        if (key["lastError"].present()) {
            failures.push_back(who + ", " + std::string(key["key"].string_or("")) + ": " +
                               std::string(key["lastError"].string_or("")));
        }
    }
}

}  // namespace

OfflineOperator::OfflineOperator(OfflineOptions options)
    : options_(std::move(options)),
      end_(std::chrono::steady_clock::now() + options_.timeout),
      random_(kSeed),
      baton_(loop_, kSeed, &end_stalled),
      loader_({plugin_cache_directory(), {}, true, plugin::kTrialMax}) {}

Result<std::unique_ptr<OfflineOperator>> OfflineOperator::create(OfflineOptions options) {
    // tidy: allow new, private constructor
    std::unique_ptr<OfflineOperator> offline(new OfflineOperator(std::move(options)));
    CAPSTAN_TRY(offline->start_server());
    return offline;
}

Result<void> OfflineOperator::start_server() {
    local::ApiServerOptions server;
    server.rbac = false;  // the runtime asks the manifests
    server.seed = kSeed;
    CAPSTAN_TRY(server_, local::ApiServer::create(loop_, std::move(server)));
    client_.emplace(*server_, LocalClientOptions{kManager, options_.ns, true});
    http_.emplace(
        loop_, *server_, [this](const net::HttpRequest& request, const local::ApiResponse& answer) {
            note(request, answer);
        });
    kube::ClientOptions client;
    client.host = "embedded";
    client.user_agent = kManager;
    kube_.emplace(loop_, *http_, std::move(client));
    cache::CacheOptions cache;
    cache.random = [this] { return static_cast<double>(random_() >> 11) * 0x1p-53; };
    cache_.emplace(loop_, *kube_, std::move(cache));
    runtime_.emplace(parts());
    return ok();
}

OfflineOperator::~OfflineOperator() {
    stop();
}

control::Parts OfflineOperator::parts() {
    return {loop_,
            baton_,
            *kube_,
            *cache_,
            options_.log_level ? obs::Log::to_stderr(loop_, {*options_.log_level}) : obs::Log(),
            metrics_,
            health_,
            [](const net::HttpClientOptions& asked) -> Result<std::unique_ptr<net::HttpClient>> {
                return fail(Code::unavailable,
                            asked.endpoint + ": nobody is asked over the network offline");
            },
            [this] { return random_(); },
            environment,
            nullptr};
}

// What would not be printed is no change: a plugin may report its health for ever.
void OfflineOperator::note(const net::HttpRequest& request, const local::ApiResponse& answer) {
    if (answer.status < 200 || answer.status >= 300) {
        return;
    }
    const json::Value object = written_object(answer.body, request.body);
    const json::View view(object);
    if (object.is_null() || view["kind"].string_or("") == "Event") {
        return;
    }
    const auto gvk = GroupVersionKind::from_api_version(view["apiVersion"].string_or(""),
                                                        view["kind"].string_or(""));
    const ObjectKey key{std::string(view["metadata"]["namespace"].string_or("")),
                        std::string(view["metadata"]["name"].string_or(""))};
    const std::string text = request.method == "DELETE"
                                 ? std::string()
                                 : json::dump_sorted(as_printed(object, options_.shape));
    if (const auto [at, fresh] = written_.try_emplace({gvk, key}, text);
        fresh || at->second != text) {
        at->second = text;
        last_ = gvk.kind + " " + key.to_string();
        ++changes_;
    }
}

Result<void> OfflineOperator::add(const ReviewedPlugin& reviewed) {
    CAPSTAN_TRY(auto candidate, loader_.check(reviewed.chosen.path));
    const capstan_host* host = host_for(candidate.manifest());
    CAPSTAN_TRY(const plugin::Module* module, loader_.load(std::move(candidate), host));
    return add(plugin_of(*module, reviewed));
}

Result<void> OfflineOperator::add(control::Plugin plugin) {
    return runtime_->add(std::move(plugin));
}

const capstan_host* OfflineOperator::host_for(const plugin::Manifest& manifest) {
    return runtime_->host_for(manifest);
}

void OfflineOperator::pause() {
    baton_.run_for(kPause);
}

bool OfflineOperator::run_to(MonotonicTime until) {
    bool late = false;
    baton_.run_until(
        [&] {
            late = std::chrono::steady_clock::now() >= end_;
            return late;
        },
        until);
    return !late;
}

Result<void> OfflineOperator::settle() {
    runtime_->start();
    started_ = true;
    const MonotonicTime limit = loop_.now() + kRestLimit;
    for (int quiet = 0; quiet < kQuietWindows;) {
        const std::uint64_t before = changes_;
        if (!run_to(loop_.now() + kRestWindow) || loop_.now() >= limit) {
            return fail(Code::timeout,
                        "the plugins do not come to rest; last they wrote " +
                            (last_.empty() ? "nothing" : last_) +
                            "; remedy: a longer --timeout if this machine is slow");
        }
        quiet = changes_ == before && runtime_->idle() ? quiet + 1 : 0;
    }
    return ok();
}

std::vector<std::string> OfflineOperator::failures() const {
    std::vector<std::string> failures;
    const json::Value page = runtime_->debug();
    const json::View plugins = json::View(page)["plugins"];
    for (std::size_t i = 0; i < plugins.array().size(); ++i) {
        const json::View plugin = plugins[i];
        const std::string who = "plugin " + std::string(plugin["plugin"].string_or(""));
        const std::string_view phase = plugin["phase"].string_or("");
        if (phase != "running") {
            failures.push_back(who + " is " + std::string(phase) + ": " +
                               std::string(plugin["failure"].string_or("no reason is known")));
            continue;
        }
        for (std::size_t c = 0; c < plugin["controllers"].array().size(); ++c) {
            add_failures(plugin["controllers"][c], who, failures);
        }
    }
    return failures;
}

std::vector<Written> OfflineOperator::written() const {
    std::vector<Written> objects;
    for (const auto& [place, text] : written_) {
        if (!text.empty()) {
            objects.push_back({place.first, place.second});
        }
    }
    return objects;
}

void OfflineOperator::stop() {
    if (!runtime_) {
        return;
    }
    if (std::exchange(started_, false)) {
        bool stopped = false;
        runtime_->stop(control::kStopGrace, [&](const control::StopReport&) { stopped = true; });
        baton_.run_until([&] { return stopped; },
                         loop_.now() + control::kStopGrace + std::chrono::minutes(1));
        baton_.run_until([&] { return baton_.living() == 0; }, loop_.now() + kStuckMax);
        if (baton_.living() > 0) {
            end_stalled("one");
        }
    }
    runtime_.reset();
    cache_.reset();
    kube_.reset();
    pause();
}

}  // namespace capstan::cli
