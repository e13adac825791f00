#include "test/sim/etcd_world.hpp"

#include "runtime/config/yaml.hpp"
#include "runtime/local/node/objects.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <set>

// A process that dies in the middle of a story destroys none of its plugins' instances.
extern "C" __attribute__((visibility("default"))) const char* __lsan_default_suppressions();
extern "C" const char* __lsan_default_suppressions() {
    return "leak:capstan::control::Unit::make_instance\n";
}

namespace capstan::test {
namespace {

const std::string kEtcds = "/apis/druid.gardener.cloud/v1alpha1/namespaces/ns/etcds";

struct KindPath {
    const char* kind;
    const char* path;
    bool child;  // of an Etcd, directly
};
constexpr KindPath kKinds[] = {
    {"Etcd", "/apis/druid.gardener.cloud/v1alpha1/namespaces/ns/etcds", false},
    {"EtcdMember", "/apis/druid.gardener.cloud/v1alpha1/namespaces/ns/etcdmembers", true},
    {"StatefulSet", "/apis/apps/v1/namespaces/ns/statefulsets", true},
    {"Pod", "/api/v1/namespaces/ns/pods", false},
    {"ConfigMap", "/api/v1/namespaces/ns/configmaps", true},
    {"Service", "/api/v1/namespaces/ns/services", true},
    {"ServiceAccount", "/api/v1/namespaces/ns/serviceaccounts", true},
    {"PodDisruptionBudget", "/apis/policy/v1/namespaces/ns/poddisruptionbudgets", true},
    {"Role", "/apis/rbac.authorization.k8s.io/v1/namespaces/ns/roles", true},
    {"RoleBinding", "/apis/rbac.authorization.k8s.io/v1/namespaces/ns/rolebindings", true},
    {"Lease", "/apis/coordination.k8s.io/v1/namespaces/ns/leases", true},
};

// Members of objects that differ between two equal worlds.
const std::set<std::string, std::less<>>& passing() {
    static const std::set<std::string, std::less<>> names = {"uid",
                                                             "resourceVersion",
                                                             "creationTimestamp",
                                                             "generation",
                                                             "managedFields",
                                                             "observedGeneration",
                                                             "lastUpdateTime",
                                                             "lastTransitionTime",
                                                             "runID",
                                                             "renewTime",
                                                             "transitionTime",
                                                             "observedAt"};
    return names;
}

json::Value scrub(const json::Value& value) {
    if (const json::Array* items = value.if_array()) {
        json::Value out = json::list();
        for (const json::Value& item : *items) {
            out.push_back(scrub(item));
        }
        return out;
    }
    const json::Object* members = value.if_object();
    if (members == nullptr) {
        return value;
    }
    json::Value out = json::object();
    for (const json::Member& member : *members) {
        if (member.key == "conditions" && member.value.is_array()) {
            json::Value sorted =
                scrub(member.value);  // a map by type: its order says who was first
            std::sort(sorted.if_array()->begin(),
                      sorted.if_array()->end(),
                      [](const json::Value& a, const json::Value& b) {
                          return json::View(a)["type"].string_or("") <
                                 json::View(b)["type"].string_or("");
                      });
            out.set("conditions", std::move(sorted));
        } else if (member.key == "transitions" && !json::View(member.value).array().empty()) {
            out.set("transitions", scrub(json::View(member.value).array().back()));
        } else if (!passing().contains(member.key)) {
            json::Value inside = scrub(member.value);
            const json::Object* object = inside.if_object();
            if (object == nullptr || !object->empty()) {  // no annotations is none at all
                out.set(member.key, std::move(inside));
            }
        }
    }
    return out;
}

std::string name_of(const json::Value& object) {
    return local::key_of(object).name;
}

std::string condition(const json::View& status, std::string_view type) {
    for (const json::Value& one : status["conditions"].array()) {
        if (json::View(one)["type"].string_or("") == type) {
            return std::string(json::View(one)["status"].string_or(""));
        }
    }
    return "none";
}

json::Value spec_of(const Shape& shape) {
    json::Value etcd = {{"quota", std::to_string(shape.quota_gib) + "Gi"},
                        {"resources", nullptr},
                        {"clientUrlTls", nullptr}};
    if (shape.cpu_milli > 0) {
        const std::string cpu = std::to_string(shape.cpu_milli) + "m";
        etcd.set("resources", {{"requests", {{"cpu", cpu}}}});
    }
    if (shape.tls) {
        etcd.set(
            "clientUrlTls",
            {{"tlsCASecretRef", {{"name", "ca"}}}, {"serverTLSSecretRef", {{"name", "server"}}}});
    }
    return {{"replicas", shape.replicas},
            {"labels", {{"app", "sim"}}},
            {"etcd", std::move(etcd)},
            {"backup", json::object()}};
}

// Without the nulls of a merge patch.
json::Value without_nulls(const json::Value& value) {
    const json::Object* members = value.if_object();
    if (members == nullptr) {
        return value;
    }
    json::Value out = json::object();
    for (const json::Member& member : *members) {
        if (!member.value.is_null()) {
            out.set(member.key, without_nulls(member.value));
        }
    }
    return out;
}

std::string crd_directory() {
    if (const char* source = std::getenv("CAPSTAN_SOURCE_DIR")) {
        return std::string(source) + "/chart/crds";
    }
    return "chart/crds";  // run from the source directory
}

void install_crds(World& world) {
    std::size_t installed = 0;
    for (const char* kind : {"etcds", "etcdmembers"}) {
        const std::string file = crd_directory() + "/druid.gardener.cloud_" + kind + ".yaml";
        static std::map<std::string, std::string> texts;  // the YAML is read once per process
        std::string& text = texts[file];
        if (text.empty()) {
            const auto document = config::load_file(file);
            CAPSTAN_CHECK(document.has_value(), document.error().message);
            text = json::dump(document.value().value);
        }
        const auto made =
            world.api.ask("POST", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", text);
        CAPSTAN_CHECK(made.status == 201, made.body);
        ++installed;
    }
    CAPSTAN_CHECK(installed == 2, crd_directory());
    world.run_for(std::chrono::seconds(1));
}

}  // namespace

void WriteAudit::note(const SeenWrite& write) {
    ++sent;
    effective += write.changed ? 1 : 0;
    const bool event = write.target.find("/events") != std::string::npos;
    if (write.status == 201 && !event) {
        std::string path = write.target.substr(0, write.target.find('?'));
        if (write.method == "POST") {
            path += "/" + name_of(json::parse(write.answer).value());
        }
        ++created[path];
    }
    const std::string path = write.target.substr(0, write.target.find('?'));
    if (path.find("/etcds/") != std::string::npos && path.ends_with("/status")) {
        note_status(path, write.answer);
    }
}

void WriteAudit::note_status(const std::string& target, const std::string& answer) {
    const json::Value parsed = json::parse(answer).value();
    const json::View status = json::View(parsed)["status"];
    const json::View operation = status["lastOperation"];
    if (operation["state"].string_or("") == "Error") {
        errors.emplace_back(operation["description"].string_or(""));
    }
    std::string look = std::string(operation["state"].string_or("")) + "|" +
                       std::string(operation["description"].string_or("")) + "|" +
                       std::to_string(status["observedGeneration"].int_or(0));
    std::vector<std::string>& trail = trail_[target];
    if (trail.empty() || trail.back() != look) {
        if (std::find(trail.begin(), trail.end(), look) != trail.end()) {
            came_back.push_back(target + ": " + look + " after " + trail.back());
        }
        trail.push_back(std::move(look));
    }
}

EtcdWorld::EtcdWorld(WorldOptions options) : world(options) {
    install_crds(world);
    world.faults = [this](const net::HttpRequest& request) {
        Fault fault;
        fault.lose_response = request.method != "GET" && crash_is_due();
        return fault;
    };
    world.api.on_write = [this](const SeenWrite& write) { audit.note(write); };
    world.add(RealPlugin{"etcd", json::object(), {{"EtcdMember", true}}});
    world.add(RealPlugin{"custodian", json::object(), {}});
    cluster.emplace(world, options.seed * 104729 + 1);
    world.boot();
}

EtcdWorld::~EtcdWorld() {
    if (world.runtime != nullptr) {
        world.shut_down();
    }
}

void EtcdWorld::put(const std::string& name, const Shape& shape) {
    audit.person_acted();
    json::Value spec = without_nulls(spec_of(shape));
    if (!shape.prefix.empty()) {
        spec.set("memberNamePrefix", shape.prefix);
    }
    const json::Value object = {{"apiVersion", "druid.gardener.cloud/v1alpha1"},
                                {"kind", "Etcd"},
                                {"metadata", {{"name", name}, {"namespace", "ns"}}},
                                {"spec", spec}};
    auto answer = world.api.ask("POST", kEtcds, json::dump(object));
    if (answer.status == 409) {
        const json::Value patch = {{"spec", spec_of(shape)}};
        answer = world.api.ask(
            "PATCH", kEtcds + "/" + name, json::dump(patch), "application/merge-patch+json");
    }
    CAPSTAN_CHECK(answer.status < 300, answer.body);
}

void EtcdWorld::remove(const std::string& name) {
    audit.person_acted();
    world.api.ask("DELETE", kEtcds + "/" + name);
}

void EtcdWorld::annotate(const std::string& name,
                         const std::string& key,
                         const char* value_or_null) {
    audit.person_acted();
    const json::Value value = value_or_null == nullptr ? json::Value() : json::Value(value_or_null);
    const json::Value patch = {{"metadata", {{"annotations", {{key, value}}}}}};
    world.api.ask("PATCH", kEtcds + "/" + name, json::dump(patch), "application/merge-patch+json");
}

bool EtcdWorld::exists(const std::string& name) {
    return !world.api.server().read("druid.gardener.cloud/etcds", "ns", name).empty();
}

std::vector<std::string> EtcdWorld::child_paths() {
    std::vector<std::string> out;
    for (const KindPath& kind : kKinds) {
        for (const json::Value& object : kind.child ? world.list(kind.path) : json::Array()) {
            out.push_back(kind.path + ("/" + name_of(object)));
        }
    }
    return out;
}

bool EtcdWorld::rest(std::chrono::nanoseconds quiet, std::chrono::nanoseconds limit) {
    const MonotonicTime end = world.loop.now() + limit;
    while (world.loop.now() < end) {
        const std::uint64_t before = world.writes();
        const auto disturbance = [&] { return world.writes() != before || !cluster->at_rest(); };
        const bool disturbed = world.baton.run_until(disturbance, world.loop.now() + quiet);
        if (!disturbed && world.baton.run_until([&] { return world.runtime->idle(); }, end)) {
            return true;
        }
        if (world.baton.run_until([&] { return crash_is_due(); },
                                  world.loop.now() + std::chrono::seconds(1))) {
            crash_at_write.reset();
            world.crash();
            world.boot();
        }
    }
    return false;
}

std::map<std::string, std::string> EtcdWorld::state() {
    std::map<std::string, std::string> out;
    for (const KindPath& kind : kKinds) {
        for (const json::Value& object : world.list(kind.path)) {
            out[std::string(kind.kind) + " " + name_of(object)] = json::dump_sorted(scrub(object));
        }
    }
    return out;
}

std::string EtcdWorld::etcd_problems(const json::Value& etcd,
                                     const std::map<std::string, std::string>& state) {
    const json::View view(etcd);
    const json::View status = view["status"];
    const std::string name = name_of(etcd);
    std::string out;
    const auto expect = [&](bool holds, const std::string& what) {
        out += holds ? "" : name + ": " + what + "\n";
    };
    if (local::is_deleting(etcd)) {
        return name + ": is still being deleted\n";
    }
    if (view["spec"]["etcd"]["clientUrlTls"].present()) {
        expect(condition(status, "SpecSupported") == "False", "TLS is not refused");
        return out;
    }
    const auto replicas = view["spec"]["replicas"].int_or(0);
    expect(status["observedGeneration"].int_or(0) == view["metadata"]["generation"].int_or(-1),
           "observedGeneration " + std::to_string(status["observedGeneration"].int_or(0)));
    expect(status["lastOperation"]["state"].string_or("") == "Succeeded",
           "lastOperation " + std::string(status["lastOperation"]["state"].string_or("")));
    expect(!status["lastErrors"].present() || status["lastErrors"].array().empty(), "lastErrors");
    expect(status["readyReplicas"].int_or(0) == replicas, "readyReplicas");
    expect(status["members"].array().size() == static_cast<std::size_t>(replicas), "members");
    expect(replicas == 0 || condition(status, "Ready") == "True", "condition Ready");
    expect(replicas == 0 || condition(status, "AllMembersReady") == "True", "AllMembersReady");
    expect(status["memberRefs"].array().size() == static_cast<std::size_t>(replicas), "memberRefs");
    for (const std::string& child : {"ConfigMap " + name + "-config",
                                     "StatefulSet " + name,
                                     "Service " + name + "-client",
                                     "Service " + name + "-peer",
                                     "ServiceAccount " + name,
                                     "PodDisruptionBudget " + name,
                                     "Role druid.gardener.cloud:etcd:" + name,
                                     "RoleBinding druid.gardener.cloud:etcd:" + name}) {
        expect(state.contains(child), "no " + child);
    }
    const std::string prefix(view["spec"]["memberNamePrefix"].string_or(""));
    for (int i = 0; i < replicas; ++i) {
        const std::string pod = name + "-" + std::to_string(i);
        const std::string member = prefix.empty() ? pod : prefix + "-" + pod;
        expect(state.contains("EtcdMember " + member), "no EtcdMember " + member);
        expect(state.contains("Lease " + member), "no Lease " + member);
        expect(state.contains("Pod " + pod), "no Pod " + pod);
    }
    return out;
}

std::string EtcdWorld::problems() {
    std::string out;
    const auto now = state();
    std::set<std::string> uids;
    for (const json::Value& etcd : world.list(kEtcds)) {
        uids.insert(local::uid_of(etcd));
        out += etcd_problems(etcd, now);
    }
    for (const KindPath& kind : kKinds) {
        for (const json::Value& object : world.list(kind.path)) {
            if (kind.child && !uids.contains(local::controller_uid(object))) {
                out += std::string(kind.kind) + " " + name_of(object) + ": has no Etcd\n";
            }
        }
    }
    for (const auto& [key, text] : now) {
        const bool set_is_gone = key.starts_with("Pod ") &&
                                 !now.contains("StatefulSet " + key.substr(4, key.rfind('-') - 4));
        out += set_is_gone ? key + ": has no StatefulSet\n" : "";
    }
    out += world.overlaps != 0 ? "a key was in two workers at once\n" : "";
    out += world.backwards != 0 ? "a store went backwards\n" : "";
    return out;
}

std::pair<std::uint64_t, std::uint64_t> EtcdWorld::writes_at_rest() {
    world.shut_down();
    world.set_resync(std::chrono::minutes(1));
    const std::uint64_t effective = audit.effective;
    world.boot();
    rest();
    const std::uint64_t sent = audit.sent;
    const std::uint64_t reconciles = world.reconciles;
    world.run_for(std::chrono::minutes(3));
    CAPSTAN_CHECK(world.list(kEtcds).empty() || world.reconciles > reconciles, "no resync");
    world.set_resync(std::nullopt);
    return {audit.effective - effective, audit.sent - sent};
}

std::string difference(const std::map<std::string, std::string>& a,
                       const std::map<std::string, std::string>& b) {
    std::string out;
    for (const auto& [key, text] : a) {
        const auto other = b.find(key);
        if (other == b.end()) {
            out += "- " + key + "\n";
        } else if (other->second != text) {
            constexpr std::ptrdiff_t kBefore = 80;  // bytes shown around the first difference
            const auto [at, ignored] =
                std::mismatch(text.begin(), text.end(), other->second.begin(), other->second.end());
            const auto from =
                static_cast<std::size_t>(std::max<std::ptrdiff_t>(0, at - text.begin() - kBefore));
            out += "- " + key + " " + text.substr(from, 3 * kBefore) + "\n+ " + key + " " +
                   other->second.substr(from, 3 * kBefore) + "\n";
        }
    }
    for (const auto& [key, text] : b) {
        out += a.contains(key) ? "" : "+ " + key + "\n";
    }
    return out;
}

}  // namespace capstan::test
