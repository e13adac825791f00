// The scale subresource (autoscaling/v1 Scale) and service account tokens.
#include "runtime/local/apiserver/server_state.hpp"

#include "runtime/local/apiserver/patch_json.hpp"
#include "runtime/local/apiserver/patch_merge.hpp"

namespace capstan::local {
namespace {

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
    return {{"kind", "Scale"},
            {"apiVersion", "autoscaling/v1"},
            {"metadata", std::move(meta)},
            {"spec", {{"replicas", number(kind.scale.spec_replicas)}}},
            {"status", std::move(status)}};
}

ApiResponse scale_response(const StoredPtr& object, const ResourceKind& kind) {
    return json_response(200, json::dump(scale_of(object->value, kind)) + "\n");
}

}  // namespace

Answer<ApiResponse> ApiServer::State::scale(Call& call) {
    const ResourceKind& kind = *call.kind;
    const StoredPtr live = store.find(kind.storage, call.key());
    if (!live) {
        return refuse(call.missing());
    }
    if (call.info.verb == "get") {
        return scale_response(live, kind);
    }
    CAPSTAN_TRY(const json::Value body, parse_body(call));
    json::Value wanted = scale_of(live->value, kind);
    if (call.info.verb == "update") {
        wanted = body;
    } else if (call.request.content_type.starts_with("application/json-patch+json")) {
        CAPSTAN_TRY(wanted, apply_json_patch(wanted, body));
    } else if (call.request.content_type.starts_with("application/merge-patch+json") ||
               call.request.content_type.starts_with("application/strategic-merge-patch+json")) {
        apply_merge_patch(wanted, body);
    } else {
        return refuse(unsupported_media_type("scale takes JSON patches and merge patches"));
    }
    const json::View view(wanted);
    const std::string_view version = view["metadata"]["resourceVersion"].string_or("");
    if (!version.empty() && version != std::to_string(live->revision)) {
        return refuse(version_conflict(kind.gvk.group, kind.plural, call.info.name));
    }
    const auto replicas = view["spec"]["replicas"].as_int();
    if (!replicas || replicas.value() < 0) {
        return refuse(invalid("autoscaling",
                              "Scale",
                              call.info.name,
                              {{"FieldValueInvalid",
                                "Invalid value: must be greater than or equal to 0",
                                "spec.replicas"}}));
    }
    json::Value updated = value_at_version(*live, kind);
    const std::string& path = kind.scale.spec_replicas;
    const std::size_t slash = path.rfind('/');
    json::Value* parent = updated.pointer(std::string_view(path).substr(0, slash));
    if (parent == nullptr || !parent->is_object()) {
        return refuse(internal_error("the object has no " + path));
    }
    parent->set(path.substr(slash + 1), replicas.value());
    // The write itself is one to the main resource; its manager is recorded under the subresource.
    store.begin();
    Call inner = call;
    inner.info.subresource.clear();
    CAPSTAN_TRY(check_identity(inner, updated));
    track_update(&live->value,
                 updated,
                 kind.merge_schema(),
                 {call.manager, kind.gvk.api_version(), "scale", call.now});
    auto stored = store_update(inner, live, std::move(updated), false);
    if (!stored || call.dry_run) {
        store.rollback();
    } else {
        CAPSTAN_TRY(commit());
    }
    CAPSTAN_TRY(const StoredPtr object, std::move(stored));
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
    body.set("apiVersion", "authentication.k8s.io/v1");
    body.set("kind", "TokenRequest");
    body["status"] = {
        {"token", options.service_account_token(call.info.ns, call.info.name)},
        {"expirationTimestamp", to_rfc3339(clock.wall_now() + std::chrono::hours(24 * 365))}};
    return json_response(201, json::dump(body) + "\n");
}

}  // namespace capstan::local
