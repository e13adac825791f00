// An object on its way into the store: identity, defaults, pruning, isolation of
// subresources, validation.
#include "runtime/local/apiserver/server_state.hpp"

#include "runtime/local/apiserver/apply_typed.hpp"
#include "runtime/local/apiserver/builtin_kinds.hpp"
#include "runtime/local/apiserver/crd.hpp"
#include "runtime/local/apiserver/metadata_rules.hpp"
#include "runtime/local/apiserver/patch_merge.hpp"

#include <algorithm>
#include <array>
#include <cmath>

namespace capstan::local {
namespace {

constexpr std::array<std::string_view, 6> kServerFields{
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "generation",
    "selfLink",
    "deletionGracePeriodSeconds",
};

NameRule name_rule(const ResourceKind& kind) {
    if (kind.gvk.group == "rbac.authorization.k8s.io") {
        return NameRule::path_segment;
    }
    if (!kind.custom && (kind.plural == "namespaces" || kind.plural == "services")) {
        return NameRule::label;
    }
    return NameRule::subdomain;
}

std::string unknown_fields_text(const std::vector<std::string>& paths) {
    std::string text;
    for (const std::string& path : paths) {
        text += (text.empty() ? "unknown field \"" : ", unknown field \"") + path + "\"";
    }
    return text;
}

// 1e3 and 5.0 are whole numbers and are kept as such, as Go's JSON does.
void make_integers(json::Value& value) {
    constexpr double kIntegerLimit = 9223372036854775808.0;  // 2^63
    if (const double* real = value.if_real()) {
        if (std::floor(*real) == *real && std::fabs(*real) < kIntegerLimit) {
            value = json::Value(static_cast<std::int64_t>(*real));
        }
    } else if (json::Object* object = value.if_object()) {
        for (json::Member& member : *object) {
            make_integers(member.value);
        }
    } else if (json::Array* array = value.if_array()) {
        for (json::Value& item : *array) {
            make_integers(item);
        }
    }
}

}  // namespace

Answer<json::Value> parse_body(const Call& call) {
    const std::string_view type =
        std::string_view(call.request.content_type).substr(0, call.request.content_type.find(';'));
    if (call.request.method != "PATCH" && !type.empty() && type != "application/json") {
        return refuse(
            unsupported_media_type("the body of the request was in an unknown format - accepted "
                                   "media types include: application/json"));
    }
    auto parsed =
        json::parse(call.request.body, {.depth_max = json::kDepthMax, .bytes_max = kBodyBytesMax});
    if (!parsed) {
        if (parsed.error().code == Code::too_large) {
            return refuse(too_large("Request entity too large: " + parsed.error().message));
        }
        return refuse(bad_request(
            "the object provided is unrecognized (must be of type " + call.kind->gvk.kind +
            "): couldn't get version/kind; json parse error: " + parsed.error().message));
    }
    if (!parsed.value().is_object() && call.request.method != "PATCH") {
        return refuse(bad_request("the object provided is not a JSON object"));
    }
    make_integers(parsed.assume_value());
    return std::move(parsed).assume_value();
}

StatusError undecodable(const Call& call, const std::string& why) {
    if (call.request.method == "PATCH") {
        return invalid(
            {}, {}, {}, {{"FieldValueInvalid", "Invalid value: the object: " + why, "patch"}});
    }
    const GroupVersionKind& gvk = call.kind->gvk;
    return bad_request(gvk.kind + " in version \"" + gvk.version + "\" cannot be handled as a " +
                       gvk.kind + ": " + why);
}

Answer<void> check_identity(const Call& call, json::Value& object) {
    const ResourceKind& kind = *call.kind;
    if (kind.custom && call.request.method != "PATCH") {
        for (const char* field : {"kind", "apiVersion"}) {
            if (json::View(object)[std::string_view(field)].string_or("").empty()) {
                return refuse(bad_request("the object provided is unrecognized (must be of type " +
                                          kind.gvk.kind + "): Object '" + field + "' is missing"));
            }
        }
    }
    const std::string api_version{
        json::View(object)["apiVersion"].string_or(kind.gvk.api_version())};
    const std::string kind_name{json::View(object)["kind"].string_or(kind.gvk.kind)};
    if (kind_name != kind.gvk.kind || api_version != kind.gvk.api_version()) {
        return refuse(bad_request("the API version in the data (" + api_version + ", Kind=" +
                                  kind_name + ") does not match the expected API version (" +
                                  kind.gvk.api_version() + ", Kind=" + kind.gvk.kind + ")"));
    }
    object.set("apiVersion", api_version);
    object.set("kind", kind_name);
    json::Value& metadata = object["metadata"];
    if (metadata.is_null()) {
        metadata = json::object();
    }
    if (!metadata.is_object()) {
        return refuse(bad_request("metadata is not an object"));
    }
    const std::string_view name = json::View(metadata)["name"].string_or("");
    if (!call.info.name.empty() && name != call.info.name) {
        if (!name.empty()) {
            return refuse(bad_request("the name of the object (" + std::string(name) +
                                      ") does not match the name on the URL (" + call.info.name +
                                      ")"));
        }
        metadata.set("name", call.info.name);
    }
    if (!kind.namespaced) {
        metadata.erase("namespace");
        return boost::outcome_v2::success();
    }
    const std::string_view ns = json::View(metadata)["namespace"].string_or("");
    if (ns.empty()) {
        metadata.set("namespace", call.info.ns);
    } else if (ns != call.info.ns) {
        return refuse(
            bad_request("the namespace of the provided object does not match the namespace sent on "
                        "the request"));
    }
    return boost::outcome_v2::success();
}

void to_storage_version(const ResourceKind& kind, json::Value& object) {
    if (kind.storage == "events" && kind.gvk.api_version() != kind.storage_api_version) {
        object = event_to_core(std::move(object));
    } else {
        object.set("apiVersion", kind.storage_api_version);
    }
}

Answer<void> normalize(Call& call, json::Value& object) {
    const ResourceKind& kind = *call.kind;
    drop_empty_metadata(object);
    if (!kind.custom) {
        if (json::Value* data = object.find("data"); data != nullptr && data->is_object()) {
            for (json::Member& member : *data->if_object()) {
                member.value = member.value.is_null() ? json::Value("") : member.value;
            }
        }
        drop_nulls(object);  // a structure has none
        apply_builtin_defaults(kind.gvk, object);
        if (kind.storage == kCrdStorage) {
            default_crd(object);
        }
        return boost::outcome_v2::success();
    }
    if (!kind.schema) {
        return boost::outcome_v2::success();
    }
    const std::vector<std::string> unknown = kind.schema->prune(object);
    if (!unknown.empty() && call.validation == FieldValidation::strict) {
        return refuse(undecodable(call, "strict decoding error: " + unknown_fields_text(unknown)));
    }
    if (call.validation == FieldValidation::warn) {
        for (const std::string& path : unknown) {
            call.warnings.push_back("unknown field \"" + path + "\"");
        }
    }
    // What an apply states as null stays, and is refused where the schema wants a value.
    kind.schema->apply_defaults(object, call.applying ? Nulls::keep : Nulls::drop);
    return boost::outcome_v2::success();
}

Answer<void> check_strictly(Call& call, const json::Value& object) {
    if (call.validation != FieldValidation::strict) {
        return boost::outcome_v2::success();
    }
    json::Value decoded = object;
    return normalize(call, decoded);
}

bool is_typed(const ResourceKind& kind, json::Value object) {
    if (kind.schema) {
        kind.schema->prune(object);
    }
    return static_cast<bool>(check_types(object, kind.merge_schema()));
}

void isolate(const Call& call, const json::Value& live, json::Value& updated) {
    const json::Value* live_meta = live.find("metadata");
    const bool status_call = call.info.subresource == "status";
    if (status_call) {
        const json::Value* sent = updated.find("status");
        json::Value status = sent == nullptr ? json::Value() : *sent;
        json::Value metadata = updated["metadata"];
        const json::Value api_version = updated["apiVersion"];
        updated = live;
        updated.set("apiVersion", api_version);
        if (status.is_null() && !(call.applying && sent != nullptr)) {
            updated.erase("status");
        } else {
            updated.set("status", std::move(status));
        }
        if (call.kind->custom) {
            // Metadata stays as it was, but for what server-side apply keeps there.
            if (const json::Value* managed = metadata.find("managedFields")) {
                updated["metadata"].set("managedFields", *managed);
            } else {
                updated["metadata"].erase("managedFields");
            }
        } else {
            updated.set("metadata", std::move(metadata));
        }
    } else if (call.kind->has_status()) {
        if (const json::Value* status = live.find("status")) {
            updated.set("status", *status);
        } else {
            updated.erase("status");
        }
    }
    json::Value& metadata = updated["metadata"];
    for (const std::string_view field : kServerFields) {
        const json::Value* value = live_meta->find(field);
        if (value != nullptr) {
            metadata.set(field, *value);
        } else {
            metadata.erase(field);
        }
    }
    if (const json::Value* name = live_meta->find("generateName");
        name != nullptr && !metadata.find("generateName")) {
        metadata.set("generateName", *name);
    }
    metadata.set("resourceVersion", *live_meta->find("resourceVersion"));
}

void set_generation(const ResourceKind& kind, const json::Value& live, json::Value& updated) {
    const json::Value* generation = json::View(live)["metadata"]["generation"].value();
    if (generation == nullptr) {
        return;  // kinds without spec have none
    }
    // Everything but metadata and (where it is a subresource) status counts as specification.
    const auto differs = [&](const json::Value& a, const json::Value& b) {
        return std::any_of(
            a.if_object()->begin(), a.if_object()->end(), [&](const json::Member& member) {
                if (member.key == "metadata" || member.key == "apiVersion" ||
                    (member.key == "status" && (kind.has_status() || !kind.custom))) {
                    return false;
                }
                const json::Value* other = b.find(member.key);
                return other == nullptr || !(*other == member.value);
            });
    };
    if (differs(live, updated) || differs(updated, live)) {
        updated["metadata"].set("generation", *generation->if_int() + 1);
    }
}

// CustomResourceDefinitions carry a finalizer without a domain in front themselves.
bool wants_qualified_finalizers(const ResourceKind& kind) {
    return !kind.custom && kind.gvk.group != "apiextensions.k8s.io";
}

Answer<void> validate_object(const Call& call, const json::Value* live, const json::Value& object) {
    const ResourceKind& kind = *call.kind;
    std::vector<FieldError> errors =
        validate_metadata(object, name_rule(kind), wants_qualified_finalizers(kind));
    const auto append = [&](std::vector<FieldError> more) {
        errors.insert(errors.end(),
                      std::make_move_iterator(more.begin()),
                      std::make_move_iterator(more.end()));
    };
    if (live != nullptr) {
        append(validate_metadata_update(*live, object));
    }
    if (kind.custom) {
        if (kind.schema) {
            append(kind.schema->validate(object, live));
        }
    } else {
        append(validate_builtin(kind.gvk, object));
        if (live != nullptr && call.info.subresource.empty()) {
            append(validate_builtin_update(kind.gvk, *live, object));
        }
        if (kind.storage == kCrdStorage && call.info.subresource.empty()) {
            append(validate_crd(object));
        }
    }
    if (errors.empty()) {
        return boost::outcome_v2::success();
    }
    for (const FieldError& error : errors) {
        // Builtin kinds and metadata are read into structures before anything is checked.
        if (error.reason == FieldReason::type_invalid &&
            (!kind.custom || error.field.starts_with("metadata."))) {
            return refuse(undecodable(call, error.text()));
        }
    }
    std::vector<StatusCause> causes;
    for (FieldError& error : errors) {
        causes.push_back({std::string(to_string(error.reason)),
                          std::move(error.detail),
                          std::move(error.field)});
    }
    return refuse(invalid(kind.gvk.group,
                          kind.gvk.kind,
                          json::View(object)["metadata"]["name"].string_or(""),
                          std::move(causes)));
}

}  // namespace capstan::local
