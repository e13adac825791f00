// Defaults of everything but pods. Facts: pkg/apis/*/v1/defaults.go of Kubernetes 1.34.
#include "runtime/local/apiserver/builtin_kinds_internal.hpp"

#include <array>

namespace capstan::local {

namespace {

std::string base64_encode(std::string_view bytes) {
    static constexpr char kDigits[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    std::string out;
    out.reserve((bytes.size() + 2) / 3 * 4);
    for (std::size_t i = 0; i < bytes.size(); i += 3) {
        std::uint32_t group = 0;
        for (std::size_t j = 0; j < 3; ++j) {
            group =
                group << 8 | (i + j < bytes.size() ? static_cast<unsigned char>(bytes[i + j]) : 0u);
        }
        for (std::size_t j = 0; j < 4; ++j) {
            out += i + j > bytes.size() ? '=' : kDigits[group >> (18 - 6 * j) & 63u];
        }
    }
    return out;
}

void default_template(json::Value& holder) {
    if (json::Value* spec = holder.pointer("/template/spec")) {
        default_pod_spec(*spec);
    }
}

void default_stateful_set(json::Value& object) {
    json::Value* spec = object.find("spec");
    if (spec == nullptr || !spec->is_object()) {
        return;
    }
    fill(*spec, "replicas", 1);
    fill(*spec, "revisionHistoryLimit", 10);
    fill(*spec, "podManagementPolicy", "OrderedReady");
    fill(*spec, "updateStrategy", json::object());
    json::Value& strategy = *spec->find("updateStrategy");
    if (json::View(strategy)["type"].string_or("").empty()) {
        strategy.set("type", "RollingUpdate");
        fill(strategy, "rollingUpdate", json::object());
    }
    if (json::Value* rolling = strategy.find("rollingUpdate");
        rolling != nullptr && json::View(strategy)["type"].string_or("") == "RollingUpdate") {
        fill(*rolling, "partition", 0);
    }
    fill(*spec, "persistentVolumeClaimRetentionPolicy", json::object());
    json::Value& retention = *spec->find("persistentVolumeClaimRetentionPolicy");
    fill(retention, "whenDeleted", "Retain");
    fill(retention, "whenScaled", "Retain");
    default_template(*spec);
    for_each_item(*spec, "volumeClaimTemplates", [](json::Value& claim) {
        fill(claim, "apiVersion", "v1");
        fill(claim, "kind", "PersistentVolumeClaim");
        fill(claim["spec"], "volumeMode", "Filesystem");
        fill(claim["status"], "phase", "Pending");
    });
}

void default_job_spec(json::Value& spec) {
    if (!spec.is_object()) {
        return;
    }
    const json::View view(spec);
    if (!view["completions"].present() && !view["parallelism"].present()) {
        fill(spec, "completions", 1);
    }
    fill(spec, "parallelism", 1);
    const bool per_index = json::View(spec)["backoffLimitPerIndex"].present();
    fill(spec, "backoffLimit", per_index ? std::int64_t{2147483647} : std::int64_t{6});
    fill(spec, "completionMode", "NonIndexed");
    fill(spec, "suspend", false);
    fill(spec, "manualSelector", false);
    fill(spec,
         "podReplacementPolicy",
         json::View(spec)["podFailurePolicy"].present() ? "Failed" : "TerminatingOrFailed");
    default_template(spec);
}

void default_job(json::Value& object) {
    if (json::Value* spec = object.find("spec")) {
        default_job_spec(*spec);
    }
}

void default_cron_job(json::Value& object) {
    json::Value* spec = object.find("spec");
    if (spec == nullptr || !spec->is_object()) {
        return;
    }
    fill(*spec, "concurrencyPolicy", "Allow");
    fill(*spec, "suspend", false);
    fill(*spec, "successfulJobsHistoryLimit", 3);
    fill(*spec, "failedJobsHistoryLimit", 1);
    if (json::Value* job = spec->pointer("/jobTemplate/spec")) {
        const bool manual = json::View(*job)["manualSelector"].present();
        default_job_spec(*job);
        if (!manual) {
            job->erase("manualSelector");  // only a Job of its own gets it
        }
    }
}

void default_service(json::Value& object) {
    json::Value* spec = object.find("spec");
    if (spec == nullptr || !spec->is_object()) {
        return;
    }
    fill(*spec, "sessionAffinity", "None");
    fill(*spec, "type", "ClusterIP");
    for_each_item(*spec, "ports", [](json::Value& port) {
        fill(port, "protocol", "TCP");
        if (const json::Value* number = port.find("port")) {
            fill(port, "targetPort", *number);
        }
    });
    if (json::View(*spec)["type"].string_or("") == "ExternalName") {
        return;
    }
    fill(*spec, "internalTrafficPolicy", "Cluster");
    fill(*spec, "ipFamilies", json::list({"IPv4"}));
    fill(*spec, "ipFamilyPolicy", "SingleStack");
    if (const std::string address = std::string(json::View(*spec)["clusterIP"].string_or(""));
        !address.empty()) {
        fill(*spec, "clusterIPs", json::list({address}));
    }
}

void default_claim(json::Value& object) {
    if (json::Value* spec = object.find("spec"); spec != nullptr && spec->is_object()) {
        fill(*spec, "volumeMode", "Filesystem");
    }
    fill(object["status"], "phase", "Pending");
}

void default_volume_object(json::Value& object) {
    if (json::Value* spec = object.find("spec"); spec != nullptr && spec->is_object()) {
        fill(*spec, "persistentVolumeReclaimPolicy", "Retain");
        fill(*spec, "volumeMode", "Filesystem");
    }
}

void default_secret(json::Value& object) {
    fill(object, "type", "Opaque");
    const json::Value* text = object.find("stringData");
    if (text == nullptr) {
        return;
    }
    if (text->is_object()) {
        const json::Object members = *text->if_object();
        for (const json::Member& member : members) {
            if (member.value.is_string()) {
                object["data"].set(member.key, base64_encode(*member.value.if_string()));
            }
        }
    }
    object.erase("stringData");
}

void default_namespace(json::Value& object) {
    fill(object["spec"], "finalizers", json::list({"kubernetes"}));
    fill(object["status"], "phase", "Active");
}

void default_config_map(json::Value& object) {
    for (const char* field : {"data", "binaryData"}) {
        if (const json::Value* data = object.find(field);
            data != nullptr && data->is_object() && data->if_object()->empty()) {
            object.erase(field);
        }
    }
}

void default_lease(json::Value& object) {
    fill(object, "spec", json::object());
}

void default_binding(json::Value& object) {
    if (json::Value* role = object.find("roleRef"); role != nullptr && role->is_object()) {
        fill(*role, "apiGroup", "rbac.authorization.k8s.io");
    }
    for_each_item(object, "subjects", [](json::Value& subject) {
        if (json::View(subject)["kind"].string_or("") != "ServiceAccount") {
            fill(subject, "apiGroup", "rbac.authorization.k8s.io");
        }
    });
}

void default_endpoints(json::Value& object) {
    for_each_item(object, "subsets", [](json::Value& subset) {
        for_each_item(subset, "ports", [](json::Value& port) { fill(port, "protocol", "TCP"); });
    });
}

struct Defaults {
    std::string_view group;
    std::string_view kind;
    void (*apply)(json::Value&);
};

constexpr std::array<Defaults, 14> kDefaults{{
    {"", "ConfigMap", default_config_map},
    {"coordination.k8s.io", "Lease", default_lease},
    {"", "Pod", default_pod},
    {"", "Service", default_service},
    {"", "Secret", default_secret},
    {"", "PersistentVolumeClaim", default_claim},
    {"", "PersistentVolume", default_volume_object},
    {"", "Namespace", default_namespace},
    {"", "Endpoints", default_endpoints},
    {"apps", "StatefulSet", default_stateful_set},
    {"batch", "Job", default_job},
    {"batch", "CronJob", default_cron_job},
    {"rbac.authorization.k8s.io", "RoleBinding", default_binding},
    {"rbac.authorization.k8s.io", "ClusterRoleBinding", default_binding},
}};

}  // namespace

void apply_builtin_defaults(const GroupVersionKind& gvk, json::Value& object) {
    for (const Defaults& known : kDefaults) {
        if (known.kind == gvk.kind && known.group == gvk.group && object.is_object()) {
            known.apply(object);
        }
    }
}

void keep_allocated_fields(const GroupVersionKind& gvk,
                           const json::Value& old_object,
                           json::Value& new_object) {
    json::Value* spec =
        gvk.group.empty() && gvk.kind == "Service" ? new_object.find("spec") : nullptr;
    if (spec == nullptr || !spec->is_object() ||
        json::View(*spec)["type"].string_or("") == "ExternalName" ||
        !json::View(*spec)["clusterIP"].string_or("").empty()) {
        return;
    }
    for (const char* field : {"clusterIP", "clusterIPs"}) {
        if (const json::Value* kept = old_object.pointer(std::string("/spec/") + field)) {
            spec->set(field, *kept);
        }
    }
}

void generate_job_selector(json::Value& job) {
    json::Value* spec = job.find("spec");
    if (spec == nullptr || !spec->is_object() ||
        json::View(*spec)["manualSelector"].bool_or(false)) {
        return;
    }
    const std::string uid = std::string(json::View(job)["metadata"]["uid"].string_or(""));
    const std::string name = std::string(json::View(job)["metadata"]["name"].string_or(""));
    json::Value& labels = (*spec)["template"]["metadata"]["labels"];
    for (const char* key : {"batch.kubernetes.io/controller-uid", "controller-uid"}) {
        labels.set(key, uid);
    }
    for (const char* key : {"batch.kubernetes.io/job-name", "job-name"}) {
        labels.set(key, name);
    }
    spec->set("selector", {{"matchLabels", {{"batch.kubernetes.io/controller-uid", uid}}}});
}

}  // namespace capstan::local
