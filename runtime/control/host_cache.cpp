// capstan.cache/1: reads of the plugin's own watches.
#include "runtime/control/host_tables.hpp"

#include "runtime/control/call.hpp"
#include "runtime/control/unit.hpp"
#include "runtime/kube/selector.hpp"

#include <algorithm>

namespace capstan::control {
namespace {

// The stores this plugin watches the kind with; empty: none. *synced: at least
// one holds a first state.
std::vector<const ReadStore*> stores_of(const CallState& call, std::string_view gk, bool* synced) {
    std::vector<const ReadStore*> found;
    *synced = false;
    for (const ReadStore& store : call.unit->stores()) {
        if (store.gvk.group_kind() == gk) {
            found.push_back(&store);
            *synced = *synced || store.synced->load();
        }
    }
    return found;
}

capstan_rc refuse_stores(const CallState& call,
                         std::string_view gk,
                         const std::vector<const ReadStore*>& stores,
                         bool synced) {
    if (stores.empty()) {
        call.core->metrics.denied.with({call.unit->manifest().id}).add();
        call.log.error("read outside the manifest", {{"gvk", gk}});
        return report(CAPSTAN_E_DENIED, "the manifest has no watch on " + std::string(gk));
    }
    if (!synced) {
        return report(CAPSTAN_E_UNAVAIL, std::string(gk) + " is not synced yet");
    }
    return CAPSTAN_OK;
}

capstan_rc get(capstan_call* handle,
               capstan_str gk,
               capstan_str ns,
               capstan_str name,
               const capstan_obj** out) noexcept {
    capstan_rc rc = CAPSTAN_OK;
    const auto call = enter(handle, &rc, true);
    if (call == nullptr) {
        return rc;
    }
    call->core->parts.threads.yield_point();
    bool synced = false;
    const auto stores = stores_of(*call, view(gk), &synced);
    if (rc = refuse_stores(*call, view(gk), stores, synced); rc != CAPSTAN_OK) {
        return rc;
    }
    const ObjectKey key{text(ns), text(name)};
    for (const ReadStore* store : stores) {
        if (auto object = store->store->get(key); object != nullptr) {
            *out = call->hand_out(std::move(object), store->gvk, false);
            return *out == nullptr ? report(CAPSTAN_E_TOO_LARGE, "no object handle is left")
                                   : CAPSTAN_OK;
        }
    }
    for (const ReadStore* store : stores) {  // there, so not "not found"
        if (const std::string why = store->store->why_unreadable(key); !why.empty()) {
            return report(CAPSTAN_E_UNAVAIL, text(gk) + " cannot be read: " + why);
        }
    }
    return report(CAPSTAN_E_NOT_FOUND, text(gk) + " " + key.to_string() + " is not in the cache");
}

capstan_rc list(capstan_call* handle,
                capstan_str gk,
                capstan_str ns,
                capstan_str selector,
                capstan_rc (*visit)(void*, const capstan_obj*),
                void* user) noexcept {
    capstan_rc rc = CAPSTAN_OK;
    const auto call = enter(handle, &rc, true);
    if (call == nullptr) {
        return rc;
    }
    call->core->parts.threads.yield_point();
    bool synced = false;
    const auto stores = stores_of(*call, view(gk), &synced);
    if (rc = refuse_stores(*call, view(gk), stores, synced); rc != CAPSTAN_OK) {
        return rc;
    }
    const auto parsed = kube::LabelSelector::parse(view(selector));
    if (!parsed) {
        return report(parsed.error());
    }
    struct Found {
        cache::ObjectPtr object;
        const ReadStore* store;
    };
    std::vector<Found> found;
    for (const ReadStore* store : stores) {
        const std::string missing = store->store->why_not_whole({text(ns), &parsed.value()});
        if (!missing.empty()) {
            return report(CAPSTAN_E_UNAVAIL, "list " + text(gk) + ": it is not whole: " + missing);
        }
        for (cache::ObjectPtr& object : store->store->list({text(ns), &parsed.value()})) {
            found.push_back({std::move(object), store});
        }
    }
    if (stores.size() > 1) {
        const auto key = [](const Found& f) { return std::pair(f.object->ns(), f.object->name()); };
        std::stable_sort(found.begin(), found.end(), [&](const Found& a, const Found& b) {
            return key(a) < key(b);
        });
        const auto same = [&](const Found& a, const Found& b) { return key(a) == key(b); };
        found.erase(std::unique(found.begin(), found.end(), same), found.end());
    }
    if (found.size() > kListItemsMax) {
        return report(CAPSTAN_E_TOO_LARGE,
                      "more than " + std::to_string(kListItemsMax) + " objects");
    }
    for (Found& f : found) {
        auto reference = std::make_shared<ObjectRef>(
            ObjectRef{std::move(f.object), f.store->gvk, false, true, {}});
        void* borrowed = handles().objects.insert(std::move(reference));
        if (borrowed == nullptr) {
            return report(CAPSTAN_E_TOO_LARGE, "no object handle is left");
        }
        rc = visit(user, static_cast<const capstan_obj*>(borrowed));
        handles().objects.take(borrowed);
        if (rc != CAPSTAN_OK) {
            return rc;
        }
    }
    return CAPSTAN_OK;
}

capstan_str bytes(const capstan_obj* handle) noexcept {
    const auto reference = handles().objects.find(handle);
    return reference == nullptr ? capstan_str{nullptr, 0} : str(reference->object->bytes());
}

capstan_rc field(const capstan_obj* handle, capstan_str pointer, capstan_str* raw_json) noexcept {
    const auto reference = handles().objects.find(handle);
    if (reference == nullptr) {
        return report(CAPSTAN_E_INVALID, "this object was released");
    }
    const auto found = reference->object->field(view(pointer));
    if (!found) {
        return report(CAPSTAN_E_NOT_FOUND,
                      text(pointer) + (reference->object->projected()
                                           ? " is absent, or not kept by the watch (\"keep\")"
                                           : " is absent"));
    }
    *raw_json = str(*found);
    return CAPSTAN_OK;
}

void release(const capstan_obj* handle) noexcept {
    const auto reference = handles().objects.find(handle);
    if (reference == nullptr || reference->borrowed) {
        return;
    }
    handles().objects.take(handle);
    if (const auto call = reference->call.lock()) {
        call->given_back(handle);
    }
}

}  // namespace

const capstan_ext_cache kCacheTable{
    {sizeof(capstan_ext_cache), CAPSTAN_ABI}, &get, &list, &bytes, &field, &release};

}  // namespace capstan::control
