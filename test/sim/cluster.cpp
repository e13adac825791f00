#include "test/sim/cluster.hpp"

#include "runtime/local/node/objects.hpp"
#include "runtime/local/node/stateful_set.hpp"

#include "capstan/clock.hpp"

#include <algorithm>

namespace capstan::test {
namespace {

using namespace std::chrono_literals;

const std::string kPods = "/api/v1/namespaces/ns/pods";
const std::string kSets = "/apis/apps/v1/namespaces/ns/statefulsets";
const std::string kMembers = "/apis/druid.gardener.cloud/v1alpha1/namespaces/ns/etcdmembers";
const std::string kLeases = "/apis/coordination.k8s.io/v1/namespaces/ns/leases";
constexpr std::string_view kHash = "druid.gardener.cloud/config-hash";
constexpr std::string_view kLearner = "druid.gardener.cloud/create-as-learner";
constexpr std::size_t kTransitionsMax = 10;

std::string hex_of(std::string_view text) {
    char buffer[20];
    std::snprintf(buffer, sizeof buffer, "%016zx", std::hash<std::string_view>{}(text));
    return buffer;
}

}  // namespace

Cluster::Cluster(World& world, std::uint64_t seed)
    : world_(world),
      random_(seed),
      sets_(world.loop, world.api, kSets),
      pods_(world.loop, world.api, kPods),
      members_(world.loop, world.api, kMembers),
      config_maps_(world.loop, world.api, "/api/v1/namespaces/ns/configmaps") {
    tick();
}

MonotonicTime Cluster::soon(int ms_max) {
    return world_.loop.now() +
           std::chrono::milliseconds(1 + random_() % static_cast<unsigned>(ms_max));
}

void Cluster::patch(const std::string& path, json::Value body) {
    world_.api.ask("PATCH", path, json::dump(body), "application/merge-patch+json");
    busy_ = true;
}

void Cluster::tick() {
    timer_ = world_.loop.at(soon(800), [this] { tick(); });
    busy_ = false;
    if (unrest_) {
        disturb();
    }
    const std::uint64_t now = changes();
    // Copies: what is written changes the mirrors.
    if (now != seen_ || !at_rest_) {
        for (const auto& [key, set] : Mirror::Objects(sets_.all())) {
            sync_set(*set);
        }
        for (const auto& [key, pod] : Mirror::Objects(pods_.all())) {
            sync_pod(*pod);
        }
    }
    for (const auto& [key, member] : Mirror::Objects(members_.all())) {
        sync_steward(*member);
    }
    at_rest_ = !busy_;
    seen_ = now;
}

std::uint64_t Cluster::changes() const {
    return sets_.changes() + pods_.changes() + members_.changes() + config_maps_.changes();
}

// The hash that the ConfigMap gives for a member: what its steward could run now.
std::string Cluster::offered_hash(const std::string& etcd, const std::string& member) {
    const json::Value* config_map = config_maps_.find({"ns", etcd + "-config"});
    if (config_map == nullptr) {
        return "";
    }
    const json::View view(*config_map);
    json::Value& offer =
        offers_[etcd + " " + std::string(view["metadata"]["resourceVersion"].string_or(""))];
    if (offer.is_null()) {
        auto parsed = json::parse(view["data"]["steward.yaml"].string_or(""));
        offer = parsed ? std::move(parsed).value() : json::object();
    }
    return std::string(json::View(offer)["members"][member]["configHash"].string_or(""));
}

void Cluster::sync_set(const json::Value& set) {
    const auto plan = local::plan_stateful_set(set, pods_.controlled_by(local::uid_of(set)));
    const std::string name = local::key_of(set).name;
    const json::Value* old = set.find("status");
    if (auto status =
            local::merge_patch_between(old == nullptr ? json::object() : *old, plan.status)) {
        patch(kSets + "/" + name + "/status",
              {{"metadata", {{"uid", local::uid_of(set)}}}, {"status", std::move(*status)}});
    }
    for (json::Value pod : plan.pods) {
        pod["spec"].set("nodeName", "sim");
        world_.api.ask("POST", kPods, json::dump(pod));
        busy_ = true;
    }
    for (const auto& removal : plan.removals) {
        world_.api.ask("DELETE", kPods + "/" + removal.name);
        busy_ = true;
    }
}

void Cluster::sync_pod(const json::Value& pod) {
    Pod& state = pod_states_[local::uid_of(pod)];
    const std::string path = kPods + "/" + local::key_of(pod).name;
    if (local::is_deleting(pod)) {
        busy_ = true;
        if (state.gone_at == kNever) {
            state.gone_at = soon(2500);
        } else if (world_.loop.now() >= state.gone_at) {
            world_.api.ask("DELETE", path + "?gracePeriodSeconds=0");
            pod_states_.erase(local::uid_of(pod));
        }
        return;
    }
    if (local::is_pod_ready(pod)) {
        return;
    }
    busy_ = true;
    if (state.ready_at == kNever) {
        state.ready_at = soon(4000);
    } else if (world_.loop.now() >= state.ready_at) {
        const json::Value conditions =
            json::list({{{"type", "Ready"}, {"status", "True"}},
                        {{"type", "ContainersReady"}, {"status", "True"}}});
        patch(path + "/status", {{"status", {{"phase", "Running"}, {"conditions", conditions}}}});
    }
}

// A pod is killed, or a steward is silent for longer than a lease is good for.
void Cluster::disturb() {
    if (!pods_.all().empty() && random_() % 60 == 0) {
        auto victim = pods_.all().begin();
        std::advance(victim, static_cast<std::ptrdiff_t>(random_() % pods_.all().size()));
        world_.api.ask("DELETE", kPods + "/" + victim->first.name + "?gracePeriodSeconds=0");
    }
    if (!steward_states_.empty() && random_() % 120 == 0) {
        auto victim = steward_states_.begin();
        std::advance(victim, static_cast<std::ptrdiff_t>(random_() % steward_states_.size()));
        victim->second.stalled_until = world_.loop.now() + 90s;
    }
}

bool Cluster::leads(const std::string& etcd, int ordinal) const {
    for (const auto& [key, pod] : pods_.all()) {
        const auto other = local::ordinal_of(etcd, key.name);
        if (other && *other < ordinal && local::is_pod_ready(*pod)) {
            return false;
        }
    }
    return true;
}

void Cluster::sync_steward(const json::Value& member) {
    const std::string name = local::key_of(member).name;
    const std::string labelled(local::label_of(member, "druid.gardener.cloud/pod-name"));
    const std::string pod_name = labelled.empty() ? name : labelled;
    const std::string etcd(local::label_of(member, "gardener.cloud/owned-by"));
    const json::Value* pod = pods_.find({"ns", pod_name});
    const auto ordinal = local::ordinal_of(etcd, pod_name);
    if (pod == nullptr || !ordinal || !local::is_pod_ready(*pod) || local::is_deleting(member)) {
        return;
    }
    Steward& steward = steward_states_[name];
    if (unrest_ && world_.loop.now() < steward.stalled_until) {
        return;
    }
    const Facts facts{etcd, name, local::uid_of(*pod), leads(etcd, *ordinal)};
    json::Value body = next_step(member, facts);
    if (!body.is_null()) {
        busy_ = true;
        if (steward.next_step.count() == 0) {
            steward.next_step = soon(2000);
        } else if (world_.loop.now() >= steward.next_step) {
            const bool status = body.find("status") != nullptr;
            body["metadata"].set("uid", local::uid_of(member));
            patch(kMembers + "/" + name + (status ? "/status" : ""), std::move(body));
            steward.pod_uid = facts.pod_uid;
            steward.next_step = MonotonicTime{0};
        }
    }
    renew(name, steward, facts);
}

json::Value Cluster::next_step(const json::Value& member, const Facts& facts) {
    const json::View view(member);
    const json::View annotations = view["metadata"]["annotations"];
    const json::View status = view["status"];
    const json::Array& old = status["transitions"].array();
    const bool learner = annotations[kLearner].present();
    const std::string told(annotations[kHash].string_or(""));
    const std::string runs(status["configHash"].string_or(""));
    const std::string offered = offered_hash(facts.etcd, facts.member);
    const bool takes = !told.empty() && offered == told && runs != told;
    const std::string_view state = old.empty() ? "" : json::View(old.back())["state"].string_or("");
    const std::string_view sub_state =
        old.empty() ? "" : json::View(old.back())["subState"].string_or("");
    const bool fresh =
        steward_states_[facts.member].pod_uid != facts.pod_uid && state != "Initializing";
    std::string to = "Started";
    std::string sub = facts.leads ? "Leader" : "Follower";
    if (runs.empty() && !takes) {
        return {};  // it has no configuration yet
    }
    if (fresh || takes) {
        to = "Initializing";
        sub = "DBValidationSanity";
    } else if (learner && sub_state != "Learner") {
        to = "Starting";
        sub = "Learner";
    } else if (learner) {
        return {{"metadata", {{"annotations", {{kLearner, nullptr}}}}}};
    }
    if (state == to && sub_state == sub && !takes) {
        return {};
    }
    json::Value transitions = old.empty() ? json::list() : *status["transitions"].value();
    transitions.push_back({{"state", to},
                           {"subState", sub},
                           {"reason", "Simulated"},
                           {"transitionTime", to_rfc3339(world_.loop.wall_now())}});
    if (json::Array& all = *transitions.if_array(); all.size() > kTransitionsMax) {
        all.erase(all.begin());
    }
    return {{"status",
             {{"id", hex_of(facts.member)},
              {"clusterID", hex_of(facts.etcd)},
              {"configHash", takes ? told : runs},
              {"observedAt", to_rfc3339(world_.loop.wall_now())},
              {"transitions", std::move(transitions)}}}};
}

void Cluster::renew(const std::string& member, Steward& steward, const Facts& facts) {
    if (steward.pod_uid != facts.pod_uid || world_.loop.now() - steward.renewed < 10s) {
        return;
    }
    steward.renewed = world_.loop.now();
    const std::string holder =
        hex_of(member) + ":" + hex_of(facts.etcd) + (facts.leads ? ":Leader" : ":Member");
    const json::Value body = {
        {"spec",
         {{"holderIdentity", holder}, {"renewTime", to_rfc3339_micro(world_.loop.wall_now())}}}};
    world_.api.ask(
        "PATCH", kLeases + "/" + member, json::dump(body), "application/merge-patch+json");
}

}  // namespace capstan::test
