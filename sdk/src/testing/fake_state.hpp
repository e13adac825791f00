// The inside of the fake host. Internal.
#pragma once

#include "capstan/testing/fake_cli.hpp"
#include "capstan/testing/fake_host.hpp"
#include "capstan/testing/fake_webhook.hpp"

#include <deque>
#include <set>
#include <utility>

namespace capstan::testing {

struct FakeObject {
    FakeState* state{nullptr};
    json::Value value;
    std::string bytes;
    bool live{false};                // from client get: may be removed
    std::deque<std::string> fields;  // what `field` has handed out
};

struct FakeCommand {
    const CommandInput& input;
    CommandOutput& output;
    std::size_t read_at{0};
};

struct FakeCall {
    FakeState* state{nullptr};
    std::uint64_t deadline_ns{CAPSTAN_NEVER};
    std::string last_error;
    std::set<FakeObject*> objects;
    std::optional<Reconciled> done;
    Reviewed* review{nullptr};      // the review in progress
    FakeCommand* command{nullptr};  // the command in progress
};

struct FakeToken {
    FakeState* state{nullptr};
    bool notified{false};
};

struct FakeHttp {
    FakeCall* call{nullptr};
    json::Value request;
    std::string sent, headers_json;
    HttpReply reply;
    std::size_t read_at{0};
    bool answered{false};
};

struct FakeExchange {
    FakeState* state{nullptr};
    std::string request_json, body;
    std::size_t read_at{0};
    ServerAnswer answer;
    bool ended{false};
};

struct FakeMetric {
    std::string name;
    std::int32_t type{0};
    std::uint32_t label_count{0};
};

// The objects, as a very small API server keeps them.
class FakeWorld {
public:
    using Slot = std::pair<std::string, ObjectKey>;  // "apps/StatefulSet", key
    struct Entry {
        json::Value current, previous;  // null: absent
        json::Value intent, status_intent;
    };

    json::Value put(json::Value object);
    Result<json::Value> create(std::string_view gvk, json::Value object);
    // `changed`: the stored object is another one now.
    Result<json::Value> apply(std::string_view gvk,
                              const json::Value& intent,
                              std::string_view sub,
                              bool dry_run,
                              bool& changed);
    Result<json::Value> patch(std::string_view gvk,
                              const ObjectKey& key,
                              std::int32_t type,
                              const json::Value& body,
                              std::string_view sub,
                              bool& changed);
    Result<void> remove(std::string_view gk, const ObjectKey& key, const json::Value* precondition);
    // `stale`: as it was one version ago.
    const json::Value* find(std::string_view gk, const ObjectKey& key, bool stale = false) const;
    std::vector<const json::Value*> list(std::string_view gk,
                                         std::string_view ns,
                                         std::string_view selector,
                                         bool stale) const;

private:
    json::Value& store(const Slot& slot, json::Value next);  // versions, generation, finalizers
    std::map<Slot, Entry> entries_;
    std::uint64_t version_{0}, uid_{0};
};

std::string group_kind_of(std::string_view gvk);
ObjectKey key_of(const json::Value& object);
void merge_patch(json::Value& target, const json::Value& patch);              // RFC 7386
Result<void> json_patch(json::Value& target, const json::Value& operations);  // RFC 6902

struct FakeState {
    capstan_host host{};
    FakeWorld world;
    bool stale_cache{false}, cancelled{false};
    MonotonicTime now{std::chrono::seconds(1'000'000)};
    std::multimap<MonotonicTime, std::function<void()>> planned;
    std::vector<HostCall> calls;
    std::size_t call_count{0}, fault_at{0};
    capstan_rc fault_rc{CAPSTAN_OK};
    bool fault_sticky{false};
    std::map<std::string, bool, std::less<>> gates;
    std::function<HttpReply(const json::Value&, std::string_view)> http_handler;
    std::vector<EmittedEvent> events;
    std::vector<LogLine> logs;
    std::vector<WokenKey> woken;
    std::vector<FakeMetric> metrics;
    std::string rendered;  // of the last capstan.metrics/1 render
    std::map<std::string, double, std::less<>> series;
    std::string refusal;
    std::set<FakeCall*> open_calls;
    // of the PluginUnderTest made last, for extensions with a header of their own
    const capstan_plugin* plugin{nullptr};
    capstan_ctl* instance{nullptr};

    void run_until(MonotonicTime time);  // moves the clock, running what is planned
    // Records a host call and says whether it may go on.
    capstan_rc enter(FakeCall* call,
                     std::string_view verb,
                     std::string_view kind = "",
                     const ObjectKey& key = {},
                     std::string_view body = "");
    capstan_rc refuse(FakeCall* call, const Error& error);  // remembers the detail
    FakeObject* hand_out(FakeCall* call, const json::Value& value, bool live);
    std::size_t close_call(FakeCall& call);  // objects leaked
};

const void* fake_extension(std::string_view id) noexcept;       // fake_tables.cpp
const capstan_ext_cache* fake_cache() noexcept;                 // fake_objects.cpp
const capstan_ext_client* fake_client() noexcept;               // fake_objects.cpp
const void* fake_http_extension(std::string_view id) noexcept;  // fake_http.cpp
const void* fake_digest_extension() noexcept;                   // digests.cpp
const void* fake_webhook_extension() noexcept;                  // fake_webhook.cpp
const void* fake_cli_extension() noexcept;                      // fake_cli.cpp

inline FakeCall* to_fake(capstan_call* call) noexcept {
    return reinterpret_cast<FakeCall*>(call);
}
inline FakeState* to_fake(const capstan_host* host) noexcept {
    return static_cast<FakeState*>(host->self);
}
inline std::string_view view(capstan_str text) noexcept {
    return {text.ptr, static_cast<std::size_t>(text.len)};
}
inline capstan_str str(std::string_view text) noexcept {
    return {text.data(), text.size()};
}
inline ObjectKey key_from(capstan_str ns, capstan_str name) {
    return {std::string(view(ns)), std::string(view(name))};
}
template <class Table>
constexpr capstan_head head() {
    return {sizeof(Table), CAPSTAN_ABI};
}

}  // namespace capstan::testing
