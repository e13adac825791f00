// Fields of builtin kinds that must not change once stored.
#include "runtime/local/apiserver/builtin_kinds_internal.hpp"

#include <array>

namespace capstan::local {

namespace {

using Errors = std::vector<FieldError>;

bool same(const json::Value& a, const json::Value& b, std::string_view pointer) {
    const json::Value* left = a.pointer(pointer);
    const json::Value* right = b.pointer(pointer);
    const bool no_left = left == nullptr || left->is_null();
    const bool no_right = right == nullptr || right->is_null();
    return no_left || no_right ? no_left == no_right : *left == *right;
}

json::Value copy_of(const json::Value& object, std::string_view pointer) {
    const json::Value* found = object.pointer(pointer);
    return found == nullptr ? json::Value() : *found;
}

json::Value spec_without(const json::Value& object, std::initializer_list<const char*> fields) {
    json::Value spec = copy_of(object, "/spec");
    for (const char* field : fields) {
        spec.erase(field);
    }
    return spec;
}

void update_stateful_set(const json::Value& before, const json::Value& after, Errors& errors) {
    const auto rest = [](const json::Value& object) {
        return spec_without(object,
                            {"replicas",
                             "ordinals",
                             "template",
                             "updateStrategy",
                             "revisionHistoryLimit",
                             "persistentVolumeClaimRetentionPolicy",
                             "minReadySeconds"});
    };
    if (!(rest(before) == rest(after))) {
        errors.push_back(forbidden_value(
            "spec",
            "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', "
            "'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and "
            "'minReadySeconds' are forbidden"));
    }
}

void update_job(const json::Value& before, const json::Value& after, Errors& errors) {
    for (const char* field :
         {"selector", "template", "completionMode", "podFailurePolicy", "backoffLimitPerIndex"}) {
        const std::string pointer = std::string("/spec/") + field;
        if (!same(before, after, pointer)) {
            errors.push_back(invalid_value(
                std::string("spec.") + field, copy_of(after, pointer), "field is immutable"));
        }
    }
    if (!same(before, after, "/spec/completions") &&
        json::View(after)["spec"]["completionMode"].string_or("") != "Indexed") {
        errors.push_back(invalid_value(
            "spec.completions", copy_of(after, "/spec/completions"), "field is immutable"));
    }
}

void update_config_map(const json::Value& before, const json::Value& after, Errors& errors) {
    if (!json::View(before)["immutable"].bool_or(false)) {
        return;
    }
    if (!json::View(after)["immutable"].bool_or(false)) {
        errors.push_back(
            forbidden_value("immutable", "field is immutable when `immutable` is set"));
    }
    for (const char* field : {"data", "binaryData"}) {
        if (!same(before, after, std::string("/") + field)) {
            errors.push_back(forbidden_value(field, "field is immutable when `immutable` is set"));
        }
    }
}

void update_secret(const json::Value& before, const json::Value& after, Errors& errors) {
    if (!same(before, after, "/type")) {
        errors.push_back(invalid_value("type", copy_of(after, "/type"), "field is immutable"));
    }
    update_config_map(before, after, errors);
}

void update_claim(const json::Value& before, const json::Value& after, Errors& errors) {
    const auto rest = [](const json::Value& object) {
        json::Value spec = spec_without(object, {"volumeAttributesClassName"});
        if (json::Value* resources = spec.find("resources")) {
            resources->erase("requests");
        }
        return spec;
    };
    // Binding a claim sets its volume once.
    json::Value old_spec = rest(before);
    json::Value new_spec = rest(after);
    if (json::View(old_spec)["volumeName"].string_or("").empty()) {
        old_spec.erase("volumeName");
        new_spec.erase("volumeName");
    }
    if (!(old_spec == new_spec)) {
        errors.push_back(
            forbidden_value("spec",
                            "spec is immutable after creation except resources.requests and "
                            "volumeAttributesClassName for bound claims"));
    }
}

void update_binding(const json::Value& before, const json::Value& after, Errors& errors) {
    if (!same(before, after, "/roleRef")) {
        errors.push_back(
            invalid_value("roleRef", copy_of(after, "/roleRef"), "cannot change roleRef"));
    }
}

void update_service(const json::Value& before, const json::Value& after, Errors& errors) {
    const std::string_view old_address = json::View(before)["spec"]["clusterIP"].string_or("");
    const std::string_view new_type = json::View(after)["spec"]["type"].string_or("");
    if (!old_address.empty() && new_type != "ExternalName" &&
        !same(before, after, "/spec/clusterIP")) {
        errors.push_back(invalid_value("spec.clusterIPs[0]",
                                       json::list({copy_of(after, "/spec/clusterIP")}),
                                       "may not change once set"));
    }
}

void update_pod(const json::Value& before, const json::Value& after, Errors& errors) {
    const auto rest = [&](const json::Value& object) {
        json::Value spec = spec_without(object,
                                        {"activeDeadlineSeconds",
                                         "terminationGracePeriodSeconds",
                                         "tolerations",
                                         "schedulingGates"});
        for (const char* list : {"containers", "initContainers"}) {
            for_each_item(spec, list, [](json::Value& container) { container.erase("image"); });
        }
        if (json::View(before)["spec"]["nodeName"].string_or("").empty()) {
            // assigning the pod to a node; a real server has /binding for it
            spec.erase("nodeName");
        }
        return spec;
    };
    if (!(rest(before) == rest(after))) {
        errors.push_back(forbidden_value(
            "spec",
            "pod updates may not change fields other than `spec.containers[*].image`,"
            "`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only "
            "additions to "
            "existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 "
            "if it was previously negative)"));
    }
}

struct Check {
    std::string_view group;
    std::string_view kind;
    void (*validate)(const json::Value&, const json::Value&, Errors&);
};

constexpr std::array<Check, 9> kChecks{{
    {"apps", "StatefulSet", update_stateful_set},
    {"batch", "Job", update_job},
    {"", "ConfigMap", update_config_map},
    {"", "Secret", update_secret},
    {"", "PersistentVolumeClaim", update_claim},
    {"", "Service", update_service},
    {"", "Pod", update_pod},
    {"rbac.authorization.k8s.io", "RoleBinding", update_binding},
    {"rbac.authorization.k8s.io", "ClusterRoleBinding", update_binding},
}};

}  // namespace

std::vector<FieldError> validate_builtin_update(const GroupVersionKind& gvk,
                                                const json::Value& old_object,
                                                const json::Value& new_object) {
    Errors errors;
    for (const Check& known : kChecks) {
        if (known.kind == gvk.kind && known.group == gvk.group) {
            known.validate(old_object, new_object, errors);
        }
    }
    return errors;
}

}  // namespace capstan::local
