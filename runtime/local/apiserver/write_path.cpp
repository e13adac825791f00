// Create, update and patch.
#include "runtime/local/apiserver/server_state.hpp"

#include "runtime/local/apiserver/crd.hpp"
#include "runtime/local/apiserver/patch_json.hpp"
#include "runtime/local/apiserver/patch_merge.hpp"
#include "runtime/local/apiserver/patch_strategic.hpp"

#include <algorithm>

namespace capstan::local {
namespace {

constexpr int kGenerateNameTries = 8;        // as kube-apiserver since 1.31
constexpr std::size_t kGenerateBaseMax = 58;  // name limit 63 less the suffix

// Kinds without a spec have no generation: Kubernetes counts it for these builtin kinds and all custom resources.
bool counts_generation(const ResourceKind& kind, const json::Value& object) {
    if (kind.custom || kind.storage == kCrdStorage) {
        return true;
    }
    const std::string& group = kind.gvk.group;
    return object.find("spec") != nullptr &&
           (group == "apps" || group == "batch" || group == "policy" || group == "networking.k8s.io" ||
            kind.plural == "pods");
}

// Kinds that refuse an update without resourceVersion.
bool requires_version(const ResourceKind& kind) {
    return kind.custom || kind.storage == kCrdStorage || kind.gvk.group == "coordination.k8s.io" ||
           kind.storage == "policy/poddisruptionbudgets";
}

bool is_empty_list(const json::Value* value) {
    const json::Array* items = value == nullptr ? nullptr : value->if_array();
    return items == nullptr || items->empty();
}

// Nothing holds a deleted object any more.
bool may_go(const ResourceKind& kind, const json::Value& object) {
    const json::View metadata = json::View(object)["metadata"];
    if (!metadata["deletionTimestamp"].present() || !is_empty_list(metadata["finalizers"].value())) {
        return false;
    }
    if (kind.storage == "namespaces") {
        return is_empty_list(json::View(object)["spec"]["finalizers"].value());
    }
    // A pod in its grace period waits for the node.
    return metadata["deletionGracePeriodSeconds"].int_or(0) == 0;
}

std::string crd_name_conflict(const Registry& registry, const json::Value& crd) {
    const json::View spec = json::View(crd)["spec"];
    for (const KindPtr& kind : registry.kinds()) {
        if (kind->gvk.group != spec["group"].string_or("") || kind->plural == spec["names"]["plural"].string_or("")) {
            continue;
        }
        if (kind->gvk.kind == spec["names"]["kind"].string_or("")) {
            return "\"" + kind->gvk.kind + "\" is already in use";
        }
    }
    return {};
}

Answer<void> check_size(const Stored& object) {
    if (object.text.size() > kObjectBytesMax) {
        return refuse(too_large("etcdserver: request is too large: object of " + std::to_string(object.text.size()) +
                                " bytes, the limit is " + std::to_string(kObjectBytesMax)));
    }
    return boost::outcome_v2::success();
}

}  // namespace

ApiResponse ApiServer::State::written(Call& call, const StoredPtr& object, int status) {
    return render(call, *object, status);
}

Answer<StoredPtr> ApiServer::State::create_object(Call& call, json::Value object, bool track) {
    const ResourceKind& kind = *call.kind;
    if (kind.terminating) {
        return refuse(method_not_allowed("create not allowed while custom resource definition is terminating"));
    }
    to_storage_version(kind, object);
    CAPSTAN_TRY(normalize(call, object));
    json::Value& metadata = object["metadata"];
    for (const char* field : {"selfLink", "deletionTimestamp", "deletionGracePeriodSeconds", "resourceVersion"}) {
        metadata.erase(field);
    }
    const std::string base{json::View(metadata)["generateName"].string_or("")};
    const bool generate = json::View(metadata)["name"].string_or("").empty() && !base.empty();
    for (int attempt = 0; generate && attempt < kGenerateNameTries; ++attempt) {
        const std::string name = base.substr(0, kGenerateBaseMax) + generator.suffix();
        metadata.set("name", name);
        if (!store.find(kind.storage, object_key(call.info.ns, name))) {
            break;
        }
    }
    const std::string name{json::View(metadata)["name"].string_or("")};
    metadata.set("uid", generator.uid());
    metadata.set("creationTimestamp", call.now);
    metadata.erase("generation");
    if (counts_generation(kind, object)) {
        metadata.set("generation", 1);
    }
    if (kind.has_status() && (kind.custom || kind.storage == kCrdStorage)) {
        object.erase("status");
    }
    CAPSTAN_TRY(validate_object(call, nullptr, object));
    if (kind.storage == kCrdStorage) {
        set_crd_status(object, crd_name_conflict(registry, object), call.now);
        json::Value& finalizers = metadata["finalizers"];
        if (!finalizers.is_array()) {
            finalizers = json::list();
        }
        finalizers.push_back(kCrdFinalizer);
    }
    if (kind.storage == "namespaces") {
        object["metadata"]["labels"].set("kubernetes.io/metadata.name", name);
        object["spec"].set("finalizers", json::list({"kubernetes"}));
        object["status"] = {{"phase", "Active"}};
    }
    const std::string key = object_key(call.info.ns, name);
    if (store.find(kind.storage, key)) {
        return refuse(already_exists(kind.gvk.group, kind.plural, name));
    }
    if (kind.namespaced) {
        const StoredPtr ns = store.find("namespaces", call.info.ns);
        if (!ns) {
            return refuse(not_found("", "namespaces", call.info.ns));
        }
        if (json::View(ns->value)["metadata"]["deletionTimestamp"].present()) {
            StatusError error = forbidden(kind.gvk.group, kind.plural, name,
                                          "unable to create new content in namespace " + call.info.ns +
                                              " because it is being terminated");
            error.causes.push_back({"NamespaceTerminating", "namespace " + call.info.ns + " is being terminated",
                                    "metadata.namespace"});
            return refuse(std::move(error));
        }
    }
    if (track) {
        track_update(nullptr, object, kind.merge_schema(),
                     {call.manager, kind.gvk.api_version(), call.info.subresource, call.now});
    }
    StoredPtr stored = store.put(kind.storage, key, std::move(object));
    CAPSTAN_TRY(check_size(*stored));
    return stored;
}

Answer<StoredPtr> ApiServer::State::store_update(Call& call, const StoredPtr& live, json::Value updated, bool track) {
    const ResourceKind& kind = *call.kind;
    const json::View sent = json::View(updated)["metadata"];
    const json::View current = json::View(live->value)["metadata"];
    const std::string name(current["name"].string_or(""));
    if (const std::string_view uid = sent["uid"].string_or(""); !uid.empty() && uid != current["uid"].string_or("")) {
        return refuse(conflict(kind.gvk.group, kind.plural, name,
                               "Precondition failed: UID in precondition: " + std::string(uid) +
                                   ", UID in object meta: " + std::string(current["uid"].string_or(""))));
    }
    const std::string_view version = sent["resourceVersion"].string_or("");
    if (!version.empty() && version != current["resourceVersion"].string_or("")) {
        return refuse(version_conflict(kind.gvk.group, kind.plural, name));
    }
    to_storage_version(kind, updated);
    isolate(call, live->value, updated);
    CAPSTAN_TRY(normalize(call, updated));
    set_generation(kind, live->value, updated);
    CAPSTAN_TRY(validate_object(call, &live->value, updated));
    if (kind.storage == kCrdStorage && call.info.subresource.empty()) {
        set_crd_status(updated, crd_name_conflict(registry, updated), call.now);
    }
    if (track) {
        track_update(&live->value, updated, kind.merge_schema(),
                     {call.manager, kind.gvk.api_version(), call.info.subresource, call.now});
    }
    const std::string key = object_key(current["namespace"].string_or(""), name);
    if (may_go(kind, updated)) {
        // The write that takes the last finalizer removes the object; the answer still shows it.
        StoredPtr last = make_stored(std::move(updated), live->revision);
        store.erase(kind.storage, key);
        return last;
    }
    if (same_but_times(live->value, updated)) {
        return live;
    }
    StoredPtr stored = store.put(kind.storage, key, std::move(updated));
    CAPSTAN_TRY(check_size(*stored));
    return stored;
}

namespace {

// Runs `write` in a transaction that a refusal or a dry run undoes.
template <class Write>
Answer<StoredPtr> transact(ApiServer::State& state, const Call& call, const Write& write) {
    state.store.begin();
    Answer<StoredPtr> stored = write();
    if (!stored || call.dry_run) {
        state.store.rollback();
        return stored;
    }
    CAPSTAN_TRY(state.commit());
    return stored;
}

}  // namespace

Answer<ApiResponse> ApiServer::State::create(Call& call) {
    CAPSTAN_TRY(json::Value object, parse_body(call));
    CAPSTAN_TRY(check_identity(call, object));
    CAPSTAN_TRY(check_escalation(call, object));
    if (!json::View(object)["metadata"]["resourceVersion"].string_or("").empty()) {
        return refuse(bad_request("resourceVersion should not be set on objects to be created"));
    }
    CAPSTAN_TRY(const StoredPtr stored,
                transact(*this, call, [&] { return create_object(call, std::move(object), true); }));
    return written(call, stored, 201);
}

Answer<ApiResponse> ApiServer::State::update(Call& call) {
    CAPSTAN_TRY(json::Value object, parse_body(call));
    CAPSTAN_TRY(check_identity(call, object));
    CAPSTAN_TRY(check_escalation(call, object));
    const StoredPtr live = store.find(call.kind->storage, call.key());
    if (!live) {
        return refuse(call.missing());
    }
    if (requires_version(*call.kind) && json::View(object)["metadata"]["resourceVersion"].string_or("").empty()) {
        return refuse(invalid(call.kind->gvk.group, call.kind->plural, call.info.name,
                              {{"FieldValueInvalid", "Invalid value: 0: must be specified for an update",
                                "metadata.resourceVersion"}}));
    }
    CAPSTAN_TRY(const StoredPtr stored,
                transact(*this, call, [&] { return store_update(call, live, std::move(object), true); }));
    return written(call, stored, 200);
}

Answer<ApiResponse> ApiServer::State::patch(Call& call) {
    const std::string_view type =
        std::string_view(call.request.content_type).substr(0, call.request.content_type.find(';'));
    const bool strategic = type == "application/strategic-merge-patch+json";
    const bool apply_patch = type == "application/apply-patch+yaml" || type == "application/apply-patch+json";
    if (!strategic && !apply_patch && type != "application/json-patch+json" &&
        type != "application/merge-patch+json") {
        return refuse(unsupported_media_type(
            "the body of the request was in an unknown format - accepted media types include: "
            "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml"));
    }
    if (strategic && call.kind->custom) {
        return refuse(unsupported_media_type(
            "the body of the request was in an unknown format - accepted media types include: "
            "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml"));
    }
    CAPSTAN_TRY(const json::Value body, parse_body(call));
    if (apply_patch) {
        return apply(call, body);
    }
    if (!call.info.parameter("force").empty()) {
        return refuse(invalid("meta.k8s.io", "PatchOptions", "",
                              {{"FieldValueForbidden", "Forbidden: may not be specified for non-apply patch", "force"}}));
    }
    const StoredPtr live = store.find(call.kind->storage, call.key());
    if (!live) {
        return refuse(call.missing());
    }
    json::Value updated = value_at_version(*live, *call.kind);
    if (type == "application/json-patch+json") {
        CAPSTAN_TRY(updated, apply_json_patch(updated, body));
    } else if (strategic) {
        CAPSTAN_TRY(updated, apply_strategic_patch(updated, body, call.kind->merge_schema().root));
    } else {
        if (!body.is_object()) {
            return refuse(bad_request("error decoding patch: a merge patch is an object"));
        }
        apply_merge_patch(updated, body);
    }
    CAPSTAN_TRY(check_identity(call, updated));
    CAPSTAN_TRY(check_escalation(call, updated));
    CAPSTAN_TRY(const StoredPtr stored,
                transact(*this, call, [&] { return store_update(call, live, std::move(updated), true); }));
    return written(call, stored, 200);
}

Answer<ApiResponse> ApiServer::State::apply(Call& call, const json::Value& body) {
    if (!body.is_object()) {
        return refuse(bad_request("error decoding YAML: an apply configuration is an object"));
    }
    json::Value config = body;
    if (call.info.parameter("fieldManager").empty()) {
        return refuse(invalid("meta.k8s.io", "PatchOptions", "",
                              {{"FieldValueRequired", "Required value: is required for apply patch", "fieldManager"}}));
    }
    if (!json::View(config)["apiVersion"].present() || !json::View(config)["kind"].present()) {
        return refuse(bad_request("error decoding apply configuration: apiVersion and kind must be set"));
    }
    if (json::View(config)["metadata"]["managedFields"].present()) {
        return refuse(bad_request("metadata.managedFields must be nil"));
    }
    CAPSTAN_TRY(check_identity(call, config));
    CAPSTAN_TRY(check_escalation(call, config));
    const ResourceKind& kind = *call.kind;
    if (kind.custom && kind.schema && call.validation != FieldValidation::ignore) {
        json::Value copy = config;
        if (const auto unknown = kind.schema->prune(copy); !unknown.empty()) {
            StatusError error = internal_error("failed to create typed patch object (" + call.info.ns + "/" +
                                               call.info.name + "; " + kind.gvk.api_version() +
                                               ", Kind=" + kind.gvk.kind + "): ." + unknown.front() +
                                               ": field not declared in schema");
            return refuse(std::move(error));
        }
    }
    FieldSet reset;
    if (call.info.subresource == "status") {
        for (const json::Member& member : *config.if_object()) {
            if (member.key != "status") {
                reset.insert({"f:" + member.key});
            }
        }
    } else if (kind.has_status()) {
        reset.insert({"f:status"});
    }
    const StoredPtr live = store.find(kind.storage, call.key());
    if (!live && (!call.info.subresource.empty() || json::View(config)["metadata"]["uid"].present())) {
        return refuse(call.info.subresource.empty()
                          ? conflict(kind.gvk.group, kind.plural, call.info.name,
                                     "uid mismatch: the provided object specified uid " +
                                         std::string(json::View(config)["metadata"]["uid"].string_or("")) +
                                         ", and no existing object was found")
                          : call.missing());
    }
    if (live) {
        // A condition in the configuration, not a field to own.
        const std::string_view version = json::View(config)["metadata"]["resourceVersion"].string_or("");
        if (!version.empty() && version != std::to_string(live->revision)) {
            return refuse(version_conflict(kind.gvk.group, kind.plural, call.info.name));
        }
    }
    std::optional<json::Value> base;
    if (live) {
        base = value_at_version(*live, kind);
    }
    CAPSTAN_TRY(json::Value merged,
                apply_config(base ? &*base : nullptr, config, kind.merge_schema(),
                             {call.manager, kind.gvk.api_version(), call.info.subresource, call.now},
                             call.info.flag("force"), reset));
    if (!live) {
        CAPSTAN_TRY(const StoredPtr stored,
                    transact(*this, call, [&] { return create_object(call, std::move(merged), false); }));
        return written(call, stored, 201);
    }
    CAPSTAN_TRY(const StoredPtr stored,
                transact(*this, call, [&] { return store_update(call, live, std::move(merged), false); }));
    return written(call, stored, 200);
}

Answer<void> ApiServer::State::check_escalation(const Call& call, const json::Value& object) const {
    if (!options.rbac || call.kind->gvk.group != "rbac.authorization.k8s.io") {
        return boost::outcome_v2::success();
    }
    const std::vector<std::string>& groups = call.request.user.groups;
    if (std::find(groups.begin(), groups.end(), kGroupMasters) != groups.end()) {
        return boost::outcome_v2::success();
    }
    const bool binding = call.kind->plural.ends_with("bindings");
    const auto missing = binding ? escalation_of_binding(rbac_objects(), call.request.user, object, call.info.ns)
                                 : escalation_of_role(rbac_objects(), call.request.user, object, call.info.ns);
    if (missing.empty()) {
        return boost::outcome_v2::success();
    }
    std::string text = "user \"" + call.request.user.name + "\" (groups=[";
    for (std::size_t i = 0; i < groups.size(); ++i) {
        text += (i == 0 ? "\"" : " \"") + groups[i] + "\"";
    }
    text += "]) is attempting to grant RBAC permissions not currently held:";
    for (const std::string& right : missing) {
        text += "\n" + right;
    }
    return refuse(forbidden(call.kind->gvk.group, call.kind->plural, call.info.name, text));
}

}  // namespace capstan::local
