// PATCH: the four kinds of it.
#include "runtime/local/apiserver/server_state.hpp"

#include "runtime/local/apiserver/apply_typed.hpp"
#include "runtime/local/apiserver/patch_json.hpp"
#include "runtime/local/apiserver/patch_merge.hpp"
#include "runtime/local/apiserver/patch_strategic.hpp"

#include <optional>

namespace capstan::local {
namespace {

Answer<void> check_apply_request(const Call& call, const json::Value& config) {
    if (!config.is_object()) {
        return refuse(bad_request("error decoding YAML: an apply configuration is an object"));
    }
    if (call.info.parameter("fieldManager").empty()) {
        return refuse(invalid("meta.k8s.io",
                              "PatchOptions",
                              "",
                              {{"FieldValueRequired",
                                "Required value: is required for apply patch",
                                "fieldManager"}}));
    }
    if (!json::View(config)["apiVersion"].present() || !json::View(config)["kind"].present()) {
        return refuse(
            bad_request("error decoding apply configuration: apiVersion and kind must be set"));
    }
    if (json::View(config)["metadata"]["managedFields"].present()) {
        return refuse(bad_request("metadata.managedFields must be nil"));
    }
    return boost::outcome_v2::success();
}

// What a patch may not touch. The version is compared first: who read too early is told just that.
Answer<void> check_immutable(const Call& call, const Stored& live, const json::Value& updated) {
    const GroupVersionKind& gvk = call.kind->gvk;
    const std::string_view version =
        json::View(updated)["metadata"]["resourceVersion"].string_or("");
    if (!version.empty() && version != std::to_string(live.revision)) {
        return refuse(version_conflict(gvk.group, call.kind->plural, call.info.name));
    }
    std::vector<StatusCause> causes;
    const std::string uid{json::View(live.value)["metadata"]["uid"].string_or("")};
    const std::string sent{json::View(updated)["metadata"]["uid"].string_or(uid)};
    if (!sent.empty() && sent != uid) {
        causes.push_back({"FieldValueInvalid",
                          "Invalid value: " + json::dump(sent) + ": field is immutable",
                          "metadata.uid"});
    }
    for (const auto& [field, wanted] : {std::pair<const char*, std::string>{"kind", gvk.kind},
                                        {"apiVersion", gvk.api_version()}}) {
        const std::string found{json::View(updated)[std::string_view(field)].string_or("")};
        if (call.kind->custom && found != wanted) {
            causes.push_back({"FieldValueInvalid",
                              "Invalid value: " + json::dump(found) + ": must be " + wanted,
                              field});
        }
    }
    if (causes.empty()) {
        return boost::outcome_v2::success();
    }
    return refuse(invalid(gvk.group, gvk.kind, call.info.name, std::move(causes)));
}

// As kube-apiserver says that a configuration does not fit the schema: 500, without a reason.
StatusError untyped(const Call& call, const std::string& why) {
    StatusError error;
    error.code = 500;
    error.reason.clear();
    error.message = "failed to create typed patch object (/" + call.info.name + "; " +
                    call.kind->gvk.api_version() + ", Kind=" + call.kind->gvk.kind + "): " + why;
    return error;
}

// An object where an integer or string belongs has no fields that could be unknown; validation says
// that it is none.
void drop_untyped(json::Value& value, const SchemaNode& node) {
    if (json::Object* const members = value.if_object()) {
        std::erase_if(*members, [&](json::Member& member) {
            const SchemaNode* const child = node.child(member.key);
            if (child != nullptr && !child->int_or_string) {
                drop_untyped(member.value, *child);
            }
            return child != nullptr && child->int_or_string;
        });
    } else if (json::Array* const items = value.if_array(); items != nullptr && node.items) {
        for (json::Value& item : *items) {
            drop_untyped(item, *node.items);
        }
    }
}

// Apply is strict: a field outside the schema of a custom resource is refused.
Answer<void> check_fields_known(const Call& call, const json::Value& config) {
    const ResourceKind& kind = *call.kind;
    if (const auto fits = check_typed(config, kind.merge_schema()); !fits) {
        return refuse(untyped(call, fits.error().message));
    }
    if (kind.custom && kind.schema) {  // whatever fieldValidation says
        json::Value copy = config;
        drop_untyped(copy, *kind.schema->root());
        if (const auto unknown = kind.schema->prune(copy); !unknown.empty()) {
            return refuse(untyped(call, "." + unknown.front() + ": field not declared in schema"));
        }
    }
    return boost::outcome_v2::success();
}

// Top-level fields this endpoint does not write, so that nobody comes to own them through it.
FieldSet reset_fields(const Call& call, const json::Value& config) {
    FieldSet reset;
    const bool status = call.info.subresource == "status";
    if (status && call.kind->custom) {
        reset.insert({"f:spec"});
    } else if (status) {
        for (const json::Member& member : *config.if_object()) {
            if (member.key != "status") {
                reset.insert({"f:" + member.key});
            }
        }
    } else if (call.kind->has_status()) {
        reset.insert({"f:status"});
    }
    return reset;
}

}  // namespace

Answer<ApiResponse> ApiServer::State::patch(Call& call) {
    const std::string_view type =
        std::string_view(call.request.content_type).substr(0, call.request.content_type.find(';'));
    const bool strategic = type == "application/strategic-merge-patch+json";
    const bool apply_patch =
        type == "application/apply-patch+yaml" || type == "application/apply-patch+json";
    if (!strategic && !apply_patch && type != "application/json-patch+json" &&
        type != "application/merge-patch+json") {
        return refuse(unsupported_media_type(
            "the body of the request was in an unknown format - accepted media types include: "
            "application/json-patch+json, application/merge-patch+json, "
            "application/apply-patch+yaml"));
    }
    if (strategic && call.kind->custom) {
        return refuse(unsupported_media_type(
            "the body of the request was in an unknown format - accepted media types include: "
            "application/json-patch+json, application/merge-patch+json, "
            "application/apply-patch+yaml"));
    }
    CAPSTAN_TRY(const json::Value body, parse_body(call));
    if (apply_patch) {
        call.applying = true;
        return apply(call, body);
    }
    if (!call.info.parameter("force").empty()) {
        return refuse(invalid("meta.k8s.io",
                              "PatchOptions",
                              "",
                              {{"FieldValueForbidden",
                                "Forbidden: may not be specified for non-apply patch",
                                "force"}}));
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
    CAPSTAN_TRY(check_strictly(call, updated));
    CAPSTAN_TRY(check_immutable(call, *live, updated));
    CAPSTAN_TRY(check_identity(call, updated));
    CAPSTAN_TRY(check_escalation(call, updated));
    CAPSTAN_TRY(const StoredPtr stored,
                transact(call, [&] { return store_update(call, live, std::move(updated), true); }));
    return render(call, *stored, 200);
}

Answer<ApiResponse> ApiServer::State::apply(Call& call, const json::Value& body) {
    json::Value config = body;
    CAPSTAN_TRY(check_apply_request(call, config));
    CAPSTAN_TRY(check_identity(call, config));
    CAPSTAN_TRY(check_escalation(call, config));
    const ResourceKind& kind = *call.kind;
    CAPSTAN_TRY(check_fields_known(call, config));
    const FieldSet reset = reset_fields(call, config);
    const StoredPtr live = store.find(kind.storage, call.key());
    if (!live &&
        (!call.info.subresource.empty() || json::View(config)["metadata"]["uid"].present())) {
        return refuse(
            call.info.subresource.empty()
                ? conflict(kind.gvk.group,
                           kind.plural,
                           call.info.name,
                           "uid mismatch: the provided object specified uid " +
                               std::string(json::View(config)["metadata"]["uid"].string_or("")) +
                               ", and no existing object was found")
                : call.missing());
    }
    std::optional<json::Value> base;
    if (live) {
        base = value_at_version(*live, kind);
        CAPSTAN_TRY(check_immutable(call, *live, config));
    }
    CAPSTAN_TRY(
        json::Value merged,
        apply_config(base ? &*base : nullptr,
                     config,
                     kind.merge_schema(),
                     {call.manager, kind.gvk.api_version(), call.info.subresource, call.now},
                     call.info.flag("force"),
                     reset));
    if (!live) {
        CAPSTAN_TRY(const StoredPtr stored,
                    transact(call, [&] { return create_object(call, std::move(merged), false); }));
        return render(call, *stored, 201);
    }
    CAPSTAN_TRY(const StoredPtr stored,
                transact(call, [&] { return store_update(call, live, std::move(merged), false); }));
    return render(call, *stored, 200);
}

}  // namespace capstan::local
