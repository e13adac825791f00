// Light validation of builtin kinds: what a controller would trip over, in the
// words of the API server.
#include "runtime/local/apiserver/builtin_kinds_internal.hpp"

#include "runtime/local/apiserver/schema_internal.hpp"

#include "capstan/clock.hpp"

#include <algorithm>
#include <array>

namespace capstan::local {

namespace {

using Errors = std::vector<FieldError>;

// data of a ConfigMap or Secret, as the API server
constexpr std::size_t kDataBytesMax = 1024u * 1024;

const json::Value& member_of(const json::Value& object, std::string_view pointer) {
    static const json::Value absent;
    const json::Value* found = object.pointer(pointer);
    return found == nullptr ? absent : *found;
}

bool is_empty(const json::Value& value) {
    return value.is_null() || (value.is_string() && value.if_string()->empty()) ||
           (value.is_array() && value.if_array()->empty()) ||
           (value.is_object() && value.if_object()->empty());
}

void require(const json::Value& object,
             std::string_view pointer,
             const std::string& field,
             Errors& errors) {
    if (is_empty(member_of(object, pointer))) {
        errors.push_back(required_value(field));
    }
}

void require_not_negative(const json::Value& object,
                          std::string_view pointer,
                          const std::string& field,
                          Errors& errors) {
    const json::Value& value = member_of(object, pointer);
    if (const std::int64_t* number = value.if_int(); number != nullptr && *number < 0) {
        errors.push_back(invalid_value(field, value, "must be greater than or equal to 0"));
    }
}

bool is_data_key(const std::string& key) {
    return !key.empty() && key.size() <= 253 && key != "." && key != ".." &&
           std::all_of(key.begin(), key.end(), [](char c) {
               return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                      c == '-' || c == '_' || c == '.';
           });
}

void validate_data(
    const json::Value& object, const char* field, bool base64, std::size_t& bytes, Errors& errors) {
    const json::Value* data = object.find(field);
    if (data == nullptr || !data->is_object()) {
        return;
    }
    for (const json::Member& member : *data->if_object()) {
        const std::string path = std::string(field) + "[" + member.key + "]";
        if (!is_data_key(member.key)) {
            errors.push_back(invalid_value(
                path,
                json::Value(member.key),
                "a valid config key must consist of alphanumeric characters, '-', '_' or "
                "'.' (e.g. 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for "
                "validation is '[-._a-zA-Z0-9]+')"));
        }
        const std::string* text = member.value.if_string();
        if (text == nullptr || (base64 && !matches_format("byte", *text))) {
            errors.push_back(wrong_type_value(
                path, json::Value("<omitted>"), base64 ? "must be base64" : "must be a string"));
            continue;
        }
        bytes += text->size();
    }
}

void validate_config_map(const json::Value& object, Errors& errors) {
    std::size_t bytes = 0;
    validate_data(object, "data", false, bytes, errors);
    validate_data(object, "binaryData", true, bytes, errors);
    if (bytes > kDataBytesMax) {
        errors.push_back(too_long("", kDataBytesMax));
    }
}

void validate_secret(const json::Value& object, Errors& errors) {
    std::size_t bytes = 0;
    validate_data(object, "data", true, bytes, errors);
    if (bytes > kDataBytesMax / 3 * 4) {
        errors.push_back(too_long("data", kDataBytesMax));
    }
}

void validate_service(const json::Value& object, Errors& errors) {
    const json::View spec = json::View(object)["spec"];
    const std::string_view type = spec["type"].string_or("ClusterIP");
    const json::Array& ports = spec["ports"].array();
    if (type == "ExternalName") {
        require(object, "/spec/externalName", "spec.externalName", errors);
    } else if (ports.empty() && spec["clusterIP"].string_or("") != "None") {
        errors.push_back(required_value("spec.ports"));
    }
    for (std::size_t i = 0; i < ports.size(); ++i) {
        const std::string path = item_path("spec.ports", i);
        const std::int64_t number = json::View(ports[i])["port"].int_or(0);
        if (number < 1 || number > 65535) {
            errors.push_back(invalid_value(
                path + ".port", json::Value(number), "must be between 1 and 65535, inclusive"));
        }
        if (ports.size() > 1) {
            require(ports[i], "/name", path + ".name", errors);
        }
    }
}

// Whether every pair of `selector`/matchLabels is in `labels`.
bool selects(const json::Value& selector, const json::Value& labels) {
    for (const json::Member& want : json::View(selector)["matchLabels"].object()) {
        const json::Value* have = labels.find(want.key);
        if (have == nullptr || !(*have == want.value)) {
            return false;
        }
    }
    return true;
}

void validate_workload(const json::Value& object, Errors& errors) {
    if (member_of(object, "/spec/selector").is_null()) {
        errors.push_back(required_value("spec.selector"));
    } else if (const json::Value& labels = member_of(object, "/spec/template/metadata/labels");
               !selects(member_of(object, "/spec/selector"), labels)) {
        errors.push_back(invalid_value("spec.template.metadata.labels",
                                       labels,
                                       "`selector` does not match template `labels`"));
    }
    validate_pod_spec(member_of(object, "/spec/template/spec"), "spec.template.spec", errors);
}

void check_restart_policy(const json::Value& object,
                          const std::vector<std::string>& known,
                          Errors& errors) {
    const json::Value& policy = member_of(object, "/spec/template/spec/restartPolicy");
    if (policy.is_string() &&
        std::find(known.begin(), known.end(), *policy.if_string()) == known.end()) {
        errors.push_back(unsupported_value("spec.template.spec.restartPolicy", policy, known));
    }
}

void validate_stateful_set(const json::Value& object, Errors& errors) {
    require_not_negative(object, "/spec/replicas", "spec.replicas", errors);
    validate_workload(object, errors);
    check_restart_policy(object, {"Always"}, errors);
}

void validate_job(const json::Value& object, Errors& errors) {
    for (const char* field : {"parallelism",
                              "completions",
                              "backoffLimit",
                              "activeDeadlineSeconds",
                              "ttlSecondsAfterFinished"}) {
        require_not_negative(
            object, std::string("/spec/") + field, std::string("spec.") + field, errors);
    }
    if (member_of(object, "/spec/selector").is_null() &&
        member_of(object, "/spec/manualSelector") == json::Value(false)) {
        // Made by generate_job_selector once the object has its uid.
        validate_pod_spec(member_of(object, "/spec/template/spec"), "spec.template.spec", errors);
    } else {
        validate_workload(object, errors);
    }
    check_restart_policy(object, {"OnFailure", "Never"}, errors);
}

void validate_pod(const json::Value& object, Errors& errors) {
    validate_pod_spec(member_of(object, "/spec"), "spec", errors);
}

void validate_claim(const json::Value& object, Errors& errors) {
    if (is_empty(member_of(object, "/spec/accessModes"))) {
        errors.push_back(required_value("spec.accessModes", "at least 1 access mode is required"));
    }
    require(object, "/spec/resources/requests/storage", "spec.resources[storage]", errors);
}

void validate_budget(const json::Value& object, Errors& errors) {
    const json::Value& spec = member_of(object, "/spec");
    if (!json::View(spec)["minAvailable"].present() ||
        !json::View(spec)["maxUnavailable"].present()) {
        return;
    }
    errors.push_back(
        invalid_value("spec", spec, "minAvailable and maxUnavailable cannot be both set"));
}

void require_time(const json::Value& object, const std::string& pointer, Errors& errors) {
    const json::Value& time = member_of(object, pointer);
    const bool good = time.is_string() && parse_rfc3339(*time.if_string()).has_value();
    if (!time.is_null() && !good) {
        errors.push_back(wrong_type_value(
            "spec." + pointer.substr(pointer.rfind('/') + 1), time, "must be a time in RFC 3339"));
    }
}

void validate_lease(const json::Value& object, Errors& errors) {
    require_time(object, "/spec/renewTime", errors);
    require_time(object, "/spec/acquireTime", errors);
    require_not_negative(object, "/spec/leaseTransitions", "spec.leaseTransitions", errors);
    const json::Value& seconds = member_of(object, "/spec/leaseDurationSeconds");
    if (seconds.if_int() != nullptr && *seconds.if_int() <= 0) {
        errors.push_back(
            invalid_value("spec.leaseDurationSeconds", seconds, "must be greater than 0"));
    }
}

void validate_event(const json::Value& object, Errors& errors) {
    const std::string_view about = json::View(object)["involvedObject"]["namespace"].string_or("");
    const std::string_view ns = json::View(object)["metadata"]["namespace"].string_or("");
    if (about != ns && !(about.empty() && ns == "default")) {
        errors.push_back(invalid_value(
            "involvedObject.namespace", json::Value(about), "does not match event.namespace"));
    }
}

void validate_new_event(const json::Value& object, Errors& errors) {
    require(object, "/eventTime", "eventTime", errors);
    if (!errors.empty()) {
        return;
    }
    require(object, "/reportingComponent", "reportingController", errors);
    for (const char* field : {"reportingInstance", "action", "reason"}) {
        require(object, std::string("/") + field, field, errors);
    }
}

void validate_role(const json::Value& object, Errors& errors) {
    const json::Array& rules = json::View(object)["rules"].array();
    for (std::size_t i = 0; i < rules.size(); ++i) {
        const std::string path = item_path("rules", i);
        if (is_empty(member_of(rules[i], "/verbs"))) {
            errors.push_back(
                required_value(path + ".verbs", "verbs must contain at least one value"));
        }
        if (!is_empty(member_of(rules[i], "/nonResourceURLs"))) {
            continue;
        }
        if (is_empty(member_of(rules[i], "/apiGroups"))) {
            errors.push_back(required_value(path + ".apiGroups",
                                            "resource rules must supply at least one api group"));
        }
        if (is_empty(member_of(rules[i], "/resources"))) {
            errors.push_back(required_value(path + ".resources",
                                            "resource rules must supply at least one resource"));
        }
    }
}

void validate_binding(const json::Value& object, Errors& errors) {
    const json::Value& kind = member_of(object, "/roleRef/kind");
    const bool cluster = json::View(object)["kind"].string_or("") == "ClusterRoleBinding";
    const std::string name(kind.is_string() ? *kind.if_string() : "");
    if (name != "ClusterRole" && (cluster || name != "Role")) {
        errors.push_back(unsupported_value("roleRef.kind",
                                           kind,
                                           cluster
                                               ? std::vector<std::string>{"ClusterRole"}
                                               : std::vector<std::string>{"ClusterRole", "Role"}));
    }
    require(object, "/roleRef/name", "roleRef.name", errors);
    const json::Array& subjects = json::View(object)["subjects"].array();
    for (std::size_t i = 0; i < subjects.size(); ++i) {
        const std::string path = item_path("subjects", i);
        require(subjects[i], "/name", path + ".name", errors);
        if (json::View(subjects[i])["kind"].string_or("") == "ServiceAccount") {
            require(subjects[i], "/namespace", path + ".namespace", errors);
        }
    }
}

struct Check {
    std::string_view group;
    std::string_view kind;
    void (*validate)(const json::Value&, Errors&);
};

constexpr std::array<Check, 16> kChecks{{
    {"", "Event", validate_event},
    {"events.k8s.io", "Event", validate_event},
    {"events.k8s.io", "Event", validate_new_event},
    {"", "ConfigMap", validate_config_map},
    {"", "Secret", validate_secret},
    {"", "Service", validate_service},
    {"", "Pod", validate_pod},
    {"", "PersistentVolumeClaim", validate_claim},
    {"apps", "StatefulSet", validate_stateful_set},
    {"batch", "Job", validate_job},
    {"policy", "PodDisruptionBudget", validate_budget},
    {"coordination.k8s.io", "Lease", validate_lease},
    {"rbac.authorization.k8s.io", "Role", validate_role},
    {"rbac.authorization.k8s.io", "ClusterRole", validate_role},
    {"rbac.authorization.k8s.io", "RoleBinding", validate_binding},
    {"rbac.authorization.k8s.io", "ClusterRoleBinding", validate_binding},
}};

void validate_containers(const json::Value& spec,
                         const char* list,
                         const std::string& path,
                         Errors& errors) {
    const json::Array& containers = json::View(spec)[std::string_view(list)].array();
    for (std::size_t i = 0; i < containers.size(); ++i) {
        const std::string at = item_path(path + "." + list, i);
        require(containers[i], "/name", at + ".name", errors);
        require(containers[i], "/image", at + ".image", errors);
        const json::Array& mounts = json::View(containers[i])["volumeMounts"].array();
        for (std::size_t j = 0; j < mounts.size(); ++j) {
            require(
                mounts[j], "/mountPath", item_path(at + ".volumeMounts", j) + ".mountPath", errors);
        }
        for (std::size_t j = 0; j < i; ++j) {
            const json::Value& name = member_of(containers[i], "/name");
            if (name.is_string() && member_of(containers[j], "/name") == name) {
                errors.push_back(duplicate_value(at + ".name", name));
            }
        }
    }
}

}  // namespace

void validate_pod_spec(const json::Value& spec, const std::string& path, Errors& errors) {
    require(spec, "/containers", path + ".containers", errors);
    validate_containers(spec, "initContainers", path, errors);
    validate_containers(spec, "containers", path, errors);
    const json::Array& volumes = json::View(spec)["volumes"].array();
    for (std::size_t i = 0; i < volumes.size(); ++i) {
        require(volumes[i], "/name", item_path(path + ".volumes", i) + ".name", errors);
    }
}

std::vector<FieldError> validate_builtin(const GroupVersionKind& gvk, const json::Value& object) {
    Errors errors;
    for (const Check& known : kChecks) {
        if (known.kind == gvk.kind && known.group == gvk.group) {
            known.validate(object, errors);
        }
    }
    // Lists merged by key must not hold a key twice.
    if (const SchemaNode* schema = builtin_schema(gvk)) {
        validate_lists(*schema, object, "", errors);
    }
    return errors;
}

}  // namespace capstan::local
