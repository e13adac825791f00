// Create and update: from a checked object to a stored one.
#include "runtime/local/apiserver/server_state.hpp"

#include "runtime/local/apiserver/builtin_kinds.hpp"
#include "runtime/local/apiserver/crd.hpp"

#include <algorithm>

namespace capstan::local {
namespace {

constexpr int kGenerateNameTries = 8;         // as kube-apiserver since 1.31
constexpr std::size_t kGenerateBaseMax = 58;  // name limit 63 less the suffix

// Kinds without a spec have no generation: Kubernetes counts it for these builtin kinds
// and all custom resources.
bool counts_generation(const ResourceKind& kind, const json::Value& object) {
    if (kind.custom || kind.storage == kCrdStorage) {
        return true;
    }
    const std::string& group = kind.gvk.group;
    return object.find("spec") != nullptr &&
           (group == "apps" || group == "batch" || group == "policy" ||
            group == "networking.k8s.io" || kind.plural == "pods");
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
    if (!metadata["deletionTimestamp"].present() ||
        !is_empty_list(metadata["finalizers"].value())) {
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
        if (kind->gvk.group != spec["group"].string_or("") ||
            kind->plural == spec["names"]["plural"].string_or("")) {
            continue;
        }
        if (kind->gvk.kind == spec["names"]["kind"].string_or("")) {
            return "\"" + kind->gvk.kind + "\" is already in use";
        }
    }
    return {};
}

// What a real server adds to a new definition or namespace.
void complete_new(const ResourceKind& kind, const std::string& name, json::Value& object) {
    if (kind.storage == kCrdStorage) {
        json::Value& finalizers = object["metadata"]["finalizers"];
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
    if (kind.storage == "pods") {
        object["status"] = {{"phase", "Pending"}};
    }
}

void copy_member(const json::Value& from, std::string_view name, json::Value& to) {
    if (const json::Value* value = from.find(name)) {
        to.set(name, *value);
    } else {
        to.erase(name);
    }
}

// The object with another version; "": without one.
StoredPtr with_version(const Stored& object, const std::string& version) {
    json::Value value = object.value;
    if (version.empty()) {
        value["metadata"].erase("resourceVersion");
    } else {
        value["metadata"].set("resourceVersion", version);
    }
    return make_stored(std::move(value), object.revision);
}

// `spec` of a builtin kind is a structure that is always there: its fields have owners, not it.
void disown_spec_itself(json::Value& object) {
    json::Value* entries = object["metadata"].find("managedFields");
    if (entries == nullptr || !entries->is_array()) {
        return;
    }
    for (json::Value& entry : *entries->if_array()) {
        json::Value* spec = entry.pointer("/fieldsV1/f:spec");
        if (spec == nullptr || !spec->is_object() ||
            json::View(entry)["operation"].string_or("") != "Update") {
            continue;
        }
        spec->erase(".");
        if (spec->if_object()->empty()) {
            entry["fieldsV1"].erase("f:spec");
        }
    }
    std::erase_if(*entries->if_array(), [](const json::Value& entry) {
        return json::View(entry)["fieldsV1"].object().empty();
    });
    if (entries->if_array()->empty()) {
        object["metadata"].erase("managedFields");
    }
}

// Kinds that PUT creates.
bool creates_on_update(const ResourceKind& kind) {
    const std::string& group = kind.gvk.group;
    return !kind.custom && (group == "coordination.k8s.io" || group == "events.k8s.io" ||
                            group == "rbac.authorization.k8s.io" || kind.plural == "services" ||
                            kind.plural == "endpoints" || kind.plural == "events");
}

// A namespaced object needs a namespace that is there to stay.
Answer<void> check_namespace(const Store& store, const Call& call, const std::string& name) {
    if (!call.kind->namespaced) {
        return boost::outcome_v2::success();
    }
    const std::string& ns = call.info.ns;
    const StoredPtr found = store.find("namespaces", ns);
    if (!found) {
        return refuse(not_found("", "namespaces", ns));
    }
    if (json::View(found->value)["metadata"]["deletionTimestamp"].present()) {
        StatusError error = forbidden(
            call.kind->gvk.group,
            call.kind->plural,
            name,
            "unable to create new content in namespace " + ns + " because it is being terminated");
        error.causes.push_back({"NamespaceTerminating",
                                "namespace " + ns + " is being terminated",
                                "metadata.namespace"});
        return refuse(std::move(error));
    }
    return boost::outcome_v2::success();
}

Answer<void> check_size(const Stored& object) {
    if (object.text.size() > kObjectBytesMax) {
        return refuse(too_large("etcdserver: request is too large: object of " +
                                std::to_string(object.text.size()) + " bytes, the limit is " +
                                std::to_string(kObjectBytesMax)));
    }
    return boost::outcome_v2::success();
}

}  // namespace

Answer<StoredPtr> ApiServer::State::create_object(Call& call, json::Value object, bool track) {
    const ResourceKind& kind = *call.kind;
    if (kind.terminating) {
        return refuse(method_not_allowed(
            "create not allowed while custom resource definition is terminating"));
    }
    to_storage_version(kind, object);
    CAPSTAN_TRY(normalize(call, object));
    // Fetched anew each time: adding members to `object` moves it.
    const auto metadata = [&object]() -> json::Value& { return object["metadata"]; };
    call.sent_version = json::View(metadata())["resourceVersion"].string_or("");
    for (const char* field :
         {"selfLink", "deletionTimestamp", "deletionGracePeriodSeconds", "resourceVersion"}) {
        metadata().erase(field);
    }
    const std::string base{json::View(metadata())["generateName"].string_or("")};
    const bool generate = json::View(metadata())["name"].string_or("").empty() && !base.empty();
    for (int attempt = 0; generate && attempt < kGenerateNameTries; ++attempt) {
        const std::string name = base.substr(0, kGenerateBaseMax) + generator.suffix();
        metadata().set("name", name);
        if (!store.find(kind.storage, object_key(call.info.ns, name))) {
            break;
        }
    }
    const std::string name{json::View(metadata())["name"].string_or("")};
    metadata().set("uid", generator.uid());
    metadata().set("creationTimestamp", call.now);
    metadata().erase("generation");
    if (counts_generation(kind, object)) {
        metadata().set("generation", 1);
    }
    if (kind.has_status() && kind.storage != "nodes") {
        object.erase("status");  // a node reports about itself from the start
    }
    CAPSTAN_TRY(validate_object(call, nullptr, object));
    if (kind.storage == kCrdStorage) {
        set_crd_status(object, crd_name_conflict(registry, object), call.now);
    }
    complete_new(kind, name, object);
    const std::string key = object_key(call.info.ns, name);
    if (store.find(kind.storage, key)) {
        return refuse(already_exists(kind.gvk.group, kind.plural, name));
    }
    CAPSTAN_TRY(check_namespace(store, call, name));
    if (track) {
        track_update(nullptr,
                     object,
                     kind.merge_schema(),
                     {call.manager, kind.gvk.api_version(), call.info.subresource, call.now});
        if (!kind.custom) {
            disown_spec_itself(object);
        }
    }
    if (kind.storage == "batch/jobs") {
        // after tracking: nobody owns these fields, so an apply does not remove them
        generate_job_selector(object);
    }
    StoredPtr stored = store.put(kind.storage, key, std::move(object));
    CAPSTAN_TRY(check_size(*stored));
    return stored;
}

Answer<StoredPtr> ApiServer::State::store_update(Call& call,
                                                 const StoredPtr& live,
                                                 json::Value updated,
                                                 bool track) {
    const ResourceKind& kind = *call.kind;
    const json::View sent = json::View(updated)["metadata"];
    const json::View current = json::View(live->value)["metadata"];
    const std::string name(current["name"].string_or(""));
    if (const std::string_view uid = sent["uid"].string_or("");
        !uid.empty() && uid != current["uid"].string_or("")) {
        return refuse(
            conflict(kind.gvk.group,
                     kind.plural,
                     name,
                     "Precondition failed: UID in precondition: " + std::string(uid) +
                         ", UID in object meta: " + std::string(current["uid"].string_or(""))));
    }
    const std::string_view version = sent["resourceVersion"].string_or("");
    if (!version.empty() && version != current["resourceVersion"].string_or("")) {
        return refuse(version_conflict(kind.gvk.group, kind.plural, name));
    }
    to_storage_version(kind, updated);
    const WriteIdentity writer{
        call.manager, kind.gvk.api_version(), call.info.subresource, call.now};
    const bool custom_status = kind.custom && call.info.subresource == "status";
    if (custom_status) {
        // What a write of the status says besides, but for spec, is tracked though not written.
        const bool typed = !track || is_typed(kind, updated);
        copy_member(live->value, "spec", updated);
        CAPSTAN_TRY(normalize(call, updated));
        if (!typed) {  // as on a real server, which forgets all managers then
            updated["metadata"].erase("managedFields");
        } else if (track) {
            track_update(&live->value, updated, kind.merge_schema(), writer);
        }
    }
    isolate(call, live->value, updated);
    keep_allocated_fields(kind.gvk, live->value, updated);
    if (!custom_status) {
        CAPSTAN_TRY(normalize(call, updated));
    }
    set_generation(kind, live->value, updated);
    CAPSTAN_TRY(validate_object(call, &live->value, updated));
    if (kind.storage == kCrdStorage && call.info.subresource.empty()) {
        set_crd_status(updated, crd_name_conflict(registry, updated), call.now);
    }
    if (track && !custom_status) {
        track_update(&live->value, updated, kind.merge_schema(), writer);
    }
    if (!kind.custom) {
        disown_spec_itself(updated);
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

Answer<StoredPtr> ApiServer::State::transact(const Call& call,
                                             const std::function<Answer<StoredPtr>()>& write) {
    store.begin();
    const StoredPtr live = store.find(call.kind->storage, call.key());
    Answer<StoredPtr> stored = write();
    if (!stored || call.dry_run) {
        store.rollback();
        if (stored && stored.value() != live) {  // what was not stored has no version of its own
            return with_version(*stored.value(),
                                live ? std::to_string(live->revision) : call.sent_version);
        }
        return stored;
    }
    CAPSTAN_TRY(commit());
    return stored;
}

Answer<ApiResponse> ApiServer::State::create(Call& call) {
    CAPSTAN_TRY(json::Value object, parse_body(call));
    CAPSTAN_TRY(check_identity(call, object));
    CAPSTAN_TRY(check_escalation(call, object));
    if (!json::View(object)["metadata"]["resourceVersion"].string_or("").empty()) {
        return refuse(bad_request("resourceVersion should not be set on objects to be created"));
    }
    CAPSTAN_TRY(const StoredPtr stored,
                transact(call, [&] { return create_object(call, std::move(object), true); }));
    return render(call, *stored, 201);
}

Answer<ApiResponse> ApiServer::State::update(Call& call) {
    CAPSTAN_TRY(json::Value object, parse_body(call));
    CAPSTAN_TRY(check_identity(call, object));
    CAPSTAN_TRY(check_escalation(call, object));
    CAPSTAN_TRY(check_strictly(call, object));
    const StoredPtr live = store.find(call.kind->storage, call.key());
    if (!live && creates_on_update(*call.kind) && call.info.subresource.empty()) {
        if (const std::string_view uid = json::View(object)["metadata"]["uid"].string_or("");
            !uid.empty()) {
            return refuse(conflict(call.kind->gvk.group,
                                   call.kind->plural,
                                   call.info.name,
                                   "Precondition failed: UID in precondition: " + std::string(uid) +
                                       ", UID in object meta: "));
        }
        CAPSTAN_TRY(const StoredPtr created,
                    transact(call, [&] { return create_object(call, std::move(object), true); }));
        return render(call, *created, 201);
    }
    if (!live) {
        return refuse(call.missing());
    }
    if (requires_version(*call.kind) &&
        json::View(object)["metadata"]["resourceVersion"].string_or("").empty()) {
        return refuse(invalid(call.kind->gvk.group,
                              call.kind->plural,
                              call.info.name,
                              {{"FieldValueInvalid",
                                "Invalid value: 0: must be specified for an update",
                                "metadata.resourceVersion"}}));
    }
    CAPSTAN_TRY(const StoredPtr stored,
                transact(call, [&] { return store_update(call, live, std::move(object), true); }));
    return render(call, *stored, 200);
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
    const auto missing =
        binding ? escalation_of_binding(rbac_objects(), call.request.user, object, call.info.ns)
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
