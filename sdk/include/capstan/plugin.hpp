// The C++ face of the plugin ABI: write a Controller, list it in make_plugin, end the file with
// CAPSTAN_PLUGIN.
//
//     class Greeter final : public capstan::Controller {
//     public:
//         capstan::Outcome reconcile(capstan::Call& call,
//                                    const capstan::Request& request) override {
//             auto greeting = call.cache().get("demo.example.io/Greeting", request.key);
//             if (!greeting) return capstan::Outcome::done();  // deleted
//             auto applied = call.client().apply("v1/ConfigMap", {…});
//             if (!applied) return capstan::Outcome::failed(applied.error());
//             return capstan::Outcome::done();
//         }
//     };
//
//     capstan::Result<void> make_plugin(capstan::Setup& setup) {
//         setup.controller("greeting", std::make_unique<Greeter>());
//         return capstan::ok();
//     }
//     CAPSTAN_PLUGIN(make_plugin)
//
// The adapter behind the macro catches every exception at the border (CAPSTAN_E_PANIC).
// Thread tags as in capstan.h.
#pragma once

#include "capstan/capstan.h"
#include "capstan/clock.hpp"
#include "capstan/error.hpp"
#include "capstan/http.hpp"
#include "capstan/json.hpp"
#include "capstan/object_ref.hpp"

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace capstan {

class Call;
class HostTables;  // the host's extension tables, looked up once

// One object as the host holds it: immutable, shared. Views live as long as this. [any]
class Object {
public:
    Object() noexcept = default;
    Object(const capstan_ext_cache* table, const capstan_obj* handle) noexcept
        : table_(table), handle_(handle) {}
    Object(Object&& other) noexcept
        : table_(other.table_), handle_(std::exchange(other.handle_, nullptr)) {}
    Object& operator=(Object&& other) noexcept;
    ~Object() { reset(); }

    std::string_view bytes() const noexcept;
    Result<json::Value> parse() const;
    // Only the value at an RFC 6901 pointer, which costs what that value costs; not_found.
    Result<json::Value> parse(std::string_view pointer) const;
    Result<std::string> text(std::string_view pointer) const;  // a string field; not_found, invalid
    const capstan_obj* handle() const noexcept { return handle_; }

private:
    void reset() noexcept;
    const capstan_ext_cache* table_{nullptr};
    const capstan_obj* handle_{nullptr};
};

// Watched objects, read from memory. Errors: not_found; denied (no watch in the
// manifest); fenced, cancelled.
class Cache {
public:
    explicit Cache(Call& call) noexcept : call_(&call) {}
    Result<Object> get(std::string_view gk, const ObjectKey& key);
    Result<json::Value> get_value(std::string_view gk, const ObjectKey& key);
    // Parsed objects, ordered by namespace and name. `selector`: Kubernetes
    // label selector, "" for all.
    Result<std::vector<json::Value>> list(std::string_view gk,
                                          std::string_view ns,
                                          std::string_view selector = "");

private:
    Call* call_;
};

struct ApplyOptions {
    std::string_view subresource{};  // "status", "scale"
    bool force{true};
    bool dry_run{false};
    bool always{false};  // send even when nothing would change
};

struct RemoveOptions {
    std::string_view propagation{"Background"};
    std::int64_t grace_period_seconds{-1};  // -1: the kind's default
};

// Live requests. Errors as the Code table in error.hpp says; the message names verb, kind and key.
class Client {
public:
    explicit Client(Call& call) noexcept : call_(&call) {}
    Result<Object> get(std::string_view gvk, const ObjectKey& key);
    Result<json::Value> get_value(std::string_view gvk, const ObjectKey& key);
    Result<std::vector<json::Value>> list(std::string_view gvk,
                                          std::string_view ns,
                                          std::string_view selector = "");
    // Server-side apply of exactly the fields in `intent`. Not sent when the cached
    // object already has them.
    Result<void> apply(std::string_view gvk,
                       const json::Value& intent,
                       const ApplyOptions& options = {});
    Result<void> patch_json(std::string_view gvk,
                            const ObjectKey& key,
                            const json::Value& operations,
                            std::string_view subresource = "");
    Result<void> patch_merge(std::string_view gvk,
                             const ObjectKey& key,
                             const json::Value& patch,
                             std::string_view subresource = "");
    Result<void> create(std::string_view gvk, const json::Value& object);
    // `object` comes from this Client's get in the same call; only exactly it is deleted.
    Result<void> remove(const Object& object, const RemoveOptions& options = {});

private:
    Call* call_;
};

// Something to wait on; notify is kept once when nobody waits. Outlives its waiters.
class Token {
public:
    Token() noexcept = default;
    explicit Token(const HostTables& host);
    Token(Token&& other) noexcept
        : host_(other.host_), handle_(std::exchange(other.handle_, nullptr)) {}
    Token& operator=(Token&& other) noexcept;
    ~Token() { reset(); }
    void notify() noexcept;  // [any]
    capstan_token* handle() const noexcept { return handle_; }

private:
    void reset() noexcept;
    const HostTables* host_{nullptr};
    capstan_token* handle_{nullptr};
};

enum class LogLevel : std::int32_t {
    error = CAPSTAN_LOG_ERROR,
    warn = CAPSTAN_LOG_WARN,
    info = CAPSTAN_LOG_INFO,
    debug = CAPSTAN_LOG_DEBUG
};

// The host as an instance sees it, for its whole life. [any]
class HostTables {
public:
    explicit HostTables(const capstan_host* host) noexcept;
    void log(LogLevel level, std::string_view message, const json::Value& fields = {}) const;
    MonotonicTime now() const noexcept;
    WallTime wall_now() const noexcept;
    // Raw digest bytes. Errors: unsupported. `algorithm`: CAPSTAN_DIGEST_….
    Result<std::string> digest(std::int32_t algorithm,
                               std::string_view bytes,
                               std::string_view key = "") const;
    // lower-case hex
    Result<std::string> sha256_hex(std::string_view bytes) const;
    // What this plugin has registered with capstan.metrics/1, as Prometheus text 0.0.4.
    // Errors: unsupported.
    Result<std::string> render_metrics() const;

    const capstan_host* host;
    const capstan_ext_call* call;
    const capstan_ext_cache* cache;
    const capstan_ext_client* client;
    const capstan_ext_queue* queue;
    const capstan_ext_events* events;
    const capstan_ext_features* features;
    const capstan_ext_clock* clock;
    const capstan_ext_metrics* metrics;
    const capstan_ext_http* http;
    const capstan_ext_http_server* http_server;
    const capstan_ext_digest* digest_table;
};

// The capability one reconcile, service run or request works with. Not kept beyond it.
class Call {
public:
    Call(const HostTables& host, capstan_call* handle) noexcept : host_(&host), handle_(handle) {}
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

    Cache cache() noexcept { return Cache(*this); }
    Client client() noexcept { return Client(*this); }
    Http http() noexcept { return Http(*this); }

    bool cancelled() const noexcept;
    MonotonicTime deadline() const noexcept;
    MonotonicTime now() const noexcept { return host_->now(); }
    WallTime wall_now() const noexcept { return host_->wall_now(); }
    // false for a gate the manifest does not have
    bool enabled(std::string_view gate) const noexcept;

    // ok: notified. Errors: timeout (`until` passed), cancelled, fenced.
    Result<void> wait(Token& token, MonotonicTime until);
    // ok: the time has come. Errors: cancelled, fenced
    Result<void> sleep_until(MonotonicTime until);

    // Wakes a key of a controller of this plugin.
    Result<void> enqueue(std::string_view controller,
                         const ObjectKey& key,
                         std::chrono::nanoseconds after = {});
    // `type`: "Normal" or "Warning". Never blocks; a flood is cut by the host.
    void event(const GroupVersionKind& gvk,
               const ObjectKey& regarding,
               std::string_view uid,
               std::string_view type,
               std::string_view reason,
               std::string_view note);
    void log(LogLevel level, std::string_view message, const json::Value& fields = {}) const {
        host_->log(level, message, fields);
    }

    // the host's detail of a failed call
    Error last_error(capstan_rc rc, std::string_view context) const;
    const HostTables& host() const noexcept { return *host_; }
    capstan_call* handle() const noexcept { return handle_; }

private:
    const HostTables* host_;
    capstan_call* handle_;
};

struct Request {
    std::string controller;
    GroupVersionKind gvk;  // version is empty: the manifest's `for` watch says it
    ObjectKey key;
    std::uint32_t attempt{0};
};

// What a reconcile says about its key. Exactly one of four; the object itself wakes
// the key in all of them.
class Outcome {
public:
    static Outcome done() noexcept { return Outcome(CAPSTAN_OK, CAPSTAN_RETRY_NONE, {}, {}); }
    // not a failure: look again then
    static Outcome after(std::chrono::nanoseconds delay) noexcept {
        return Outcome(CAPSTAN_OK, CAPSTAN_RETRY_AFTER, delay, {});
    }
    static Outcome failed(const Error& error);  // again with back-off; honours error.retry_after
    static Outcome parked(const Error& error);  // not before the object changes

    capstan_rc rc() const noexcept { return rc_; }
    std::int32_t retry() const noexcept { return retry_; }
    std::chrono::nanoseconds delay() const noexcept { return delay_; }
    const std::string& message() const noexcept { return message_; }

private:
    Outcome(capstan_rc rc,
            std::int32_t retry,
            std::chrono::nanoseconds delay,
            std::string message) noexcept
        : rc_(rc), retry_(retry), delay_(delay), message_(std::move(message)) {}
    capstan_rc rc_;
    std::int32_t retry_;
    std::chrono::nanoseconds delay_;
    std::string message_;
};

class Controller {
public:
    virtual ~Controller() = default;
    virtual Outcome reconcile(Call& call, const Request& request) = 0;  // [worker]
};

// Returns when call.cancelled(), or with an error: the host then starts it again with back-off.
class Service {
public:
    virtual ~Service() = default;
    virtual Result<void> run(Call& call) = 0;  // [worker]
};

// One incoming request. Answer once.
class Exchange {
public:
    static constexpr std::size_t kBodyBytesMax = 1024 * 1024;
    Exchange(const HostTables& host, capstan_exchange* handle);
    const std::string& method() const noexcept { return method_; }
    const std::string& path() const noexcept { return path_; }
    const std::string& query() const noexcept { return query_; }  // raw, without '?'
    std::string_view header(std::string_view lower_case_name) const noexcept;
    // verified client certificate, or ""
    const std::string& common_name() const noexcept { return common_name_; }
    const std::string& remote() const noexcept { return remote_; }  // "127.0.0.1:40210"
    bool over_tls() const noexcept { return over_tls_; }
    bool certified() const noexcept { return certified_; }  // a client certificate was verified
    std::string query_value(std::string_view key) const;    // decoded; "" when absent
    // too_large above kBodyBytesMax
    Result<std::string> body();
    // One more header of the answer; before respond.
    void set_header(std::string_view name, std::string_view value);
    void respond(int status, std::string_view content_type, std::string_view body);
    void respond_json(int status, const json::Value& body);

private:
    const HostTables* host_;
    capstan_exchange* handle_;
    std::string method_, path_, query_, common_name_, remote_;
    bool over_tls_{false}, certified_{false};
    json::Value request_;
    json::Value headers_out_{json::object()};
};

class Route {
public:
    virtual ~Route() = default;
    virtual void handle(Call& call, Exchange& exchange) = 0;  // [worker]
};

// What make_plugin fills. Names must be those of the manifest; anything
// missing is refused at create.
class Setup {
public:
    Setup(const HostTables& host, const json::Value& config) noexcept
        : host_(&host), config_(&config) {}
    const HostTables& host() const noexcept { return *host_; }  // lives as long as the instance
    const json::Value& config() const noexcept { return *config_; }
    void controller(std::string name, std::unique_ptr<Controller> controller);
    void service(std::string name, std::unique_ptr<Service> service);
    void route(std::string name, std::unique_ptr<Route> route);
    // State shared by the parts above; destroyed after them.
    void own(std::shared_ptr<void> state) { owned_.push_back(std::move(state)); }

private:
    friend struct PluginInstance;
    const HostTables* host_;
    const json::Value* config_;
    std::vector<std::pair<std::string, std::unique_ptr<Controller>>> controllers_;
    std::vector<std::pair<std::string, std::unique_ptr<Service>>> services_;
    std::vector<std::pair<std::string, std::unique_ptr<Route>>> routes_;
    std::vector<std::shared_ptr<void>> owned_;
};

using MakePlugin = Result<void> (*)(Setup&);

Code code_of(capstan_rc rc) noexcept;
capstan_rc rc_of(Code code) noexcept;
inline capstan_str to_str(std::string_view text) noexcept {
    return {text.data(), text.size()};
}
inline std::string_view view_of(capstan_str text) noexcept {
    return {text.ptr, static_cast<std::size_t>(text.len)};
}

namespace detail {
const capstan_plugin* plugin_entry(const capstan_host* host,
                                   MakePlugin make,
                                   const char* id,
                                   const char* version,
                                   const char* parts = "") noexcept;
}

}  // namespace capstan

// CAPSTAN_PLUGIN_ID, _VERSION and _PARTS come from manifest.json through the build.
#ifndef CAPSTAN_PLUGIN_PARTS
#define CAPSTAN_PLUGIN_PARTS ""  // unknown: what make_plugin leaves out shows when it is called
#endif
#define CAPSTAN_PLUGIN(make)                                                                \
    extern "C" CAPSTAN_EXPORT const capstan_plugin* capstan_plugin_entry(                   \
        const capstan_host* host) noexcept {                                                \
        return ::capstan::detail::plugin_entry(                                             \
            host, (make), CAPSTAN_PLUGIN_ID, CAPSTAN_PLUGIN_VERSION, CAPSTAN_PLUGIN_PARTS); \
    }
