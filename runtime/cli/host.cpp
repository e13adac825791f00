#include "runtime/cli/host.hpp"

#include "runtime/cli/descriptors.hpp"
#include "runtime/cli/exit_guard.hpp"
#include "runtime/kube/server_version.hpp"
#include "runtime/net/http_client.hpp"
#include "runtime/obs/line_writer.hpp"

#include <malloc.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <utility>

namespace capstan::cli {
namespace {

constexpr std::chrono::seconds kFirstContactMax{30};
constexpr std::chrono::milliseconds kFirstContactPause{500};
constexpr std::chrono::seconds kFirstAnswerMax{5};
constexpr std::chrono::minutes kDiscoveryMax{10};
constexpr std::chrono::seconds kTrimAfter{5};
// After a lost lease: time for calls to see that they are cancelled, and not more, since the next
// leader is due.
constexpr std::chrono::seconds kLostGrace{1};
constexpr int kArenasMax = 2;  // of the allocator: a further one for each thread costs a MiB

}  // namespace

int complain(const Error& error, int code) {
    obs::LineWriter out(STDERR_FILENO, [](std::uint64_t) { return std::string(); });
    out.write("capstan run: " + error.message);
    out.flush(std::chrono::seconds(1));  // a pipe that nobody reads must not keep us from ending
    return code;
}

namespace {

// In a container the name of the pod.
std::string host_name() {
    std::array<char, 256> name{};
    return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "unknown";
}

std::string without_digits(std::string text) {
    std::erase_if(text, [](char c) { return c >= '0' && c <= '9'; });
    return text;
}

}  // namespace

Host::Host(config::OperatorConfig config, Review review)
    : config_(std::move(config)),
      review_(std::move(review)),
      loop_(net::make_loop()),
      log_(obs::Log::to_stderr(*loop_,
                               {obs::parse_level(config_.log_level).value_or(obs::Level::info)})),
      observers_(metrics_, log_),
      credentials_(*loop_, metrics_, log_),
      threads_(control::make_threads()),
      random_(std::random_device{}()) {}

Host::~Host() = default;

void Host::end_children() noexcept {
    log_.flush();
    if (election_ != nullptr) {
        election_->close();
    }
    if (api_ != nullptr) {
        api_->close();
    }
}

Result<void> Host::connect() {
    CAPSTAN_TRY(kube::ConnectionConfig connection,
                find_connection(config_.kubeconfig, config_.context));
    if (connection.http.tls.insecure) {
        log_.warn("the API server's certificate is not verified", {{"host", connection.host}});
    }
    if (config_.leader_election.enabled) {
        ElectionParts parts{
            *loop_, &observers_, log_, metrics_, health_, [this] { return random_(); }};
        CAPSTAN_TRY(election_,
                    Election::create(std::move(parts), connection, config_.leader_election));
    }
    const auto random = [this] { return std::uniform_real_distribution<double>(0, 1)(random_); };
    kube::ConnectionOptions options;
    options.rights_remedy = kRightsRemedy;
    options.user_agent = "capstan/" CAPSTAN_VERSION;
    options.observer = &observers_;
    options.gate = election_ == nullptr ? nullptr : &election_->gate();
    options.rotation = &credentials_;
    options.exec = &credentials_;
    options.random = random;
    CAPSTAN_TRY(api_, kube::Connection::open(*loop_, std::move(connection), std::move(options)));
    cache::CacheOptions cache_options;
    cache_options.random = random;
    cache_options.observer = &observers_;
    cache_ = std::make_unique<cache::Cache>(*loop_, api_->client(), cache_options);
    observers_.show_cache(*cache_, *loop_);
    observers_.show_acceptance(health_);
    if (config_.limits.cache_bytes > 0) {
        cache_budget_.emplace(*loop_,
                              metrics_,
                              health_,
                              log_,
                              static_cast<std::size_t>(config_.limits.cache_bytes),
                              [this] { return cache_->states(); });
    }
    return ok();
}

Result<void> Host::ask_version() {
    std::optional<Result<void>> outcome;
    const auto call = api_->client().raw("GET",
                                         "/version",
                                         {},
                                         loop_->now() + kFirstAnswerMax,
                                         [&](const Result<net::HttpResponse>& answer) {
                                             outcome = answer ? Result<void>(ok())
                                                              : Result<void>(fail(answer.error()));
                                             if (answer) {
                                                 note_server(answer.value());
                                             }
                                         });
    loop_->run_until([&] { return outcome.has_value() || stop_asked_; }, 2 * kFirstAnswerMax);
    return outcome ? std::move(*outcome) : Result<void>(fail(Code::timeout, "no answer"));
}

// The server must answer once before anything starts; afterwards the runtime bears its absence.
Result<void> Host::first_contact() {
    const MonotonicTime limit = loop_->now() + kFirstContactMax;
    health_.add("api-server", obs::Probe::readyz, "has not answered yet");
    std::string told;
    for (;;) {
        const Result<void> outcome = ask_version();
        if (stop_asked_) {
            return ok();
        }
        // Refusals are answers; silence and a cut connection are none.
        const bool answered = outcome || (outcome.error().code != Code::unavailable &&
                                          outcome.error().code != Code::timeout);
        if (answered) {
            if (!outcome) {
                log_.warn("the first answer of the API server is an error",
                          {{"error", outcome.error().message}});
            }
            health_.remove("api-server");
            return ok();
        }
        // Without credentials it is no use to wait for the server. Timeout: they are on their way.
        if (kube::TokenSource* tokens = api_->tokens(); tokens != nullptr) {
            if (const auto token = tokens->token(); !token && token.error().code != Code::timeout) {
                return fail(token.error());
            }
        }
        const std::string& why = outcome.error().message;
        if (loop_->now() >= limit) {
            return fail(Code::unavailable, "the API server does not answer: " + why);
        }
        // The times in a text about certificates make no new one.
        if (std::string said = without_digits(why); std::exchange(told, said) != said) {
            log_.warn("the API server does not answer yet; it is asked again", {{"error", why}});
        }
        bool waited = false;
        const auto timer = loop_->at(loop_->now() + kFirstContactPause, [&] { waited = true; });
        loop_->run_until([&] { return waited || stop_asked_; }, std::chrono::seconds(5));
    }
}

void Host::note_server(const net::HttpResponse& version) {
    const auto server = kube::parse_server_version(version.body);
    cache_->prefer_whole_lists(server && server.value().streams_lists());
}

// With `namespaces`: which of the watched kinds have none. What discovery does not know (a CRD that
// is not there yet) is taken for namespaced.
void Host::learn_scopes() {
    std::size_t open = config_.namespaces.empty() ? 0 : watched_kinds_.size();
    if (open == 0) {
        return;
    }
    for (const GroupVersionKind& gvk : watched_kinds_) {
        api_->client().resources().resolve(gvk,
                                           [this, gvk, &open](Result<kube::Resource> resource) {
                                               --open;
                                               if (resource && !resource.value().namespaced) {
                                                   cluster_scoped_.insert(gvk);
                                               }
                                           });
    }
    // Every request of discovery has a deadline of its own: none is left behind.
    loop_->run_until([&open] { return open == 0; }, kDiscoveryMax);
    CAPSTAN_CHECK(open == 0, "discovery does not end");
}

// From the first moment on: a stop during a slow start is a stop in order too.
void Host::watch_signals() {
    for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
        if (auto watch = loop_->on_signal(signal, [this] { stop_asked_ = true; })) {
            signals_.push_back(std::move(watch).value());
        }
    }
}

void Host::stand_for_election() {
    lease::ElectorHandler handler;
    handler.elected = [this] {
        if (!ended()) {
            runtime_->lead();
        }
    };
    handler.lost = [this](const std::string& why) { loss_ = why; };
    election_->start(std::move(handler));
}

int Host::stop() {
    const std::chrono::nanoseconds grace = loss_.empty() ? config_.graceful_stop : kLostGrace;
    std::optional<control::StopReport> report;
    runtime_->stop(grace, [&](control::StopReport done) { report = std::move(done); });
    loop_->run_until([&] { return report.has_value(); }, grace + std::chrono::seconds(10));
    for (const std::string& left :
         report ? report->left : std::vector<std::string>{"the runtime did not report"}) {
        log_.warn("not stopped in time", {{"message", left}});
    }
    const bool clean = report && report->clean();
    if (election_ != nullptr && loss_.empty()) {
        // Renewed until here. With work still running the next leader must wait for the lease.
        const Result<void> released =
            clean ? election_->release()
                  : Result<void>(fail(Code::timeout, "not everything stopped in time"));
        if (!released) {
            log_.warn("lease not released; it runs out by itself",
                      {{"error", released.error().message}});
        }
    }
    log_.info("stopped");
    log_.flush();
    if (!loss_.empty()) {
        return complain({Code::cancelled,
                         loss_ + "; this process ends and writes nothing more; remedy: " +
                             (loss_.find(": 403 ") == std::string::npos
                                  ? "start it again, it then stands by"
                                  : "apply the rights that `capstan rbac --config` prints, then "
                                    "start it again"),
                         {}},
                        5);
    }
    return clean ? 0 : 1;
}

int Host::run() {
    raise_descriptor_limit();
    watch_signals();
    ::mallopt(M_ARENA_MAX, kArenasMax);
    register_process_metrics(metrics_);
    if (const auto connected = connect(); !connected) {
        return complain(connected.error(), 2);
    }
    control::Parts parts{*loop_,
                         *threads_,
                         api_->client(),
                         *cache_,
                         log_,
                         metrics_,
                         health_,
                         [this](net::HttpClientOptions options) {
                             return net::make_http_client(*loop_, std::move(options));
                         },
                         [this] { return random_(); },
                         environment,
                         election_ == nullptr ? nullptr : &election_->gate()};
    control::RuntimeOptions options;
    options.standby = election_ != nullptr;
    options.identity = "capstan-" + host_name();
    options.namespaces = config_.namespaces;
    options.cluster_scoped = [this](const GroupVersionKind& gvk) {
        return cluster_scoped_.contains(gvk);
    };
    runtime_ = std::make_unique<control::Runtime>(std::move(parts), std::move(options));
    guard_exit();
    name_crashes();
    if (const int code = load_plugins(); code != 0) {
        return code;
    }
    guard_exit();
    if (const auto listening = listen(); !listening) {
        return complain(listening.error(), 2);
    }
    if (const auto reached = first_contact(); !reached) {
        return complain(reached.error(), 4);
    }
    if (ended()) {
        log_.info("stopped", {{"reason", "asked to before the API server had answered"}});
        return 0;
    }
    learn_scopes();
    log_.info("starting", {{"version", CAPSTAN_VERSION}});
    runtime_->start();
    if (election_ != nullptr) {
        stand_for_election();
    }
    // Discovery and the first lists leave holes behind.
    const auto trim = loop_->at(loop_->now() + kTrimAfter, [] { ::malloc_trim(0); });
    while (!ended()) {
        loop_->run_until([this] { return ended(); }, std::chrono::hours(24));
    }
    return stop();
}

}  // namespace capstan::cli
