#include "runtime/local/apiserver/garbage_collector.hpp"

#include "runtime/local/apiserver/crd.hpp"

#include <algorithm>
#include <iterator>
#include <vector>

namespace capstan::local {
namespace {

constexpr std::string_view kForeground = "foregroundDeletion";
constexpr std::string_view kOrphan = "orphan";

json::View metadata_of(const Stored& object) {
    return json::View(object.value)["metadata"];
}
bool is_deleted(const Stored& object) {
    return metadata_of(object)["deletionTimestamp"].present();
}

bool has_finalizer(const Stored& object, std::string_view name) {
    const json::Array& finalizers = metadata_of(object)["finalizers"].array();
    return std::find(finalizers.begin(), finalizers.end(), json::Value(name)) != finalizers.end();
}

json::Value without_finalizer(const Stored& object, std::string_view name) {
    json::Value updated = object.value;
    json::Value* list = updated["metadata"].find("finalizers");
    std::erase(*list->if_array(), json::Value(name));
    if (list->if_array()->empty()) {
        updated["metadata"].erase("finalizers");
    }
    return updated;
}

std::string_view namespace_of(std::string_view key) {
    const std::size_t slash = key.find('/');
    return slash == std::string_view::npos ? std::string_view() : key.substr(0, slash);
}

// The owner exists, has this uid, and is in reach: in the same namespace or cluster-scoped.
bool owner_present(const Store& store,
                   const ObjectAddress& dependent,
                   const json::Value& reference) {
    const ObjectAddress* owner = store.by_uid(json::View(reference)["uid"].string_or(""));
    if (owner == nullptr) {
        return false;
    }
    const std::string_view ns = namespace_of(owner->key);
    return ns.empty() || ns == namespace_of(dependent.key);
}

// The owner waits for this dependent in foreground deletion.
bool blocks(const Stored& dependent, std::string_view owner_uid) {
    const json::Array& owners = metadata_of(dependent)["ownerReferences"].array();
    return std::any_of(owners.begin(), owners.end(), [&](const json::Value& reference) {
        const json::View view(reference);
        return view["uid"].string_or("") == owner_uid && view["blockOwnerDeletion"].bool_or(false);
    });
}

}  // namespace

void GarbageCollector::enqueue(const ObjectAddress& at) {
    if (queued_.emplace(at.resource, at.key).second) {
        queue_.push_back(at);
    }
}

void GarbageCollector::note(const Change& change) {
    const ObjectAddress at{change.resource, change.key};
    if (change.before) {
        const std::string uid(metadata_of(*change.before)["uid"].string_or(""));
        for (const ObjectAddress& dependent : store_.dependents(uid)) {
            enqueue(dependent);
        }
    }
    if (!change.after) {
        // A deletion elsewhere may have been the last thing a namespace, a CRD or a
        // foreground owner waited for.
        const std::string ns(namespace_of(change.key));
        if (!ns.empty()) {
            const StoredPtr owner = store_.find("namespaces", ns);
            if (owner && is_deleted(*owner)) {
                enqueue({"namespaces", ns});
            }
        }
        for (const json::Value& reference :
             metadata_of(*change.before)["ownerReferences"].array()) {
            if (const ObjectAddress* owner =
                    store_.by_uid(json::View(reference)["uid"].string_or(""))) {
                enqueue(*owner);
            }
        }
        const std::size_t slash = change.resource.find('/');
        if (slash != std::string::npos) {
            const std::string crd =
                change.resource.substr(slash + 1) + "." + change.resource.substr(0, slash);
            if (const StoredPtr definition = store_.find(kCrdStorage, crd);
                definition && is_deleted(*definition)) {
                enqueue({std::string(kCrdStorage), crd});
            }
        }
        return;
    }
    if (change.before) {
        // A foreground owner waits no more for what has let it go.
        for (const json::Value& reference :
             metadata_of(*change.before)["ownerReferences"].array()) {
            const ObjectAddress* owner = store_.by_uid(json::View(reference)["uid"].string_or(""));
            const StoredPtr object = owner ? store_.find(owner->resource, owner->key) : nullptr;
            if (object && is_deleted(*object)) {
                enqueue(*owner);
            }
        }
    }
    if (is_deleted(*change.after) || metadata_of(*change.after)["ownerReferences"].present()) {
        enqueue(at);
    }
}

void GarbageCollector::note_all() {
    for (const std::string& resource : store_.resources()) {
        for (const auto& [key, object] : store_.objects(resource)) {
            if (is_deleted(*object) || metadata_of(*object)["ownerReferences"].present()) {
                enqueue({resource, key});
            }
        }
    }
}

void GarbageCollector::run(const CollectorActions& actions) {
    for (std::size_t count = 0; count < kCollectedMax && !queue_.empty(); ++count) {
        const ObjectAddress at = std::move(queue_.front());
        queue_.pop_front();
        queued_.erase({at.resource, at.key});
        visit(at, actions);
    }
}

void GarbageCollector::visit(const ObjectAddress& at, const CollectorActions& actions) {
    const StoredPtr object = store_.find(at.resource, at.key);
    if (!object) {
        return;
    }
    if (is_deleted(*object)) {
        visit_deleted(at, object, actions);
    } else {
        visit_owners(at, object, actions);
    }
}

void GarbageCollector::visit_owners(const ObjectAddress& at,
                                    const StoredPtr& object,
                                    const CollectorActions& actions) {
    const json::Array& owners = metadata_of(*object)["ownerReferences"].array();
    if (owners.empty()) {
        return;
    }
    json::Value kept = json::list();
    bool owner_in_foreground = false;
    for (const json::Value& reference : owners) {
        if (!owner_present(store_, at, reference)) {
            continue;
        }
        kept.push_back(reference);
        const ObjectAddress* owner = store_.by_uid(json::View(reference)["uid"].string_or(""));
        const StoredPtr owner_object = store_.find(owner->resource, owner->key);
        owner_in_foreground = owner_in_foreground || (is_deleted(*owner_object) &&
                                                      has_finalizer(*owner_object, kForeground));
    }
    const std::size_t left = kept.if_array()->size();
    if (left == 0 || (left == 1 && owner_in_foreground)) {
        actions.remove(at);
    } else if (left < owners.size()) {
        json::Value updated = object->value;
        updated["metadata"].set("ownerReferences", std::move(kept));
        actions.update(at, std::move(updated));
    }
}

void GarbageCollector::visit_deleted(const ObjectAddress& at,
                                     const StoredPtr& object,
                                     const CollectorActions& actions) {
    if (at.resource == "namespaces") {
        empty_namespace(at, object, actions);
        return;
    }
    if (at.resource == kCrdStorage && has_finalizer(*object, kCrdFinalizer)) {
        empty_crd(at, object, actions);
        return;
    }
    const std::string uid(metadata_of(*object)["uid"].string_or(""));
    const std::vector<ObjectAddress> dependents = store_.dependents(uid);
    if (has_finalizer(*object, kOrphan)) {
        for (const ObjectAddress& dependent : dependents) {
            json::Value updated = store_.find(dependent.resource, dependent.key)->value;
            std::erase_if(*updated["metadata"]["ownerReferences"].if_array(),
                          [&](const json::Value& reference) {
                              return json::View(reference)["uid"].string_or("") == uid;
                          });
            if (updated["metadata"]["ownerReferences"].if_array()->empty()) {
                updated["metadata"].erase("ownerReferences");
            }
            actions.update(dependent, std::move(updated));
        }
        actions.update(at, without_finalizer(*store_.find(at.resource, at.key), kOrphan));
    } else if (has_finalizer(*object, kForeground)) {
        std::vector<ObjectAddress> blocking;
        std::copy_if(dependents.begin(),
                     dependents.end(),
                     std::back_inserter(blocking),
                     [&](const ObjectAddress& dependent) {
                         return blocks(*store_.find(dependent.resource, dependent.key), uid);
                     });
        if (blocking.empty()) {
            actions.update(at, without_finalizer(*object, kForeground));
            return;
        }
        for (const ObjectAddress& dependent : blocking) {
            const StoredPtr child = store_.find(dependent.resource, dependent.key);
            if (child && !is_deleted(*child)) {
                visit_owners(dependent, child, actions);
            }
        }
    }
}

void GarbageCollector::empty_namespace(const ObjectAddress& at,
                                       const StoredPtr& object,
                                       const CollectorActions& actions) {
    const std::string prefix = at.key + "/";
    bool left = false;
    for (const std::string& resource : store_.resources()) {
        std::vector<std::string> keys;
        const Store::Objects& objects = store_.objects(resource);
        for (auto it = objects.lower_bound(prefix);
             it != objects.end() && it->first.starts_with(prefix);
             ++it) {
            left = true;
            if (!is_deleted(*it->second)) {
                keys.push_back(it->first);
            }
        }
        for (const std::string& key : keys) {
            actions.remove({resource, key});
        }
    }
    if (left) {
        // Each removal notes the namespace again; what waits for a finalizer does so when it goes.
        return;
    }
    json::Value updated = object->value;
    updated["spec"].set("finalizers", json::list());
    actions.update(at, std::move(updated));
}

void GarbageCollector::empty_crd(const ObjectAddress& at,
                                 const StoredPtr& object,
                                 const CollectorActions& actions) {
    const json::View spec = json::View(object->value)["spec"];
    const std::string storage =
        storage_id(spec["group"].string_or(""), spec["names"]["plural"].string_or(""));
    std::vector<std::string> keys;
    for (const auto& [key, instance] : store_.objects(storage)) {
        if (!is_deleted(*instance)) {
            keys.push_back(key);
        }
    }
    for (const std::string& key : keys) {
        actions.remove({storage, key});
    }
    if (store_.objects(storage).empty()) {
        actions.update(at, without_finalizer(*object, kCrdFinalizer));
    }
}

}  // namespace capstan::local
