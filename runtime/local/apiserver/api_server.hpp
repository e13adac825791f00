// The embedded API server's core: Kubernetes' REST semantics over an in-memory store,
// optionally kept on disk.
//
// No sockets, no wall clock of its own, no randomness but the seed's: the same calls give the same
// answers, so the simulator uses it as its API server. http_binding.hpp puts it on a
// net::HttpServer. What it does not do is listed in docs/local.md. Thread: all calls on one thread.
#pragma once

#include "runtime/local/apiserver/api_types.hpp"

#include "capstan/clock.hpp"
#include "capstan/error.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

namespace capstan::local {

// request body, as kube-apiserver: 413 above
inline constexpr std::size_t kBodyBytesMax = 3u * 1024 * 1024;
// one stored object: etcd's request limit
inline constexpr std::size_t kObjectBytesMax = 1536u * 1024;
inline constexpr std::size_t kWatchesMax = 10'000;  // 429 above
inline constexpr std::chrono::seconds kBookmarkPeriod{60};

enum class Durability : std::uint8_t {
    machine,  // fdatasync before each answered write: survives a power cut
    process,  // write() only: survives kill -9
};

struct ApiServerOptions {
    std::string data_dir;  // empty: in memory; else created 0700 if absent, locked while open
    Durability durability{Durability::machine};
    bool rbac{true};                       // false: everybody may do everything
    std::uint64_t seed{1};                 // uids, generateName suffixes, default watch lengths
    std::size_t history_events_max{4096};  // per resource; older starts of a watch get 410
    std::chrono::seconds history_age_max{300};
    // a watch from a forgotten version: 200 and an ERROR event instead of HTTP 410
    bool expired_in_stream{false};
    // Content of pods/log for the core's handle(); null: 501. The HTTP binding
    // may stream it instead.
    std::function<ApiResponse(const PodLogRequest&)> pod_log;
    // serviceaccounts/token: a bearer token for (namespace, name), good in [from, to); null: 404 on
    // the subresource.
    std::function<std::string(
        const std::string& ns, const std::string& name, WallTime from, WallTime to)>
        service_account_token;
    // A line for people: a torn log tail was cut, a snapshot could not be written. May be null.
    std::function<void(const std::string& message)> on_notice;
};

// Outcome of open_watch: `handle`, or the answer to send when it is null.
struct WatchStart {
    std::unique_ptr<WatchHandle> handle;
    ApiResponse refused;
};

// Outcome of check_pod_log: `allowed`, or the answer to send.
struct PodLogCheck {
    bool allowed{false};
    PodLogRequest request;
    ApiResponse refused;
};

class ApiServer {
public:
    // `clock` outlives the server. Errors: unavailable (directory locked by another server, not
    // writable), invalid (snapshot damaged; the message names file and offset). A torn tail of the
    // log is cut, not an error.
    static Result<std::unique_ptr<ApiServer>> create(const Clock& clock, ApiServerOptions options);
    ~ApiServer();  // ends every watch
    ApiServer(const ApiServer&) = delete;
    ApiServer& operator=(const ApiServer&) = delete;

    // Everything but watches. Errors are answers: Status objects with Kubernetes' reasons and
    // codes. A write is on disk, and its watch events are delivered, when this returns.
    ApiResponse handle(const ApiRequest& request);

    // True when `request` is a watch (GET of a collection with watch=true, or
    // the old /watch/ prefix).
    static bool is_watch(const ApiRequest& request);
    // Initial events reach `sink` inside this call.
    WatchStart open_watch(const ApiRequest& request, WatchSink sink);

    // True when `request` is GET …/pods/NAME/log; then check_pod_log says whether it may be served.
    static bool is_pod_log(const ApiRequest& request);
    PodLogCheck check_pod_log(const ApiRequest& request);

    // Garbage collection, namespace and CRD clean-up, bookmarks, watch timeouts, history ageing.
    void tick();
    // when tick() has something to do; kNever: not before the next call
    MonotonicTime next_tick() const;

    // Called at the end of handle() and open_watch(): next_tick() may have moved. Null: nobody.
    void set_wake(std::function<void()> wake);

    void compact_history();  // forgets all history: watches from an older version get 410
    std::uint64_t revision() const;

    // The latest stored form of one object's JSON for in-process users (the node); empty: absent.
    // `resource` is "group/plural" or "plural" for the core group.
    std::string read(std::string_view resource, std::string_view ns, std::string_view name) const;

    struct State;

private:
    explicit ApiServer(std::unique_ptr<State> state);
    std::unique_ptr<State> state_;
};

}  // namespace capstan::local
