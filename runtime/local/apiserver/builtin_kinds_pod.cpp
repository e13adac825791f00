// Defaults of pods and pod templates (pkg/apis/core/v1/defaults.go of Kubernetes).
#include "runtime/local/apiserver/builtin_kinds_internal.hpp"

namespace capstan::local {

namespace {

void default_field_ref(json::Value* holder) {
    if (holder == nullptr) {
        return;
    }
    if (json::Value* reference = holder->find("fieldRef");
        reference != nullptr && reference->is_object()) {
        fill(*reference, "apiVersion", "v1");
    }
}

void default_http_get(json::Value* holder) {
    json::Value* get = holder == nullptr ? nullptr : holder->find("httpGet");
    if (get != nullptr && get->is_object()) {
        fill(*get, "path", "/");
        fill(*get, "scheme", "HTTP");
    }
}

void default_probe(json::Value& container, std::string_view name) {
    json::Value* probe = container.find(name);
    if (probe == nullptr || !probe->is_object()) {
        return;
    }
    fill(*probe, "timeoutSeconds", 1);
    fill(*probe, "periodSeconds", 10);
    fill(*probe, "successThreshold", 1);
    fill(*probe, "failureThreshold", 3);
    default_http_get(probe);
    if (json::Value* grpc = probe->find("grpc"); grpc != nullptr && grpc->is_object()) {
        fill(*grpc, "service", "");
    }
}

// "latest" and untagged images are pulled always; a digest or a tag is not.
const char* pull_policy(std::string_view image) {
    if (image.find('@') != std::string_view::npos) {
        return "IfNotPresent";
    }
    const std::size_t slash = image.rfind('/');
    const std::string_view name = slash == std::string_view::npos ? image : image.substr(slash + 1);
    const std::size_t colon = name.rfind(':');
    return colon == std::string_view::npos || name.substr(colon) == ":latest" ? "Always"
                                                                              : "IfNotPresent";
}

void default_container(json::Value& container, bool host_network) {
    if (!container.is_object()) {
        return;
    }
    fill(container, "imagePullPolicy", pull_policy(json::View(container)["image"].string_or("")));
    fill(container, "terminationMessagePath", "/dev/termination-log");
    fill(container, "terminationMessagePolicy", "File");
    fill(container, "resources", json::object());
    for (const char* probe : {"livenessProbe", "readinessProbe", "startupProbe"}) {
        default_probe(container, probe);
    }
    if (json::Value* lifecycle = container.find("lifecycle")) {
        default_http_get(lifecycle->find("postStart"));
        default_http_get(lifecycle->find("preStop"));
    }
    for_each_item(container, "ports", [host_network](json::Value& port) {
        fill(port, "protocol", "TCP");
        const std::int64_t number = json::View(port)["containerPort"].int_or(0);
        if (host_network && number != 0) {
            fill(port, "hostPort", number);
        }
    });
    for_each_item(
        container, "env", [](json::Value& env) { default_field_ref(env.find("valueFrom")); });
}

void default_projection(json::Value& source) {
    if (json::Value* token = source.find("serviceAccountToken");
        token != nullptr && token->is_object()) {
        fill(*token, "expirationSeconds", 3600);
    }
    if (json::Value* downward = source.find("downwardAPI"); downward != nullptr) {
        for_each_item(*downward, "items", [](json::Value& item) { default_field_ref(&item); });
    }
}

void default_volume(json::Value& volume) {
    if (volume.is_object() && volume.if_object()->size() == 1 && volume.find("name") != nullptr) {
        volume.set("emptyDir", json::object());  // a volume that names no source
    }
    for (const char* source : {"configMap", "secret", "downwardAPI", "projected"}) {
        if (json::Value* found = volume.find(source); found != nullptr && found->is_object()) {
            fill(*found, "defaultMode", 420);  // 0644
        }
    }
    if (json::Value* downward = volume.find("downwardAPI")) {
        for_each_item(*downward, "items", [](json::Value& item) { default_field_ref(&item); });
    }
    if (json::Value* projected = volume.find("projected")) {
        for_each_item(*projected, "sources", default_projection);
    }
    if (json::Value* host_path = volume.find("hostPath");
        host_path != nullptr && host_path->is_object()) {
        fill(*host_path, "type", "");
    }
    if (json::Value* spec = volume.pointer("/ephemeral/volumeClaimTemplate/spec");
        spec != nullptr && spec->is_object()) {
        fill(*spec, "volumeMode", "Filesystem");
    }
}

}  // namespace

void default_pod_spec(json::Value& spec) {
    if (!spec.is_object()) {
        return;
    }
    fill(spec, "restartPolicy", "Always");
    fill(spec, "terminationGracePeriodSeconds", 30);
    fill(spec, "dnsPolicy", "ClusterFirst");
    fill(spec, "securityContext", json::object());
    fill(spec, "schedulerName", "default-scheduler");
    // Two spellings of one field; the old one follows.
    if (const std::string account =
            std::string(json::View(spec)["serviceAccountName"].string_or(""));
        !account.empty()) {
        fill(spec, "serviceAccount", account);
    } else if (const std::string old =
                   std::string(json::View(spec)["serviceAccount"].string_or(""));
               !old.empty()) {
        fill(spec, "serviceAccountName", old);
    }
    const bool host_network = json::View(spec)["hostNetwork"].bool_or(false);
    for (const char* list : {"containers", "initContainers", "ephemeralContainers"}) {
        for_each_item(spec, list, [host_network](json::Value& item) {
            default_container(item, host_network);
        });
    }
    for_each_item(spec, "volumes", default_volume);
}

void default_pod(json::Value& pod) {
    json::Value* spec = pod.find("spec");
    if (spec == nullptr || !spec->is_object()) {
        return;
    }
    default_pod_spec(*spec);
    fill(*spec, "enableServiceLinks", true);
    for (const char* list : {"containers", "initContainers"}) {
        for_each_item(*spec, list, [](json::Value& container) {
            const json::Value* limits = container.pointer("/resources/limits");
            if (limits == nullptr || !limits->is_object()) {
                return;
            }
            const json::Object copy = *limits->if_object();
            json::Value& requests = (*container.find("resources"))["requests"];
            for (const json::Member& limit : copy) {
                // a limit without a request is the request too
                fill(requests, limit.key, limit.value);
            }
        });
    }
}

}  // namespace capstan::local
