// An operator without a cluster: the runtime with its plugins and the embedded API server, all in
// this process, in memory and in virtual time.
//
//     CAPSTAN_TRY(auto offline, OfflineOperator::create(options));
//     CAPSTAN_TRY(offline->client().apply(object));
//     CAPSTAN_TRY(offline->add(reviewed));
//     CAPSTAN_TRY(offline->settle());
//     for (const Written& object : offline->written()) { … }
//     offline->stop();
//
// Exactly one thread runs at a time and time moves only when all wait, so the same input gives the
// same objects. Nobody is asked over the network and no file but the plugins is read. Thread: the
// one that made it.
#pragma once

#include "capstan/error.hpp"
#include "capstan/json.hpp"
#include "capstan/object_ref.hpp"
#include "runtime/cache/cache.hpp"
#include "runtime/cli/embedded_http.hpp"
#include "runtime/cli/local_client.hpp"
#include "runtime/cli/render_objects.hpp"
#include "runtime/cli/review.hpp"
#include "runtime/control/runtime.hpp"
#include "runtime/kube/client.hpp"
#include "runtime/offline/baton.hpp"
#include "runtime/offline/virtual_loop.hpp"
#include "runtime/plugin/module.hpp"

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace capstan::cli {

// At rest: nothing that would be printed changed in two windows of this length, one after the
// other. A key that waits longer for its next run is not waited for.
inline constexpr std::chrono::seconds kRestWindow{30};
inline constexpr std::chrono::minutes kRestLimit{30};  // of virtual time

struct OfflineOptions {
    std::string ns{"default"};            // of objects that name none
    std::optional<obs::Level> log_level;  // on stderr; empty: no log
    RenderShape shape;                    // says what counts as a change
    std::chrono::seconds timeout{60};     // of real time, for settle()
};

// An object that a plugin wrote.
struct Written {
    GroupVersionKind gvk;
    ObjectKey key;
};

class OfflineOperator {
public:
    static Result<std::unique_ptr<OfflineOperator>> create(OfflineOptions options);
    ~OfflineOperator();  // stop()
    OfflineOperator(const OfflineOperator&) = delete;
    OfflineOperator& operator=(const OfflineOperator&) = delete;

    // The API server, strict about fields.
    LocalClient& client() noexcept { return *client_; }
    // Until new kinds are served and what is to be collected is gone.
    void pause();
    // As `capstan run` loads a plugin. Errors: of the file or the plugin, as there.
    Result<void> add(const ReviewedPlugin& reviewed);
    // For tests: a plugin that is no file.
    Result<void> add(control::Plugin plugin);
    const capstan_host* host_for(const plugin::Manifest& manifest);
    // Starts the plugins and runs them until nothing changes any more. Errors: timeout, names what
    // was written last.
    Result<void> settle();
    // What the plugins could not do, a sentence each: instances, caches and keys that failed.
    std::vector<std::string> failures() const;
    // Without Events. Some may be gone again.
    std::vector<Written> written() const;
    void stop();

private:
    explicit OfflineOperator(OfflineOptions options);
    Result<void> start_server();
    control::Parts parts();
    void note(const net::HttpRequest& request, const local::ApiResponse& answer);
    bool run_to(MonotonicTime until);  // false: the real time is over

    const OfflineOptions options_;
    const std::chrono::steady_clock::time_point end_;
    offline::VirtualLoop loop_;
    std::mt19937_64 random_;
    offline::Baton baton_;
    plugin::Loader loader_;
    std::unique_ptr<local::ApiServer> server_;
    std::optional<LocalClient> client_;
    std::optional<EmbeddedHttp> http_;
    obs::Metrics metrics_;
    obs::Health health_;
    std::optional<kube::Client> kube_;
    std::optional<cache::Cache> cache_;
    std::optional<control::Runtime> runtime_;
    bool started_{false};
    // What the plugins wrote, as it would be printed; "": deleted by them.
    std::map<std::pair<GroupVersionKind, ObjectKey>, std::string> written_;
    std::uint64_t changes_{0};  // of written_
    std::string last_;          // what changed last
};

}  // namespace capstan::cli
