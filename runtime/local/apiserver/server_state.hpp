// Inside of the API server: its parts, and one call's context. Included by the
// server's own .cpp files only.
#pragma once

#include "runtime/local/apiserver/api_server.hpp"
#include "runtime/local/apiserver/apply_managed_fields.hpp"
#include "runtime/local/apiserver/garbage_collector.hpp"
#include "runtime/local/apiserver/persistence.hpp"
#include "runtime/local/apiserver/rbac.hpp"
#include "runtime/local/apiserver/render.hpp"
#include "runtime/local/apiserver/request_info.hpp"
#include "runtime/local/apiserver/resource_kind.hpp"
#include "runtime/local/apiserver/store.hpp"
#include "runtime/local/apiserver/watch_hub.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace capstan::local {

enum class FieldValidation : std::uint8_t { ignore, warn, strict };

// One request to a resource, taken apart and authorised.
struct Call {
    const ApiRequest& request;
    RequestInfo info;
    KindPtr kind;
    RenderOptions render;
    bool dry_run{false};
    bool applying{false};  // server-side apply
    FieldValidation validation{FieldValidation::warn};
    std::string manager;  // field manager
    std::string now;      // RFC 3339
    std::vector<std::string> warnings;
    std::string sent_version;  // of an object to be created: a dry run shows it

    std::string key() const { return object_key(info.ns, info.name); }
    StatusError missing() const { return not_found(kind->gvk.group, info.resource, info.name); }
};

// Random numbers that depend on the seed alone.
class Generator {
public:
    explicit Generator(std::uint64_t seed) : state_(seed) {}
    std::uint64_t next() noexcept;
    std::string uid();
    std::string suffix();  // five characters, as generateName adds

private:
    std::uint64_t state_;
};

struct ApiServer::State {
    State(const Clock& server_clock, ApiServerOptions server_options);

    const Clock& clock;
    ApiServerOptions options;
    Generator generator;
    Store store;
    Registry registry;
    WatchHub hub;
    GarbageCollector collector;
    std::unique_ptr<Persistence> persistence;  // null: memory only
    std::function<void()> wake;
    void woken() const {
        if (wake) {
            wake();
        }
    }

    Result<void> start();  // [startup] loads, registers CRDs, creates what every server starts with

    Result<void> bootstrap();  // namespaces and roles every server starts with, where absent

    // Ends the running transaction: journal, watches, CRD registration, garbage
    // collection. Errors: 500.
    Answer<void> commit();
    void register_crd(const json::Value& crd);

    RbacObjects rbac_objects() const;
    Answer<void> authorize_call(const User& user, const RequestInfo& info) const;
    Answer<void> authorize_path(const User& user,
                                std::string_view method,
                                std::string_view path) const;

    // Parses and authorises. Errors: 400, 401, 403, 404, 405, 406.
    Answer<Call> prepare(const ApiRequest& request);

    Answer<ApiResponse> dispatch(Call& call);
    ApiResponse render(const Call& call, const Stored& object, int status) const;

    // read_path.cpp, watch_path.cpp
    Answer<ApiResponse> get(Call& call);
    Answer<ApiResponse> list(Call& call);
    Answer<Selection> selection(const Call& call) const;
    Answer<std::unique_ptr<WatchHandle>> watch(Call& call, WatchSink sink);
    Answer<PodLogRequest> pod_log(const Call& call) const;

    // write_path.cpp, patch_path.cpp
    Answer<ApiResponse> create(Call& call);
    Answer<ApiResponse> update(Call& call);
    Answer<ApiResponse> patch(Call& call);
    Answer<ApiResponse> apply(Call& call, const json::Value& config);
    // Nobody grants rights that they do not have.
    Answer<void> check_escalation(const Call& call, const json::Value& object) const;
    // Runs `write` in a transaction that a refusal or a dry run undoes.
    Answer<StoredPtr> transact(const Call& call, const std::function<Answer<StoredPtr>()>& write);
    Answer<StoredPtr> create_object(Call& call, json::Value object, bool track);
    Answer<StoredPtr> store_update(Call& call,
                                   const StoredPtr& live,
                                   json::Value updated,
                                   bool track);

    // delete_path.cpp
    Answer<ApiResponse> remove(Call& call);
    Answer<ApiResponse> remove_collection(Call& call);

    // scale_path.cpp, review_path.cpp
    Answer<ApiResponse> scale(Call& call);
    Answer<ApiResponse> review(Call& call);
    Answer<ApiResponse> create_token(Call& call);

    // discovery.cpp
    Answer<ApiResponse> non_resource(const ApiRequest& request, const RequestInfo& info);

    // Documents that change only with the registry.
    struct OpenApiCache {
        std::uint64_t generation{0};
        std::map<std::string, std::string> documents;
    };
    OpenApiCache openapi_cache;
};

// write_prepare.cpp: an object on its way into the store.

Answer<json::Value> parse_body(const Call& call);
// Type, name and namespace must fit the path; fills apiVersion, kind and namespace where absent.
Answer<void> check_identity(const Call& call, json::Value& object);
// Events arrive at either API; stored at the storage version.
void to_storage_version(const ResourceKind& kind, json::Value& object);
// Defaults and pruning; unknown fields are an error, a warning or nothing.
Answer<void> normalize(Call& call, json::Value& object);
// With strict field validation: what cannot be read is refused before anything is compared.
Answer<void> check_strictly(Call& call, const json::Value& object);
// Whether every field has the type that the schema wants. Only a write of the status may send
// others: it does not write them, but a real server cannot say any more who owns what.
bool is_typed(const ResourceKind& kind, json::Value object);
// Fields a subresource or the main resource does not write are taken from `live`.
void isolate(const Call& call, const json::Value& live, json::Value& updated);
// 400, or 422 for a patch: the object cannot be read as its kind.
StatusError undecodable(const Call& call, const std::string& why);
void set_generation(const ResourceKind& kind, const json::Value& live, json::Value& updated);
Answer<void> validate_object(const Call& call, const json::Value* live, const json::Value& object);

}  // namespace capstan::local
