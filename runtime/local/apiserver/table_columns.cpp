// What `kubectl get` shows of builtin kinds (pkg/printers/internalversion of Kubernetes).
#include "runtime/local/apiserver/table_columns.hpp"

#include <algorithm>
#include <iterator>
#include <map>

namespace capstan::local {

namespace {

using View = json::View;

std::string text_or(const View& view, std::string_view fallback) {
    const std::string_view text = view.string_or("");
    return std::string(text.empty() ? fallback : text);
}

// An int-or-string, or the fallback.
std::string scalar_or(const View& view, std::string_view fallback) {
    if (auto number = view.as_int()) {
        return std::to_string(number.value());
    }
    return text_or(view, fallback);
}

std::string join_members(const json::Array& list, std::string_view member) {
    std::string out;
    for (const json::Value& item : list) {
        out += out.empty() ? "" : ",";
        out += member.empty() ? View(item).string_or("") : View(item)[member].string_or("");
    }
    return out;
}

std::string label_text(const View& labels) {
    std::string out;
    for (const json::Member& member : labels.object()) {
        out += (out.empty() ? "" : ",") + member.key + "=" +
               std::string(View(member.value).string_or(""));
    }
    return out.empty() ? "<none>" : out;
}

json::Value name(const View& o, WallTime) {
    return o["metadata"]["name"].string_or("");
}
json::Value age(const View& o, WallTime now) {
    return since(o["metadata"]["creationTimestamp"].string_or(""), now);
}
json::Value created(const View& o, WallTime) {
    return o["metadata"]["creationTimestamp"].string_or("");
}
json::Value data(const View& o, WallTime) {
    return o["data"].object().size() + o["binaryData"].object().size();
}
json::Value type(const View& o, WallTime) {
    return o["type"].string_or("");
}
json::Value phase(const View& o, WallTime) {
    return o["status"]["phase"].string_or("");
}
json::Value secrets(const View& o, WallTime) {
    return o["secrets"].array().size();
}

json::Value pod_ip(const View& o, WallTime) {
    return text_or(o["status"]["podIP"], "<none>");
}
json::Value pod_node(const View& o, WallTime) {
    return text_or(o["spec"]["nodeName"], "<none>");
}
json::Value none(const View&, WallTime) {
    return "<none>";
}

json::Value containers(const View& o, WallTime) {
    return join_members(o["spec"]["template"]["spec"]["containers"].array(), "name");
}
json::Value images(const View& o, WallTime) {
    return join_members(o["spec"]["template"]["spec"]["containers"].array(), "image");
}
json::Value set_ready(const View& o, WallTime) {
    return std::to_string(o["status"]["readyReplicas"].int_or(0)) + "/" +
           std::to_string(o["spec"]["replicas"].int_or(0));
}

json::Value service_type(const View& o, WallTime) {
    return o["spec"]["type"].string_or("");
}
json::Value cluster_ip(const View& o, WallTime) {
    return text_or(o["spec"]["clusterIP"], "<none>");
}
json::Value external_ip(const View& o, WallTime) {
    if (o["spec"]["type"].string_or("") == "ExternalName") {
        return o["spec"]["externalName"].string_or("");
    }
    const std::string addresses = join_members(o["spec"]["externalIPs"].array(), "");
    return addresses.empty() ? "<none>" : addresses;
}
json::Value service_ports(const View& o, WallTime) {
    std::string out;
    for (const json::Value& port : o["spec"]["ports"].array()) {
        out += out.empty() ? "" : ",";
        out += std::to_string(View(port)["port"].int_or(0));
        if (const std::int64_t node_port = View(port)["nodePort"].int_or(0); node_port != 0) {
            out += ":" + std::to_string(node_port);
        }
        out += "/" + text_or(View(port)["protocol"], "TCP");
    }
    return out.empty() ? "<none>" : out;
}
json::Value service_selector(const View& o, WallTime) {
    return label_text(o["spec"]["selector"]);
}

json::Value job_condition(const View& o, WallTime) {
    if (o["metadata"]["deletionTimestamp"].present()) {
        return "Terminating";
    }
    if (o["spec"]["suspend"].bool_or(false)) {
        return "Suspended";
    }
    for (const json::Value& condition : o["status"]["conditions"].array()) {
        const std::string_view kind = View(condition)["type"].string_or("");
        if (View(condition)["status"].string_or("") == "True" &&
            (kind == "Complete" || kind == "Failed")) {
            return kind;
        }
    }
    return "Running";
}
json::Value job_completions(const View& o, WallTime) {
    const std::string done = std::to_string(o["status"]["succeeded"].int_or(0));
    if (o["spec"]["completions"].present()) {
        return done + "/" + std::to_string(o["spec"]["completions"].int_or(0));
    }
    const std::int64_t parallel = o["spec"]["parallelism"].int_or(1);
    return done + "/1" + (parallel > 1 ? " of " + std::to_string(parallel) : "");
}
json::Value job_duration(const View& o, WallTime now) {
    const std::string_view started = o["status"]["startTime"].string_or("");
    const auto ended = parse_rfc3339(o["status"]["completionTime"].string_or(""));
    return started.empty() ? "" : since(started, ended.value_or(now));
}
json::Value cron_schedule(const View& o, WallTime) {
    return o["spec"]["schedule"].string_or("");
}
json::Value cron_zone(const View& o, WallTime) {
    return text_or(o["spec"]["timeZone"], "<none>");
}
json::Value cron_suspend(const View& o, WallTime) {
    return o["spec"]["suspend"].bool_or(false) ? "True" : "False";
}
json::Value cron_active(const View& o, WallTime) {
    return o["status"]["active"].array().size();
}
json::Value cron_last(const View& o, WallTime now) {
    const std::string_view last = o["status"]["lastScheduleTime"].string_or("");
    return last.empty() ? "<none>" : since(last, now);
}

json::Value budget_min(const View& o, WallTime) {
    return scalar_or(o["spec"]["minAvailable"], "N/A");
}
json::Value budget_max(const View& o, WallTime) {
    return scalar_or(o["spec"]["maxUnavailable"], "N/A");
}
json::Value budget_allowed(const View& o, WallTime) {
    return o["status"]["disruptionsAllowed"].int_or(0);
}
json::Value holder(const View& o, WallTime) {
    return o["spec"]["holderIdentity"].string_or("");
}

// Both spellings of events: v1 (lastTimestamp, involvedObject, message, count) and events.k8s.io
// (series, regarding, note).
json::Value event_last(const View& o, WallTime now) {
    for (const View& when : {o["series"]["lastObservedTime"],
                             o["lastTimestamp"],
                             o["deprecatedLastTimestamp"],
                             o["eventTime"],
                             o["metadata"]["creationTimestamp"]}) {
        if (const std::string_view text = when.string_or(""); !text.empty()) {
            return since(text, now);
        }
    }
    return "<unknown>";
}
json::Value event_reason(const View& o, WallTime) {
    return o["reason"].string_or("");
}
json::Value event_object(const View& o, WallTime) {
    const View target = o["involvedObject"].present() ? o["involvedObject"] : o["regarding"];
    std::string kind(target["kind"].string_or(""));
    for (char& c : kind) {
        c = c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c;
    }
    return kind + "/" + std::string(target["name"].string_or(""));
}
json::Value event_message(const View& o, WallTime) {
    return o["message"].string_or(o["note"].string_or(""));
}
json::Value event_source(const View& o, WallTime) {
    return o["source"]["component"].string_or(
        o["reportingComponent"].string_or(o["reportingController"].string_or("")));
}
json::Value event_count(const View& o, WallTime) {
    return o["series"]["count"].int_or(o["count"].int_or(o["deprecatedCount"].int_or(1)));
}

json::Value role_ref(const View& o, WallTime) {
    return text_or(o["roleRef"]["kind"], "") + "/" + text_or(o["roleRef"]["name"], "");
}
json::Value volume(const View& o, WallTime) {
    return o["spec"]["volumeName"].string_or("");
}
json::Value claim_capacity(const View& o, WallTime) {
    return o["status"]["capacity"]["storage"].string_or("");
}
json::Value volume_capacity(const View& o, WallTime) {
    return o["spec"]["capacity"]["storage"].string_or("");
}
json::Value storage_class(const View& o, WallTime) {
    return o["spec"]["storageClassName"].string_or("");
}
json::Value reclaim(const View& o, WallTime) {
    return o["spec"]["persistentVolumeReclaimPolicy"].string_or("");
}
json::Value claim_of(const View& o, WallTime) {
    const View claim = o["spec"]["claimRef"];
    return claim.present() ? text_or(claim["namespace"], "") + "/" + text_or(claim["name"], "")
                           : std::string();
}
json::Value access_modes(const View& o, WallTime) {
    static const std::map<std::string_view, std::string_view> kShort{
        {"ReadWriteOnce", "RWO"},
        {"ReadOnlyMany", "ROX"},
        {"ReadWriteMany", "RWX"},
        {"ReadWriteOncePod", "RWOP"},
    };
    std::string out;
    for (const json::Value& mode : o["spec"]["accessModes"].array()) {
        const auto found = kShort.find(View(mode).string_or(""));
        out += out.empty() ? "" : ",";
        out += found == kShort.end() ? "" : found->second;
    }
    return out;
}

json::Value node_status(const View& o, WallTime) {
    for (const json::Value& condition : o["status"]["conditions"].array()) {
        if (View(condition)["type"].string_or("") == "Ready") {
            return View(condition)["status"].string_or("") == "True" ? "Ready" : "NotReady";
        }
    }
    return "Unknown";
}
json::Value node_version(const View& o, WallTime) {
    return o["status"]["nodeInfo"]["kubeletVersion"].string_or("");
}
json::Value revision(const View& o, WallTime) {
    return o["revision"].int_or(0);
}
json::Value controller(const View& o, WallTime) {
    for (const json::Value& owner : o["metadata"]["ownerReferences"].array()) {
        if (View(owner)["controller"].bool_or(false)) {
            return std::string(View(owner)["kind"].string_or("")) + "/" +
                   std::string(View(owner)["name"].string_or(""));
        }
    }
    return "<none>";
}
json::Value endpoint_addresses(const View& o, WallTime) {
    std::string out;
    for (const json::Value& subset : o["subsets"].array()) {
        for (const json::Value& port : View(subset)["ports"].array()) {
            for (const json::Value& address : View(subset)["addresses"].array()) {
                out += out.empty() ? "" : ",";
                out += std::string(View(address)["ip"].string_or("")) + ":" +
                       std::to_string(View(port)["port"].int_or(0));
            }
        }
    }
    return out.empty() ? "<none>" : out;
}

constexpr Column kName{"Name", "string", 0, name};
constexpr Column kAge{"Age", "string", 0, age};
constexpr Column kCreated{"Created At", "date", 0, created};

// clang-format off
constexpr Column kConfigMap[] = {kName, {"Data", "string", 0, data}, kAge};
constexpr Column kControllerRevision[] = {
    kName, {"Controller", "string", 0, controller}, {"Revision", "string", 0, revision}, kAge};
constexpr Column kCronJob[] = {
    kName, {"Schedule", "string", 0, cron_schedule}, {"Timezone", "string", 0, cron_zone},
    {"Suspend", "string", 0, cron_suspend}, {"Active", "integer", 0, cron_active},
    {"Last Schedule", "string", 0, cron_last}, kAge};
constexpr Column kDefinition[] = {kName, kCreated};
constexpr Column kEndpoints[] = {kName, {"Endpoints", "string", 0, endpoint_addresses}, kAge};
constexpr Column kEvent[] = {
    {"Last Seen", "string", 0, event_last}, {"Type", "string", 0, type},
    {"Reason", "string", 0, event_reason}, {"Object", "string", 0, event_object},
    {"Message", "string", 0, event_message}, {"Source", "string", 1, event_source},
    {"Count", "string", 1, event_count}, {"Name", "string", 1, name}};
constexpr Column kJob[] = {
    kName, {"Status", "string", 0, job_condition}, {"Completions", "string", 0, job_completions},
    {"Duration", "string", 0, job_duration}, kAge, {"Containers", "string", 1, containers},
    {"Images", "string", 1, images}};
constexpr Column kLease[] = {kName, {"Holder", "string", 0, holder}, kAge};
constexpr Column kNamespace[] = {kName, {"Status", "string", 0, phase}, kAge};
constexpr Column kNode[] = {
    kName, {"Status", "string", 0, node_status}, {"Roles", "string", 0, none}, kAge,
    {"Version", "string", 0, node_version}};
constexpr Column kPod[] = {
    kName, {"Ready", "string", 0, pod_ready}, {"Status", "string", 0, pod_status},
    {"Restarts", "string", 0, pod_restarts}, kAge, {"IP", "string", 1, pod_ip},
    {"Node", "string", 1, pod_node}, {"Nominated Node", "string", 1, none},
    {"Readiness Gates", "string", 1, none}};
constexpr Column kPodDisruptionBudget[] = {
    kName, {"Min Available", "string", 0, budget_min}, {"Max Unavailable", "string", 0, budget_max},
    {"Allowed Disruptions", "integer", 0, budget_allowed}, kAge};
constexpr Column kRole[] = {kName, kCreated};
constexpr Column kRoleBinding[] = {kName, {"Role", "string", 0, role_ref}, kAge};
constexpr Column kSecret[] = {
    kName, {"Type", "string", 0, type}, {"Data", "string", 0, data}, kAge};
constexpr Column kService[] = {
    kName, {"Type", "string", 0, service_type}, {"Cluster-IP", "string", 0, cluster_ip},
    {"External-IP", "string", 0, external_ip}, {"Port(s)", "string", 0, service_ports}, kAge,
    {"Selector", "string", 1, service_selector}};
constexpr Column kServiceAccount[] = {kName, {"Secrets", "string", 0, secrets}, kAge};
constexpr Column kStatefulSet[] = {
    kName, {"Ready", "string", 0, set_ready}, kAge, {"Containers", "string", 1, containers},
    {"Images", "string", 1, images}};
constexpr Column kVolume[] = {
    kName, {"Capacity", "string", 0, volume_capacity}, {"Access Modes", "string", 0, access_modes},
    {"Reclaim Policy", "string", 0, reclaim}, {"Status", "string", 0, phase},
    {"Claim", "string", 0, claim_of}, {"StorageClass", "string", 0, storage_class}, kAge};
constexpr Column kVolumeClaim[] = {
    kName, {"Status", "string", 0, phase}, {"Volume", "string", 0, volume},
    {"Capacity", "string", 0, claim_capacity}, {"Access Modes", "string", 0, access_modes},
    {"StorageClass", "string", 0, storage_class}, kAge};

struct Table {
    std::string_view group_kind;
    std::span<const Column> columns;
};

constexpr Table kTables[] = {
    {"ConfigMap", kConfigMap},
    {"Endpoints", kEndpoints},
    {"Event", kEvent},
    {"Namespace", kNamespace},
    {"Node", kNode},
    {"PersistentVolume", kVolume},
    {"PersistentVolumeClaim", kVolumeClaim},
    {"Pod", kPod},
    {"Secret", kSecret},
    {"Service", kService},
    {"ServiceAccount", kServiceAccount},
    {"apiextensions.k8s.io/CustomResourceDefinition", kDefinition},
    {"apps/ControllerRevision", kControllerRevision},
    {"apps/StatefulSet", kStatefulSet},
    {"batch/CronJob", kCronJob},
    {"batch/Job", kJob},
    {"coordination.k8s.io/Lease", kLease},
    {"events.k8s.io/Event", kEvent},
    {"policy/PodDisruptionBudget", kPodDisruptionBudget},
    {"rbac.authorization.k8s.io/ClusterRole", kRole},
    {"rbac.authorization.k8s.io/ClusterRoleBinding", kRoleBinding},
    {"rbac.authorization.k8s.io/Role", kRole},
    {"rbac.authorization.k8s.io/RoleBinding", kRoleBinding},
};
// clang-format on

}  // namespace

std::span<const Column> builtin_columns(const GroupVersionKind& gvk) {
    const std::string wanted = gvk.group_kind();
    const auto found = std::find_if(std::begin(kTables),
                                    std::end(kTables),
                                    [&](const Table& table) { return table.group_kind == wanted; });
    return found == std::end(kTables) ? std::span<const Column>() : found->columns;
}

}  // namespace capstan::local
