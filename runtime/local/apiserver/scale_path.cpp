// The scale subresource (autoscaling/v1 Scale) and service account tokens.
#include "runtime/local/apiserver/server_state.hpp"

#include "runtime/local/apiserver/patch_json.hpp"
#include "runtime/local/apiserver/patch_merge.hpp"

#include <algorithm>

namespace capstan::local {
namespace {

constexpr std::int64_t kTokenSecondsDefault = 3600;
constexpr std::int64_t kTokenSecondsMin = 600;
constexpr std::int64_t kTokenSecondsMax = std::int64_t{1} << 32;

// matchLabels and the simple matchExpressions as a selector string, which is what Scale carries.
std::string selector_text(const json::Value* selector) {
    if (selector == nullptr) {
        return {};
    }
    if (const std::string* text = selector->if_string()) {
        return *text;
    }
    std::string out;
    for (const json::Member& member : json::View(*selector)["matchLabels"].object()) {
        out += (out.empty() ? "" : ",") + member.key + "=" +
               std::string(json::View(member.value).string_or(""));
    }
    return out;
}

json::Value scale_of(const json::Value& object, const ResourceKind& kind) {
    const json::Value* metadata = object.find("metadata");
    json::Value meta = json::object();
    for (const char* field : {"name", "namespace", "uid", "resourceVersion", "creationTimestamp"}) {
        if (const json::Value* value = metadata->find(field)) {
            meta.set(field, *value);
        }
    }
    const auto number = [&](const std::string& path) {
        const json::Value* value = path.empty() ? nullptr : object.pointer(path);
        return value != nullptr && value->if_int() != nullptr ? *value->if_int() : 0;
    };
    json::Value status = {{"replicas", number(kind.scale.status_replicas)}};
    if (!kind.scale.selector.empty()) {
        const std::string text = selector_text(object.pointer(kind.scale.selector));
        if (!text.empty()) {
            status.set("selector", text);
        }
    }
    json::Value spec = json::object();
    if (const std::int64_t replicas = number(kind.scale.spec_replicas); replicas != 0) {
        spec.set("replicas", replicas);
    }
    return {{"kind", "Scale"},
            {"apiVersion", "autoscaling/v1"},
            {"metadata", std::move(meta)},
            {"spec", std::move(spec)},
            {"status", std::move(status)}};
}

ApiResponse scale_response(const StoredPtr& object, const ResourceKind& kind) {
    return json_response(200, json::dump(scale_of(object->value, kind)) + "\n");
}

FieldPath field_path(std::string_view pointer) {
    FieldPath path;
    while (!pointer.empty()) {
        pointer.remove_prefix(1);
        const std::size_t end = std::min(pointer.find('/'), pointer.size());
        path.push_back("f:" + std::string(pointer.substr(0, end)));
        pointer.remove_prefix(end);
    }
    return path;
}

void disown(json::Value& object, const FieldPath& path) {
    ManagedFields managers = decode_managed_fields(object);
    for (ManagedEntry& entry : managers) {
        entry.set.erase_subtree(path);
    }
    encode_managed_fields(std::move(managers), object);
}

bool is_owned(const json::Value& object, const FieldPath& path) {
    const ManagedFields managers = decode_managed_fields(object);
    return std::any_of(managers.begin(), managers.end(), [&](const ManagedEntry& entry) {
        return entry.set.has(path);
    });
}

// A custom resource may have lost the field; a builtin kind always has it.
bool has_replicas(const ResourceKind& kind, const json::Value& object) {
    return !kind.custom || object.pointer(kind.scale.spec_replicas) != nullptr;
}

// Sets the value at `pointer` and makes the objects on the way; false: one is something else.
bool set_at(json::Value& object, std::string_view pointer, std::int64_t value) {
    json::Value* at = &object;
    for (;;) {
        pointer.remove_prefix(1);
        const std::size_t end = std::min(pointer.find('/'), pointer.size());
        const std::string name(pointer.substr(0, end));
        pointer.remove_prefix(end);
        if (pointer.empty()) {
            at->set(name, value);
            return true;
        }
        if (at->find(name) == nullptr) {
            at->set(name, json::object());
        }
        at = at->find(name);
        if (!at->is_object()) {
            return false;
        }
    }
}

Answer<json::Value> wanted_scale(const Call& call, const json::Value& object) {
    CAPSTAN_TRY(const json::Value body, parse_body(call));
    if (call.info.verb == "update") {
        return body;
    }
    json::Value wanted = scale_of(object, *call.kind);
    if (call.request.content_type.starts_with("application/json-patch+json")) {
        CAPSTAN_TRY(wanted, apply_json_patch(wanted, body));
    } else if (call.request.content_type.starts_with("application/merge-patch+json") ||
               call.request.content_type.starts_with("application/strategic-merge-patch+json")) {
        apply_merge_patch(wanted, body);
    } else {
        return refuse(unsupported_media_type("scale takes JSON patches and merge patches"));
    }
    return wanted;
}

}  // namespace

Answer<ApiResponse> ApiServer::State::scale(Call& call) {
    const ResourceKind& kind = *call.kind;
    const StoredPtr live = store.find(kind.storage, call.key());
    if (!live) {
        return refuse(call.missing());
    }
    const std::string& path = kind.scale.spec_replicas;
    std::string field = path;
    std::replace(field.begin(), field.end(), '/', '.');
    const bool counted = has_replicas(kind, live->value);
    if (call.info.verb == "get") {
        if (!counted) {
            return refuse(
                internal_error("the spec replicas field \"" + field + "\" does not exist"));
        }
        return scale_response(live, kind);
    }
    CAPSTAN_TRY(const json::Value wanted, wanted_scale(call, live->value));
    const json::View view(wanted);
    if (!counted && call.info.verb == "patch" && !view["spec"]["replicas"].present()) {
        return refuse(bad_request("the spec replicas field \"" + field + "\" cannot be empty"));
    }
    const std::string_view version = view["metadata"]["resourceVersion"].string_or("");
    if (!version.empty() && version != std::to_string(live->revision)) {
        return refuse(version_conflict(kind.gvk.group, kind.plural, call.info.name));
    }
    const auto replicas = view["spec"]["replicas"].present() ? view["spec"]["replicas"].as_int()
                                                             : Result<std::int64_t>(0);
    if (!replicas || replicas.value() < 0) {
        return refuse(invalid("autoscaling",
                              "Scale",
                              call.info.name,
                              {{"FieldValueInvalid",
                                "Invalid value: must be greater than or equal to 0",
                                "spec.replicas"}}));
    }
    json::Value updated = value_at_version(*live, kind);
    if (!set_at(updated, path, replicas.value())) {
        return refuse(internal_error("a part of " + field + " is not an object"));
    }
    // The write itself is one to the main resource; its manager is recorded under the subresource.
    store.begin();
    Call inner = call;
    inner.info.subresource.clear();
    CAPSTAN_TRY(check_identity(inner, updated));
    // Seen through Scale, an object has no managers unless somebody owns its replicas.
    if (!(updated == value_at_version(*live, kind)) && is_owned(live->value, field_path(path))) {
        track_update(&live->value,
                     updated,
                     kind.merge_schema(),
                     {call.manager, kind.gvk.api_version(), "scale", {}});
        if (replicas.value() == 0) {  // left out of a Scale, so nobody states it
            disown(updated, field_path(path));
        }
    }
    auto stored = store_update(inner, live, std::move(updated), false);
    if (!stored || call.dry_run) {
        store.rollback();
    } else {
        CAPSTAN_TRY(commit());
    }
    CAPSTAN_TRY(const StoredPtr object, std::move(stored));
    if (call.dry_run) {
        json::Value shown = object->value;
        shown["metadata"].set("resourceVersion", std::to_string(live->revision));
        return scale_response(make_stored(std::move(shown), live->revision), kind);
    }
    return scale_response(object, kind);
}

Answer<ApiResponse> ApiServer::State::create_token(Call& call) {
    if (!options.service_account_token || call.kind->plural != "serviceaccounts") {
        return refuse(path_not_found());
    }
    if (!store.find(call.kind->storage, call.key())) {
        return refuse(call.missing());
    }
    CAPSTAN_TRY(json::Value body, parse_body(call));
    const std::int64_t seconds =
        json::View(body)["spec"]["expirationSeconds"].int_or(kTokenSecondsDefault);
    if (seconds < kTokenSecondsMin || seconds > kTokenSecondsMax) {
        return refuse(invalid("authentication.k8s.io",
                              "TokenRequest",
                              "",
                              {{"FieldValueInvalid",
                                "Invalid value: " + std::to_string(seconds) +
                                    (seconds < kTokenSecondsMin
                                         ? ": may not specify a duration less than 10 minutes"
                                         : ": may not specify a duration larger than 2^32 seconds"),
                                "spec.expirationSeconds"}}));
    }
    body.set("apiVersion", "authentication.k8s.io/v1");
    body.set("kind", "TokenRequest");
    body["spec"].set("expirationSeconds", seconds);
    const WallTime expires = clock.wall_now() + std::chrono::seconds(seconds);
    body["status"] = {
        {"token",
         options.service_account_token(call.info.ns, call.info.name, clock.wall_now(), expires)},
        {"expirationTimestamp", to_rfc3339(expires)}};
    return json_response(201, json::dump(body) + "\n");
}

}  // namespace capstan::local
