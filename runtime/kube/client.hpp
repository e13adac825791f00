// The API server as the host talks to it: verbs, paging, patches, watches. Asynchronous.
//
// Sent again by itself: what the server was too busy for (429, 503 with Retry-After), when it asked
// for, as long as the deadline allows; after a 401 once, when other credentials could be had; and
// once what is safe to repeat (a get, an apply, a conditional update or deletion) after the
// connection broke. How many requests are under way is flow.hpp's affair.
//
// Thread: [io], calls and callbacks; callbacks never run inside the call that registered them. Text
// from the server is quoted and cut in errors; bodies and tokens are never logged.
#pragma once

#include "capstan/clock.hpp"
#include "capstan/error.hpp"
#include "capstan/object_ref.hpp"
#include "runtime/kube/credentials.hpp"
#include "runtime/kube/flow.hpp"
#include "runtime/kube/object.hpp"
#include "runtime/kube/resources.hpp"
#include "runtime/kube/unreadable.hpp"
#include "runtime/kube/write_gate.hpp"
#include "runtime/net/http.hpp"
#include "runtime/net/loop.hpp"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace capstan::kube {

inline constexpr std::chrono::seconds kCallTimeout{30};  // used when a call gives no deadline
inline constexpr std::chrono::seconds kListTimeout{60};
inline constexpr std::size_t kRequestBytesMax = 3 * 1024 * 1024;  // the API server's own limit
inline constexpr std::int64_t kPageLimit = 500;
inline constexpr std::size_t kDecodeBatch = 32;         // list items decoded per loop turn
inline constexpr int kBusyRetriesMax = 10;              // of one request
inline constexpr std::chrono::seconds kBrokenPause{1};  // before what may be repeated is, once
// a watch waits this long for a server that asked for a pause, then its owner decides
inline constexpr std::chrono::seconds kWatchPlaceMax{10};
inline constexpr std::chrono::milliseconds kRenewSpread{100};  // between two watches opened anew

// One call in flight. Destroying it cancels: no callback follows. May be destroyed inside its own
// callback.
class Call {
public:
    virtual ~Call() = default;
};
using CallHandle = std::unique_ptr<Call>;

// For metrics and debug logs; every method is called on the loop.
class ClientObserver {
public:
    virtual ~ClientObserver() = default;
    // `code`: "200", or "<error>" when no response was obtained.
    // rest_client_requests_total{code,method,host} and
    // rest_client_request_duration_seconds{verb,host}. A watch counts when its head arrives.
    virtual void request_done(std::string_view method,
                              std::string_view code,
                              std::string_view host,
                              std::chrono::nanoseconds duration) = 0;
    virtual void warning(std::string_view text) = 0;  // a new "Warning: 299" text; each once
    // rest_client_request_size_bytes{verb,host}, rest_client_response_size_bytes{verb,host}: of
    // bodies; of a watch none.
    virtual void request_sizes(std::string_view method,
                               std::string_view host,
                               std::size_t request_bytes,
                               std::size_t response_bytes);
    // rest_client_request_retries_total{code,verb,host}: it will be sent again.
    virtual void request_retried(std::string_view method,
                                 std::string_view code,
                                 std::string_view host);
    // rest_client_rate_limiter_duration_seconds{verb,host}: it waited for its turn.
    virtual void request_waited(std::string_view method,
                                std::string_view host,
                                std::chrono::nanoseconds duration);
};

struct GetOptions {
    std::string subresource;  // "scale", "status"
    MonotonicTime deadline{kNever};
    Projection projection{Projection::none()};
};

enum class ListMatch : std::uint8_t {
    consistent,
    not_older_than,
    any
};  // any: resourceVersion "0"

struct ListOptions {
    std::string ns;  // empty: all namespaces, or cluster-scoped
    std::string label_selector;
    std::string field_selector;
    ListMatch match{ListMatch::consistent};
    std::string resource_version;  // for not_older_than
    std::int64_t limit{kPageLimit};
    std::string continue_token;  // later pages: match is ignored
    MonotonicTime deadline{kNever};
    Projection projection{Projection::none()};
};

struct ListPage {
    std::string resource_version;
    std::string continue_token;  // empty: the last page
    std::vector<ObjectPtr> items;
    std::vector<Unreadable> unreadable;  // items that are there all the same
};

// What the server does with fields it does not know.
enum class FieldValidation : std::uint8_t { server_default, ignore, warn, strict };

struct WriteOptions {
    std::string subresource;    // update only
    std::string field_manager;  // at most kFieldManagerBytesMax printable characters
    FieldValidation field_validation{FieldValidation::server_default};
    bool dry_run{false};
    MonotonicTime deadline{kNever};
};

// strategic: for kinds built into the API server only.
enum class PatchType : std::uint8_t { json, merge, strategic, apply };

struct PatchOptions {
    PatchType type{PatchType::merge};
    std::string subresource;                                            // "status"
    std::string field_manager;                                          // required for apply
    FieldValidation field_validation{FieldValidation::server_default};  // an apply is strict anyway
    bool force{false};                                                  // apply only
    bool dry_run{false};
    MonotonicTime deadline{kNever};
};

enum class Propagation : std::uint8_t { server_default, background, foreground, orphan };

struct DeleteOptions {
    std::string uid;               // precondition; empty: none
    std::string resource_version;  // precondition; empty: none
    Propagation propagation{Propagation::server_default};
    std::optional<std::int64_t> grace_period_seconds;
    bool dry_run{false};
    MonotonicTime deadline{kNever};
};

struct WatchOptions {
    std::string ns;
    std::string label_selector;
    std::string field_selector;
    std::string resource_version;
    bool send_initial_events{false};  // with NotOlderThan
    // The initial events by one list without pages, decoded while the server sends it, instead of a
    // stream that goes on: added events, a bookmark with initial_events_end, the end.
    bool by_list{false};
    std::chrono::seconds timeout{300};    // asked of the server
    MonotonicTime head_deadline{kNever};  // default: kCallTimeout
    Projection projection;
};

struct WatchEvent {
    enum class Type : std::uint8_t { added, modified, deleted, bookmark, undecodable };
    Type type{Type::undecodable};
    // added, modified, deleted; undecodable: what is known of it (Unreadable::head) or nullptr.
    // One that could not be read is still deleted, with its head.
    ObjectPtr object;
    std::string resource_version;    // of the object or bookmark
    bool initial_events_end{false};  // bookmark
    Error error;                     // undecodable: why; the stream goes on
};

struct WatchHandler {
    std::function<void()> on_open;   // status 200
    std::function<void()> on_bytes;  // any bytes at all, before on_event
    std::function<void(WatchEvent)> on_event;
    // Last. ok: the server ended the stream at an event boundary. Errors: of the head, of an ERROR
    // event (expired and others), unavailable (cut, also in the middle of an event, or a line that
    // is no JSON), too_large (a line).
    std::function<void(Result<void>)> on_end;
};

struct ClientOptions {
    std::string host;  // "127.0.0.1:6443": host label of metrics
    std::string user_agent{"capstan"};
    TokenSource* tokens{nullptr};       // borrowed; nullptr: no bearer token
    ClientObserver* observer{nullptr};  // borrowed; may be nullptr
    WriteGate* gate{nullptr};           // borrowed; nullptr: every write may be sent
    std::string base_path;              // before every target; usually ""
    net::Headers headers;               // of every request
    // The server does not know us (401). True: our credentials changed, the request is worth
    // sending again.
    std::function<bool()> refresh;
    // Adds to an error what is known of our credentials; empty: nothing.
    std::function<Error(Error)> explain;
    std::function<double()> random;  // [0, 1), for jitter; empty: one fixed row of numbers
};

struct ClientState;

class Client {
public:
    Client(net::Loop& loop,
           net::HttpClient& http,
           ClientOptions options);  // borrowed; outlive *this
    ~Client();  // no call is answered after this; handles left may still be destroyed
    Client(const Client&) = delete;
    Client& operator=(const Client&) = delete;

    using ObjectDone = std::function<void(Result<ObjectPtr>)>;

    // Errors of all verbs: style 2.5 table (status.hpp), cancelled (the gate refused), invalid for
    // names that cannot be part of a URL, not_found when the kind is not served. The message begins
    // with verb, resource and key: "patch statefulsets.apps foo/main: …".
    [[nodiscard]] CallHandle get(const GroupVersionKind& gvk,
                                 const ObjectKey& key,
                                 GetOptions options,
                                 ObjectDone done);
    [[nodiscard]] CallHandle list(const GroupVersionKind& gvk,
                                  ListOptions options,
                                  std::function<void(Result<ListPage>)> done);
    // `body`: JSON text of the object. The key comes from `ns`; the name from the body.
    [[nodiscard]] CallHandle create(const GroupVersionKind& gvk,
                                    std::string_view ns,
                                    std::string body,
                                    WriteOptions options,
                                    ObjectDone done);
    // Replaces the whole object: a compare-and-swap on the body's resourceVersion, without which it
    // is refused (invalid). Never for an object that was read with a projection.
    [[nodiscard]] CallHandle update(const GroupVersionKind& gvk,
                                    const ObjectKey& key,
                                    std::string body,
                                    WriteOptions options,
                                    ObjectDone done);
    [[nodiscard]] CallHandle patch(const GroupVersionKind& gvk,
                                   const ObjectKey& key,
                                   std::string body,
                                   PatchOptions options,
                                   ObjectDone done);
    // `done` gets the object when it stays for its finalizers, nullptr when it is gone.
    [[nodiscard]] CallHandle remove(const GroupVersionKind& gvk,
                                    const ObjectKey& key,
                                    DeleteOptions options,
                                    ObjectDone done);
    [[nodiscard]] CallHandle watch(const GroupVersionKind& gvk,
                                   WatchOptions options,
                                   WatchHandler handler);

    // Ends every open watch in order, one each kRenewSpread, at an event boundary and not before
    // its initial events are complete; their owners go on where they were, on new connections.
    void renew_watches();
    // Called from the loop when the server answers after it did not (no answer, or its own
    // failure). One listener; gone with the client.
    void on_server_back(std::function<void()> listener);
    const Flow& flow() const noexcept;
    Resources& resources() noexcept;
    // Any target, JSON in and out: for what the verbs do not cover (logs, version). Errors as the
    // verbs.
    [[nodiscard]] CallHandle raw(std::string method,
                                 std::string target,
                                 std::string body,
                                 MonotonicTime deadline,
                                 std::function<void(Result<net::HttpResponse>)> done);

private:
    // shared with calls in flight, whose handles may outlive *this
    std::shared_ptr<ClientState> state_;
};

}  // namespace capstan::kube
