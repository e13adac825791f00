#include "runtime/local/node/controllers.hpp"

#include "runtime/local/node/files.hpp"
#include "runtime/local/node/job.hpp"
#include "runtime/local/node/objects.hpp"
#include "runtime/local/node/volumes.hpp"

#include <algorithm>

namespace capstan::local {
namespace {

constexpr std::chrono::seconds kRetry{1};

// Calls may change the mirror, so the loops go over copies.
std::vector<json::Value> copies(const std::map<ObjectKey, json::Value>& objects) {
    std::vector<json::Value> out;
    out.reserve(objects.size());
    for (const auto& [key, object] : objects) {
        out.push_back(object);
    }
    return out;
}

}  // namespace

Controllers::Controllers(net::Loop& loop,
                         NodeApi& api,
                         Mirror& mirror,
                         const NodeOptions& options,
                         std::function<void()> again)
    : loop_(loop), api_(api), mirror_(mirror), options_(options), again_(std::move(again)) {}

void Controllers::sync() {
    for (const auto& set : copies(mirror_.all(kStatefulSetKind))) {
        sync_set(set);
    }
    for (const auto& job : copies(mirror_.all(kJobKind))) {
        sync_job(job);
    }
    for (const auto& claim : copies(mirror_.all(kClaimKind))) {
        sync_claim(claim);
    }
    drop_claim_dirs();
}

void Controllers::adopt_pods(const json::Value& set) {
    const auto set_key = key_of(set);
    std::vector<json::Value> orphans;
    for (const auto& [key, pod] : mirror_.all(kPodKind)) {
        if (key.ns == set_key.ns && ordinal_of(set_key.name, key.name) && !is_deleting(pod) &&
            controller_uid(pod).empty() &&
            matches(pod.pointer("/metadata/labels"), set.pointer("/spec/selector/matchLabels"))) {
            orphans.push_back(pod);
        }
    }
    for (const auto& pod : orphans) {
        const auto* present = pod.pointer("/metadata/ownerReferences");
        json::Value owners = present == nullptr ? json::list() : *present;
        owners.push_back(controller_reference(kStatefulSetKind, set));
        auto adopted = api_.patch(
            kPodKind,
            key_of(pod),
            {{"metadata", {{"uid", uid_of(pod)}, {"ownerReferences", std::move(owners)}}}});
        if (adopted.has_value()) {
            mirror_.put(kPodKind, std::move(adopted).value());
        } else {
            failed("adopt Pod", key_of(pod), adopted.error());
        }
    }
}

void Controllers::sync_set(const json::Value& set) {
    if (!is_deleting(set)) {
        adopt_pods(set);
    }
    auto plan = plan_stateful_set(set, mirror_.controlled_by(kPodKind, uid_of(set)));
    const auto ns = key_of(set).ns;
    if (!is_deleting(set)) {
        write_status(kStatefulSetKind, set, plan.status);
    }
    for (auto& claim : plan.claims) {
        if (mirror_.find(kClaimKind, key_of(claim)) == nullptr) {
            create(kClaimKind, std::move(claim));
        }
    }
    for (auto& pod : plan.pods) {
        // A pod of that name that is not ours blocks it, as on Kubernetes; create() says so.
        create(kPodKind, std::move(pod));
    }
    for (const auto& removal : plan.removals) {
        remove(kPodKind, ns, removal);
    }
}

void Controllers::sync_job(const json::Value& job) {
    auto plan = plan_job(job, mirror_.controlled_by(kPodKind, uid_of(job)), loop_.wall_now());
    if (is_deleting(job)) {
        return;
    }
    if (plan.remove_job) {
        remove(kJobKind, key_of(job).ns, {key_of(job).name, uid_of(job)});
        return;
    }
    write_status(kJobKind, job, plan.status);
    if (plan.pod) {
        create(kPodKind, std::move(*plan.pod));
    }
    for (const auto& removal : plan.removals) {
        remove(kPodKind, key_of(job).ns, removal);
    }
    if (plan.wake) {
        wake_at(loop_.now() +
                std::max(*plan.wake - loop_.wall_now(), std::chrono::nanoseconds(kRetry)));
    }
}

void Controllers::sync_claim(const json::Value& claim) {
    const json::View view(claim);
    if (is_deleting(claim) || view["status"]["phase"].string_or("") == "Bound") {
        return;
    }
    json::Value status = {{"phase", "Bound"}};
    if (view["spec"]["accessModes"].present()) {
        status.set("accessModes", *view["spec"]["accessModes"].value());
    }
    if (const auto storage = view["spec"]["resources"]["requests"]["storage"]; storage.present()) {
        status.set("capacity", {{"storage", *storage.value()}});
    }
    if (!view["spec"]["volumeName"].present()) {
        const json::Value patch = {{"spec", {{"volumeName", "local-" + uid_of(claim)}}}};
        if (auto patched = api_.patch(kClaimKind, key_of(claim), patch); patched.has_value()) {
            mirror_.put(kClaimKind, std::move(patched).value());
        }
    }
    write_status(kClaimKind, claim, status);
}

void Controllers::claim_deleted(const json::Value& claim) {
    dropped_.insert({key_of(claim), claim_dir(options_.dir + "/volumes", claim)});
}

void Controllers::drop_claim_dirs() {
    std::erase_if(dropped_, [this](const DroppedClaim& dropped) {
        for (const auto& [key, pod] : mirror_.all(kPodKind)) {
            const auto volumes = json::View(pod)["spec"]["volumes"];
            const bool uses =
                key.ns == dropped.key.ns &&
                std::any_of(
                    volumes.array().begin(), volumes.array().end(), [&](const json::Value& volume) {
                        const json::View view(volume);
                        return view["persistentVolumeClaim"]["claimName"].string_or("") ==
                               dropped.key.name;
                    });
            if (uses) {
                return false;
            }
        }
        if (auto removed = remove_tree(dropped.dir); !removed.has_value()) {
            failed("remove volume", dropped.key, removed.error());
        }
        return true;
    });
}

void Controllers::create(const GroupVersionKind& kind, json::Value object) {
    const auto key = key_of(object);
    if (kind == kPodKind) {
        object["spec"].set("nodeName", options_.name);
    }
    auto created = api_.create(kind, std::move(object));
    if (created.has_value()) {
        mirror_.put(kind, std::move(created).value());
        again_();
    } else {
        failed("create " + kind.kind, key, created.error());
    }
}

void Controllers::remove(const GroupVersionKind& kind,
                         const std::string& ns,
                         const PodRemoval& removal) {
    const ObjectKey key{ns, removal.name};
    auto removed = api_.remove(kind, key, {.uid = removal.uid, .grace_seconds = -1});
    if (!removed.has_value() && removed.error().code != Code::not_found &&
        removed.error().code != Code::conflict) {
        failed("delete " + kind.kind, key, removed.error());
    }
}

void Controllers::write_status(const GroupVersionKind& kind,
                               const json::Value& object,
                               const json::Value& status) {
    const auto* present = object.find("status");
    auto patch = merge_patch_between(present == nullptr ? json::object() : *present, status);
    if (!patch) {
        return;
    }
    json::Value body = {{"metadata", {{"uid", uid_of(object)}}}, {"status", std::move(*patch)}};
    auto written = api_.patch_status(kind, key_of(object), std::move(body));
    if (written.has_value()) {
        mirror_.put(kind, std::move(written).value());
    } else if (written.error().code != Code::not_found && written.error().code != Code::conflict) {
        failed("write status of " + kind.kind, key_of(object), written.error());
    }
}

void Controllers::failed(std::string_view what, const ObjectKey& key, const Error& error) {
    if (options_.log) {
        options_.log(NodeLogLevel::warn, what, key.to_string(), error.message);
    }
    wake_at(loop_.now() + kRetry);
}

void Controllers::wake_at(MonotonicTime when) {
    if (when >= timer_at_) {
        return;
    }
    timer_at_ = when;
    timer_ = loop_.at(when, [this] {
        timer_at_ = kNever;
        again_();
    });
}

}  // namespace capstan::local
