// What a controller wrote itself: its keys wait for the cache to show it, its echo may wake nobody.
#include "runtime/control/controller.hpp"

#include "runtime/control/controller_parts.hpp"
#include "runtime/control/unit.hpp"

#include <algorithm>

namespace capstan::control {

// True when `object` is what a run of `key` wrote, the last one or one under way. The cache shows
// it, so nobody has to wait for it any more.
bool Controller::forget_own_write(const ObjectKey& key,
                                  const GroupVersionKind& gvk,
                                  const kube::Object& object) {
    const auto take = [&](std::vector<OwnWrite>& writes) {
        return std::erase_if(writes, [&](const OwnWrite& write) {
                   return write.gvk == gvk && write.resource_version == object.resource_version() &&
                          write.key.ns == object.ns() && write.key.name == object.name();
               }) > 0;
    };
    const std::lock_guard lock(mutex_);
    bool ours = false;
    if (const auto held = own_writes_.find(key); held != own_writes_.end()) {
        ours = take(held->second.writes);
        if (held->second.writes.empty()) {
            own_writes_.erase(held);
        }
    }
    for (const std::shared_ptr<Worker>& worker : workers_) {
        if (CallState* const call = worker->call; call != nullptr && call->key == key) {
            const std::lock_guard own(call->mutex);
            ours = take(call->own_writes) || ours;
        }
    }
    return ours;
}

// True when the key must wait for the cache to show what earlier runs of it wrote.
bool Controller::own_writes_missing(const queue::Item& item, MonotonicTime now) {
    Held held;
    {
        const std::lock_guard lock(mutex_);
        const auto found = own_writes_.find(item.key);
        if (found == own_writes_.end()) {
            return false;
        }
        if (found->second.since == kNever) {
            found->second.since = now;
        }
        held = found->second;
    }
    const cache::Cache& cache = unit_.core()->parts.cache;
    const bool reached =
        std::all_of(held.writes.begin(), held.writes.end(), [&](const OwnWrite& write) {
            return cache.reached(write.gvk, write.key, write.resource_version);
        });
    if (!reached && now - held.since < kOwnWritesWait) {
        return true;
    }
    if (!reached) {
        metrics_->own_write_timeouts.add();
        log_.warn("cache does not show our own write; going on without",
                  {{"namespace", item.key.ns}, {"name", item.key.name}});
    }
    const std::lock_guard lock(mutex_);
    own_writes_.erase(item.key);
    return false;
}

}  // namespace capstan::control
