#include "plugins/custodian/observe.hpp"

namespace capstan::custodian {

namespace {

constexpr std::string_view kSelector =
    "app.kubernetes.io/managed-by=etcd-druid,app.kubernetes.io/part-of=";

bool condition_is_true(const json::View& status, std::string_view type) {
    for (const json::Value& condition : status["conditions"].array()) {
        const json::View view(condition);
        if (view["type"].string_or("") == type) {
            return view["status"].string_or("") == "True";
        }
    }
    return false;
}

Pod pod_of(const json::View& view) {
    const json::View status = view["status"];
    const bool deleting = view["metadata"]["deletionTimestamp"].present();
    Pod pod;
    pod.ready = condition_is_true(status, "Ready") && !deleting;
    pod.containers_ready = condition_is_true(status, "ContainersReady");
    pod.etcd_ready = pod.containers_ready;
    for (const json::Value& container : status["containerStatuses"].array()) {
        const json::View said(container);
        if (said["name"].string_or("") == "etcd") {
            pod.etcd_ready = said["ready"].bool_or(false);
        }
    }
    return pod;
}

Lease lease_of(const json::View& view) {
    return {
        std::string(view["spec"]["holderIdentity"].string_or("")),
        parse_rfc3339(view["spec"]["renewTime"].string_or("")),
        parse_rfc3339(view["metadata"]["creationTimestamp"].string_or("")),
    };
}

StatefulSet set_of(const json::View& view) {
    const json::View status = view["status"];
    const auto count = [](const json::View& field) {
        return static_cast<std::int32_t>(field.int_or(0));
    };
    return {
        view["metadata"]["generation"].int_or(0),
        status["observedGeneration"].int_or(0),
        static_cast<std::int32_t>(view["spec"]["replicas"].int_or(1)),
        count(status["currentReplicas"]),
        count(status["updatedReplicas"]),
        std::string(status["currentRevision"].string_or("")),
        std::string(status["updateRevision"].string_or("")),
    };
}

Result<bool> controlled_by(const json::View& view, std::string_view uid) {
    api::ObjectMeta meta;
    CAPSTAN_TRY(api::decode(view["metadata"], meta));
    return meta.controller_uid() == uid;
}

// Calls `take(name, view)` for every labelled object that `uid` controls; "" takes them all.
template <class Take>
Result<void> each(Call& call,
                  std::string_view group_kind,
                  const api::ObjectMeta& etcd,
                  std::string_view uid,
                  Take take) {
    CAPSTAN_TRY(auto objects,
                call.cache().list(group_kind, etcd.ns, std::string(kSelector) + etcd.name));
    for (const json::Value& object : objects) {
        const json::View view(object);
        CAPSTAN_TRY(const bool ours, controlled_by(view, uid));
        if (ours) {
            CAPSTAN_TRY(take(std::string(view["metadata"]["name"].string_or("")), view));
        }
    }
    return ok();
}

}  // namespace

Result<std::optional<World>> observe(Call& call, const ObjectKey& key) {
    auto object = call.cache().get_value("druid.gardener.cloud/Etcd", key);
    if (!object) {
        if (object.error().code == Code::not_found) {
            return std::optional<World>();
        }
        return fail(object.error());
    }
    World world;
    CAPSTAN_TRY(api::decode(json::View(object.value()), world.etcd));
    world.now = call.wall_now();
    const api::ObjectMeta& meta = world.etcd.metadata;

    std::string set_uid;
    CAPSTAN_TRY(each(call,
                     "apps/StatefulSet",
                     meta,
                     meta.uid,
                     [&](const std::string& name, const json::View& view) -> Result<void> {
                         if (name == meta.name) {
                             world.set = set_of(view);
                             set_uid = view["metadata"]["uid"].string_or("");
                         }
                         return ok();
                     }));
    CAPSTAN_TRY(each(call,
                     "druid.gardener.cloud/EtcdMember",
                     meta,
                     meta.uid,
                     [&](const std::string& name, const json::View& view) -> Result<void> {
                         return api::decode(view, world.members[name]);
                     }));
    CAPSTAN_TRY(each(call,
                     "coordination.k8s.io/Lease",
                     meta,
                     meta.uid,
                     [&](const std::string& name, const json::View& view) -> Result<void> {
                         world.leases[name] = lease_of(view);
                         return ok();
                     }));
    if (!set_uid.empty()) {
        CAPSTAN_TRY(each(call,
                         "Pod",
                         meta,
                         set_uid,
                         [&](const std::string& name, const json::View& view) -> Result<void> {
                             world.pods[name] = pod_of(view);
                             return ok();
                         }));
    }
    return std::optional<World>(std::move(world));
}

}  // namespace capstan::custodian
