// DELETE of one object and of collections: preconditions, grace, finalizers, propagation.
#include "runtime/local/apiserver/server_state.hpp"

#include "runtime/local/apiserver/crd.hpp"

#include <algorithm>
#include <chrono>
#include <optional>

namespace capstan::local {
namespace {

constexpr std::int64_t kPodGraceSeconds = 30;

struct DeleteOptions {
    std::optional<std::int64_t> grace_seconds;
    std::string propagation;  // empty: Background
    std::string uid;
    std::string version;
    bool dry_run{false};
};

Answer<void> check_propagation(const std::string& policy) {
    if (policy.empty() || policy == "Background" || policy == "Foreground" || policy == "Orphan") {
        return boost::outcome_v2::success();
    }
    return refuse(invalid("meta.k8s.io",
                          "DeleteOptions",
                          "",
                          {{"FieldValueNotSupported",
                            "Unsupported value: \"" + policy + "\"",
                            "propagationPolicy"}}));
}

DeleteOptions options_of_query(const Call& call) {
    DeleteOptions options;
    options.dry_run = call.dry_run;
    options.propagation = call.info.parameter("propagationPolicy");
    if (const std::string_view grace = call.info.parameter("gracePeriodSeconds"); !grace.empty()) {
        options.grace_seconds = std::atoll(std::string(grace).c_str());
    }
    return options;
}

// A body takes the place of the query: what only the query says, even dryRun, then does not count.
Answer<DeleteOptions> read_delete_options(const Call& call) {
    DeleteOptions options;
    if (call.request.body.empty()) {
        options = options_of_query(call);
        CAPSTAN_TRY(check_propagation(options.propagation));
        return options;
    }
    CAPSTAN_TRY(const json::Value body, parse_body(call));
    const json::View view(body);
    if (const json::Value* grace = view["gracePeriodSeconds"].value();
        grace != nullptr && grace->if_int() != nullptr) {
        options.grace_seconds = *grace->if_int();
    }
    options.propagation = view["propagationPolicy"].string_or("");
    if (const json::Value* orphan = body.find("orphanDependents");
        orphan != nullptr && !orphan->is_null()) {
        if (!options.propagation.empty()) {
            return refuse(
                invalid("meta.k8s.io",
                        "DeleteOptions",
                        "",
                        {{"FieldValueInvalid",
                          "Invalid value: \"" + options.propagation +
                              "\": orphanDependents and deletionPropagation cannot be both set",
                          "propagationPolicy"}}));
        }
        options.propagation = json::View(*orphan).bool_or(false) ? "Orphan" : "Background";
    }
    options.uid = view["preconditions"]["uid"].string_or("");
    options.version = view["preconditions"]["resourceVersion"].string_or("");
    options.dry_run = !view["dryRun"].array().empty();
    if (options.grace_seconds.value_or(0) < 0) {
        options.grace_seconds = 1;
    }
    CAPSTAN_TRY(check_propagation(options.propagation));
    return options;
}

void add_finalizer(json::Value& metadata, std::string_view name) {
    json::Value& list = metadata["finalizers"];
    if (!list.is_array()) {
        list = json::list();
    }
    const json::Array& items = *list.if_array();
    if (std::find(items.begin(), items.end(), json::Value(name)) == items.end()) {
        list.push_back(name);
    }
}

// Seconds the object may still live; 0: it goes now unless a finalizer holds it.
std::int64_t grace_of(const ResourceKind& kind,
                      const json::Value& live,
                      const DeleteOptions& options) {
    if (kind.storage != "pods") {
        return 0;
    }
    const json::View view(live);
    const std::string_view phase = view["status"]["phase"].string_or("");
    if (view["spec"]["nodeName"].string_or("").empty() || phase == "Succeeded" ||
        phase == "Failed") {
        return 0;
    }
    return options.grace_seconds.value_or(
        view["spec"]["terminationGracePeriodSeconds"].int_or(kPodGraceSeconds));
}

struct Deleted {
    StoredPtr object;
    bool gone{false};
};

// The deletion itself, inside a transaction.
Deleted delete_object(ApiServer::State& state,
                      const Call& call,
                      const std::string& key,
                      const StoredPtr& live,
                      const DeleteOptions& options) {
    const ResourceKind& kind = *call.kind;
    json::Value updated = live->value;
    json::Value& metadata = updated["metadata"];
    if (options.propagation == "Orphan") {
        add_finalizer(metadata, "orphan");
    } else if (options.propagation == "Foreground") {
        add_finalizer(metadata, "foregroundDeletion");
    }
    const std::int64_t grace = grace_of(kind, live->value, options);
    const bool was_deleted = metadata.find("deletionTimestamp") != nullptr;
    const bool held =
        !json::View(metadata)["finalizers"].array().empty() || kind.storage == "namespaces";
    if (!held && grace == 0) {
        state.store.erase(kind.storage, key);
        return {live, true};
    }
    const std::int64_t left = json::View(metadata)["deletionGracePeriodSeconds"].int_or(grace);
    if (!was_deleted || grace < left) {
        metadata.set("deletionTimestamp",
                     to_rfc3339(state.clock.wall_now() + std::chrono::seconds(grace)));
        metadata.set("deletionGracePeriodSeconds", grace);
        if (!was_deleted) {
            if (const std::int64_t* generation =
                    json::View(metadata)["generation"].value() == nullptr
                        ? nullptr
                        : metadata.find("generation")->if_int()) {
                metadata.set("generation", *generation + 1);
            }
        }
    }
    if (kind.storage == "namespaces") {
        updated["status"].set("phase", "Terminating");
    }
    if (kind.storage == kCrdStorage) {
        set_crd_status(updated, {}, call.now);
    }
    if (updated == live->value) {
        return {live, false};
    }
    return {state.store.put(kind.storage, key, std::move(updated)), false};
}

Answer<void> check_preconditions(const Call& call,
                                 const Stored& live,
                                 const DeleteOptions& options) {
    const std::string_view uid = json::View(live.value)["metadata"]["uid"].string_or("");
    const std::string version = std::to_string(live.revision);
    const auto differs = [&](const std::string& what,
                             const std::string& wanted,
                             std::string_view found,
                             const std::string& maybe) {
        return conflict({},
                        call.kind->gvk.kind,
                        call.info.name,
                        "the " + what + " in the precondition (" + wanted +
                            ") does not match the " + what + " in record (" + std::string(found) +
                            "). The object might have been " + maybe);
    };
    if (!options.uid.empty() && options.uid != uid) {
        return refuse(differs("UID", options.uid, uid, "deleted and then recreated"));
    }
    if (!options.version.empty() && options.version != version) {
        return refuse(differs("ResourceVersion", options.version, version, "modified"));
    }
    return boost::outcome_v2::success();
}

}  // namespace

Answer<ApiResponse> ApiServer::State::remove(Call& call) {
    CAPSTAN_TRY(const DeleteOptions delete_options, read_delete_options(call));
    const StoredPtr live = store.find(call.kind->storage, call.key());
    if (!live) {
        return refuse(call.missing());
    }
    CAPSTAN_TRY(check_preconditions(call, *live, delete_options));
    if (call.kind->storage == "namespaces" &&
        (call.info.name == "default" || call.info.name == "kube-system" ||
         call.info.name == "kube-public")) {
        return refuse(
            forbidden("", "namespaces", call.info.name, "this namespace may not be deleted"));
    }
    store.begin();
    const Deleted deleted = delete_object(*this, call, call.key(), live, delete_options);
    if (delete_options.dry_run) {
        store.rollback();
    } else {
        CAPSTAN_TRY(commit());
    }
    if (delete_options.dry_run && !deleted.gone) {
        json::Value shown = deleted.object->value;
        shown["metadata"].set("resourceVersion", std::to_string(live->revision));
        return render(call, *make_stored(std::move(shown), live->revision), 200);
    }
    if (!deleted.gone || call.kind->storage == "pods") {
        return render(call, *deleted.object, 200);
    }
    return success_response(call.kind->gvk.group,
                            call.kind->plural,
                            call.info.name,
                            json::View(live->value)["metadata"]["uid"].string_or(""));
}

Answer<ApiResponse> ApiServer::State::remove_collection(Call& call) {
    CAPSTAN_TRY(const DeleteOptions delete_options, read_delete_options(call));
    CAPSTAN_TRY(const Selection wanted, selection(call));
    if (call.kind->namespaced && call.info.ns.empty()) {
        return refuse(
            method_not_allowed("the server does not allow this method on the requested resource"));
    }
    std::vector<std::pair<std::string, StoredPtr>> matching;
    for (const auto& [key, object] : store.objects(call.kind->storage)) {
        if (wanted.matches(key, object->value)) {
            matching.emplace_back(key, object);
        }
    }
    std::string items;
    store.begin();
    for (const auto& [key, object] : matching) {
        const Deleted deleted = delete_object(*this, call, key, object, delete_options);
        items += (items.empty() ? "" : ",") + render_list_item(*deleted.object, *call.kind, {});
    }
    if (delete_options.dry_run) {
        store.rollback();
    } else {
        CAPSTAN_TRY(commit());
    }
    return json_response(200,
                         "{\"kind\":" + json::dump(call.kind->list_kind()) +
                             ",\"apiVersion\":" + json::dump(call.kind->gvk.api_version()) +
                             ",\"metadata\":{\"resourceVersion\":\"" +
                             std::to_string(store.revision()) + "\"},\"items\":[" + items + "]}\n");
}

}  // namespace capstan::local
