// A host in memory, for the tests of plugins: objects with optimistic concurrency, a clock
// that stands still, recorded calls and faults on demand. One thread drives plugin and host;
// nothing waits.
//
//     FakeHost host;
//     host.put({{"apiVersion", "v1"},
//               {"kind", "ConfigMap"},
//               {"metadata", {{"namespace", "n"}, {"name", "a"}}}});
//     // entry, create, start; at its end stop, destroy
//     PluginUnderTest plugin(host, capstan_plugin_entry);
//     const Reconciled done = plugin.reconcile("greeting", "v1/ConfigMap", {"n", "a"});
//     EXPECT_EQ(host.find("v1/Secret", {"n", "a-secret"})…);
//
// Where it lies:
//  - One version per kind: "apps/v1/X" and "apps/v1beta1/X" are the same objects, stored
//    as written.
//  - No schema: no defaults, no pruning, no validation, and every kind is known and namespaced or
//    not as written.
//  - Apply merges objects and replaces lists whole (no map lists); there is one field manager,
//    conflicts never happen.
//  - status is written only through the subresource "status", for every kind.
//  - Deleting an owner does not delete what it owns.
//  - Permissions of the manifest are not checked; the cache sees every kind, at once (or one
//    version late, on demand).
//  - A wait moves the clock to its end; one that nothing can end is cancelled.
//  - Events are neither merged nor limited; label values of metrics are not capped.
// Thread: one.
#pragma once

#include "capstan/capstan.h"
#include "capstan/clock.hpp"
#include "capstan/error.hpp"
#include "capstan/json.hpp"
#include "capstan/object_ref.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace capstan::testing {

struct HostCall {
    std::string verb;  // "cache.get", "client.apply", "clock.wait", …
    std::string kind;  // "apps/StatefulSet"; or the URL of an HTTP request
    ObjectKey key;
    std::string body;
    bool changed{false};  // a write that changed the world
};

struct EmittedEvent {
    std::string gvk;
    ObjectKey regarding;
    std::string type, reason, note;
};

struct LogLine {
    std::int32_t level{0};
    std::string message, fields_json;
};

struct WokenKey {
    std::string controller;
    ObjectKey key;
    std::chrono::nanoseconds after{0};
};

struct HttpReply {
    capstan_rc rc{CAPSTAN_OK};  // not OK: the exchange fails with it
    int status{200};
    json::Value headers{json::object()};
    std::string body;
};

// What a reconcile said, in the end.
struct Reconciled {
    capstan_rc rc{CAPSTAN_OK};
    std::int32_t retry{CAPSTAN_RETRY_NONE};
    std::chrono::nanoseconds after{0};
    std::string message;
    std::size_t leaked_objects{0};  // references not released
};

struct ServerAnswer {
    int status{0};  // 0: never answered
    json::Value headers;
    std::string body;
};

struct FakeState;

class FakeHost {
public:
    FakeHost();
    ~FakeHost();
    FakeHost(const FakeHost&) = delete;
    FakeHost& operator=(const FakeHost&) = delete;

    const capstan_host* host() const noexcept;  // lives as long as *this

    // The world, as another client changes it. put creates or replaces and returns what is stored
    // (uid, resourceVersion, generation set). erase honours finalizers; false: was absent.
    json::Value put(json::Value object);
    bool erase(std::string_view gvk, const ObjectKey& key);
    std::optional<json::Value> find(std::string_view gvk, const ObjectKey& key) const;
    std::vector<json::Value> all(std::string_view gvk) const;  // ordered by namespace and name
    void set_stale_cache(bool stale);  // cache reads see each object one version old

    MonotonicTime now() const noexcept;
    // runs what `at` has planned in between
    void advance(std::chrono::nanoseconds duration);
    // e.g. token notified by another part, cancel()
    void at(MonotonicTime time, std::function<void()> action);
    void cancel();  // every call, from now on

    // The k-th host call (1: the next one) returns `rc` and does nothing;
    // `sticky`: so do all after it.
    void fail_call(std::size_t k, capstan_rc rc, bool sticky = false);
    const std::vector<HostCall>& calls() const noexcept;
    std::size_t write_count() const noexcept;  // calls that changed the world
    void clear_calls();                        // forgets calls and planned faults

    void set_gate(std::string_view gate, bool enabled);
    void on_http(
        std::function<HttpReply(const json::Value& request, std::string_view body)> handler);
    const std::vector<EmittedEvent>& events() const noexcept;
    const std::vector<LogLine>& logs() const noexcept;
    const std::vector<WokenKey>& woken() const noexcept;
    // "name" or "name{value,value}"; 0 when never updated
    double metric(std::string_view series) const;
    const std::string& refusal() const noexcept;  // of the entry; empty: none

    FakeState& state() noexcept { return *state_; }

private:
    std::unique_ptr<FakeState> state_;
};

using PluginEntry = const capstan_plugin* (*)(const capstan_host*)CAPSTAN_NOEXCEPT;

// One instance of a plugin under a fake host. Construction runs entry, create and start;
// destruction stop and destroy.
class PluginUnderTest {
public:
    PluginUnderTest(FakeHost& host, PluginEntry entry, std::string_view config_json = "{}");
    ~PluginUnderTest();
    PluginUnderTest(const PluginUnderTest&) = delete;
    PluginUnderTest& operator=(const PluginUnderTest&) = delete;

    bool running() const noexcept { return ctl_ != nullptr; }
    // of entry (E_UNSUPP: refused), create or start
    capstan_rc create_rc() const noexcept { return create_rc_; }
    const capstan_plugin* table() const noexcept { return table_; }

    Reconciled reconcile(std::string_view controller,
                         std::string_view gvk,
                         const ObjectKey& key,
                         std::uint32_t attempt = 0);
    // Runs a service until it returns; plan its end with FakeHost::at and cancel.
    // E_UNSUPP: no such extension.
    capstan_rc run_service(std::string_view name);
    // request_json as in capstan.http-server/1.
    ServerAnswer request(std::string_view route,
                         const json::Value& request_json,
                         std::string_view body = "");

private:
    FakeHost& host_;
    const capstan_plugin* table_{nullptr};
    capstan_ctl* ctl_{nullptr};
    capstan_rc create_rc_{CAPSTAN_OK};
};

}  // namespace capstan::testing
