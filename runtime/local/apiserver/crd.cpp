#include "runtime/local/apiserver/crd.hpp"

#include "runtime/local/apiserver/metadata_rules.hpp"

#include <algorithm>
#include <cctype>

namespace capstan::local {
namespace {

std::string lower(std::string_view text) {
    std::string out(text);
    std::transform(out.begin(), out.end(), out.begin(), [](unsigned char c) {
        return static_cast<char>(std::tolower(c));
    });
    return out;
}

std::vector<std::string> strings(const json::View& list) {
    std::vector<std::string> out;
    for (const json::Value& item : list.array()) {
        if (const std::string* text = item.if_string()) {
            out.push_back(*text);
        }
    }
    return out;
}

// ".spec.replicas" to "/spec/replicas".
std::string pointer_of(std::string_view path) {
    std::string out;
    for (const char c : path) {
        out += c == '.' ? '/' : c;
    }
    return out;
}

void set_condition(json::Value& crd,
                   std::string_view type,
                   bool is_true,
                   std::string_view reason,
                   std::string_view message,
                   const std::string& now) {
    json::Value& conditions = crd["status"]["conditions"];
    if (!conditions.is_array()) {
        conditions = json::list();
    }
    const json::Value wanted = {
        {"lastTransitionTime", now},
        {"message", message},
        {"reason", reason},
        {"status", is_true ? "True" : "False"},
        {"type", type},
    };
    for (json::Value& condition : *conditions.if_array()) {
        if (json::View(condition)["type"].string_or("") == type) {
            const bool same =
                json::View(condition)["status"].string_or("") == (is_true ? "True" : "False");
            const json::Value since = same ? condition["lastTransitionTime"] : json::Value(now);
            condition = wanted;
            condition.set("lastTransitionTime", since);
            return;
        }
    }
    conditions.push_back(wanted);
}

void check_versions(const json::View& spec, std::vector<FieldError>& errors) {
    const json::Array& versions = spec["versions"].array();
    if (versions.empty()) {
        errors.push_back(required_value("spec.versions"));
    }
    std::size_t stored = 0;
    for (std::size_t i = 0; i < versions.size(); ++i) {
        const std::string field = "spec.versions[" + std::to_string(i) + "]";
        const json::View version(versions[i]);
        stored += version["storage"].bool_or(false) ? 1 : 0;
        if (!is_dns_label(version["name"].string_or(""))) {
            errors.push_back(invalid_value(
                field + ".name", version["name"].string_or(""), "must be a DNS label"));
        }
        const json::Value* schema = version["schema"]["openAPIV3Schema"].value();
        if (schema == nullptr || !schema->is_object()) {
            errors.push_back(
                required_value(field + ".schema.openAPIV3Schema", "schemas are required"));
            continue;
        }
        if (auto compiled = StructuralSchema::compile(*schema); !compiled) {
            errors.push_back(invalid_value(
                field + ".schema.openAPIV3Schema", "object", compiled.error().message));
        }
    }
    if (!versions.empty() && stored != 1) {
        errors.push_back(invalid_value("spec.versions",
                                       json::Value(stored),
                                       "must have exactly one version marked as storage version"));
    }
}

KindPtr version_kind(const json::View& spec,
                     const json::Value& entry,
                     const std::string& storage_version,
                     bool terminating) {
    const json::View version(entry);
    auto kind = std::make_shared<ResourceKind>();
    const json::View names = spec["names"];
    kind->gvk = {std::string(spec["group"].string_or("")),
                 std::string(version["name"].string_or("")),
                 std::string(names["kind"].string_or(""))};
    kind->plural = names["plural"].string_or("");
    kind->singular = names["singular"].string_or(lower(kind->gvk.kind));
    kind->short_names = strings(names["shortNames"]);
    kind->categories = strings(names["categories"]);
    kind->namespaced = spec["scope"].string_or("") == "Namespaced";
    kind->custom = true;
    kind->terminating = terminating;
    kind->storage = storage_id(kind->gvk.group, kind->plural);
    kind->storage_api_version = kind->gvk.group + "/" + storage_version;
    if (version["subresources"]["status"].present()) {
        kind->subresources.emplace_back("status");
    }
    const json::View scale = version["subresources"]["scale"];
    if (scale.present()) {
        kind->subresources.emplace_back("scale");
        kind->scale = {pointer_of(scale["specReplicasPath"].string_or("")),
                       pointer_of(scale["statusReplicasPath"].string_or("")),
                       pointer_of(scale["labelSelectorPath"].string_or(""))};
    }
    for (const json::Value& field : version["selectableFields"].array()) {
        const std::string_view path = json::View(field)["jsonPath"].string_or("");
        kind->selectable_fields.emplace_back(path.substr(path.starts_with('.') ? 1 : 0));
    }
    if (const json::Value* columns = version["additionalPrinterColumns"].value()) {
        kind->printer_columns = *columns;
    }
    kind->raw_schema = *version["schema"]["openAPIV3Schema"].value();
    if (auto compiled = StructuralSchema::compile(kind->raw_schema)) {
        kind->schema = std::make_shared<const StructuralSchema>(std::move(compiled).assume_value());
    }
    return kind;
}

}  // namespace

void default_crd(json::Value& crd) {
    json::Value* spec = crd.find("spec");
    json::Value* names = spec == nullptr ? nullptr : spec->find("names");
    if (names == nullptr || !names->is_object()) {
        return;
    }
    const std::string kind{json::View(*names)["kind"].string_or("")};
    if (json::View(*names)["singular"].string_or("").empty()) {
        names->set("singular", lower(kind));
    }
    if (json::View(*names)["listKind"].string_or("").empty()) {
        names->set("listKind", kind + "List");
    }
    if (spec->find("conversion") == nullptr) {
        spec->set("conversion", {{"strategy", "None"}});
    }
}

std::vector<FieldError> validate_crd(const json::Value& crd) {
    std::vector<FieldError> errors;
    const json::View spec = json::View(crd)["spec"];
    const std::string group(spec["group"].string_or(""));
    const std::string plural(spec["names"]["plural"].string_or(""));
    if (group.empty()) {
        errors.push_back(required_value("spec.group"));
    } else if (!is_dns_subdomain(group) || group.find('.') == std::string::npos) {
        errors.push_back(
            invalid_value("spec.group", group, "should be a domain with at least one dot"));
    }
    const std::string_view scope = spec["scope"].string_or("");
    if (scope != "Namespaced" && scope != "Cluster") {
        errors.push_back(unsupported_value("spec.scope", scope, {"Cluster", "Namespaced"}));
    }
    if (!is_dns_label(plural)) {
        errors.push_back(required_value("spec.names.plural", "a DNS label in lower case"));
    }
    if (spec["names"]["kind"].string_or("").empty()) {
        errors.push_back(required_value("spec.names.kind"));
    }
    const std::string_view name = json::View(crd)["metadata"]["name"].string_or("");
    if (name != plural + "." + group) {
        errors.push_back(
            invalid_value("metadata.name", name, "must be spec.names.plural+\".\"+spec.group"));
    }
    check_versions(spec, errors);
    return errors;
}

std::vector<KindPtr> kinds_of_crd(const json::Value& crd) {
    const json::View spec = json::View(crd)["spec"];
    const bool terminating = json::View(crd)["metadata"]["deletionTimestamp"].present();
    std::string storage_version;
    for (const json::Value& version : spec["versions"].array()) {
        if (json::View(version)["storage"].bool_or(false)) {
            storage_version = json::View(version)["name"].string_or("");
        }
    }
    std::vector<KindPtr> kinds;
    for (const json::Value& version : spec["versions"].array()) {
        if (json::View(version)["served"].bool_or(false)) {
            kinds.push_back(version_kind(spec, version, storage_version, terminating));
        }
    }
    std::stable_sort(kinds.begin(), kinds.end(), [](const KindPtr& a, const KindPtr& b) {
        return version_before(a->gvk.version, b->gvk.version);
    });
    return kinds;
}

void set_crd_status(json::Value& crd, const std::string& conflict, const std::string& now) {
    const json::Value* names = crd.pointer("/spec/names");
    const json::Value accepted = names == nullptr ? json::object() : *names;
    std::string storage_version;
    const json::View versions = json::View(crd)["spec"]["versions"];
    for (const json::Value& version : versions.array()) {
        if (json::View(version)["storage"].bool_or(false)) {
            storage_version = json::View(version)["name"].string_or("");
        }
    }
    if (!crd["status"].is_object()) {
        crd["status"] = json::object();
    }
    json::Value& stored = crd["status"]["storedVersions"];
    if (!stored.is_array()) {
        stored = json::list();
    }
    const json::Array& known = *stored.if_array();
    if (std::find(known.begin(), known.end(), json::Value(storage_version)) == known.end()) {
        stored.push_back(storage_version);
    }
    if (!conflict.empty()) {
        set_condition(crd, "NamesAccepted", false, "NameConflict", conflict, now);
        set_condition(crd, "Established", false, "NotAccepted", "not all names are accepted", now);
        return;
    }
    crd["status"].set("acceptedNames", accepted);
    set_condition(crd, "NamesAccepted", true, "NoConflicts", "no conflicts found", now);
    set_condition(crd,
                  "Established",
                  true,
                  "InitialNamesAccepted",
                  "the initial names have been accepted",
                  now);
    if (json::View(crd)["metadata"]["deletionTimestamp"].present()) {
        set_condition(crd,
                      "Terminating",
                      true,
                      "InstanceDeletionInProgress",
                      "CustomResource deletion is in progress",
                      now);
    }
}

}  // namespace capstan::local
