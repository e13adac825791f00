// Inside of Store: the ordered set, its indexes, and the writes of ours laid over it. Not for other
// folders.
#pragma once

#include "runtime/cache/store.hpp"

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <shared_mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace capstan::cache {

using KeyView = std::pair<std::string_view, std::string_view>;  // namespace, name

inline KeyView view_of(const ObjectPtr& object) noexcept {
    return {object->ns(), object->name()};
}
inline KeyView view_of(const ObjectKey& key) noexcept {
    return {key.ns, key.name};
}
inline KeyView view_of(const KeyView& key) noexcept {
    return key;
}

struct ByKey {
    using is_transparent = void;
    template <class A, class B>
    bool operator()(const A& a, const B& b) const noexcept {
        return view_of(a) < view_of(b);
    }
};

using Objects = std::set<ObjectPtr, ByKey>;  // keys are views into the objects themselves
using Index = std::map<std::string, Objects, std::less<>>;  // value -> objects
using Indexes = std::map<IndexSpec, Index>;

// A write of ours that the watch has not shown yet.
struct Overlay {
    ObjectPtr object;  // nullptr: deleted
    ObjectPtr hidden;  // deleted, and the watch had not shown this write of ours before it either
    std::string uid;
    MonotonicTime expires{0};
};
using Overlays = std::map<ObjectKey, Overlay, ByKey>;
using Unreadables = std::map<ObjectKey, kube::Unreadable, ByKey>;

inline std::vector<std::string> values_of(const IndexSpec& index, const Object& object) {
    switch (index.kind) {
        case IndexSpec::Kind::controller:
            return object.controller_uid().empty()
                       ? std::vector<std::string>{}
                       : std::vector<std::string>{std::string(object.controller_uid())};
        case IndexSpec::Kind::label: {
            auto value = object.label(index.argument);
            return value ? std::vector<std::string>{std::move(*value)} : std::vector<std::string>{};
        }
        case IndexSpec::Kind::field: return object.string_fields(index.argument);
    }
    return {};
}

inline bool has_value(const IndexSpec& index, const Object& object, std::string_view value) {
    const auto values = values_of(index, object);
    return std::find(values.begin(), values.end(), value) != values.end();
}

inline void put(Indexes& indexes, const ObjectPtr& object) {
    for (auto& [spec, index] : indexes) {
        for (std::string& value : values_of(spec, *object)) {
            index[std::move(value)].insert(object);
        }
    }
}

inline void take_out(Indexes& indexes, const ObjectPtr& object) {
    for (auto& [spec, index] : indexes) {
        for (const std::string& value : values_of(spec, *object)) {
            if (const auto found = index.find(value); found != index.end()) {
                found->second.erase(object);
                if (found->second.empty()) {
                    index.erase(found);
                }
            }
        }
    }
}

// -1, 0, 1 as compare_resource_versions; 0 only for equal text when they are not comparable, else
// `otherwise`.
inline int order(std::string_view a, std::string_view b, int otherwise) {
    const auto compared = kube::compare_resource_versions(a, b);
    return compared ? *compared : (a == b ? 0 : otherwise);
}

// What a reader sees of a stored object (may be null) under a live overlay.
inline ObjectPtr shown(const ObjectPtr& stored, const Overlay& overlay) {
    if (!overlay.object) {
        const bool same = stored && (overlay.uid.empty() || stored->uid() == overlay.uid);
        return same ? nullptr : stored;
    }
    if (!stored || order(overlay.object->resource_version(), stored->resource_version(), 1) > 0) {
        return overlay.object;
    }
    return stored;
}

struct Store::State {
    explicit State(const Clock& c) : clock(c) {}

    const Clock& clock;
    // guards the rest; the loop, the only writer of it but for overlays, reads freely
    mutable std::shared_mutex mutex;
    Objects objects;
    Indexes indexes;
    Overlays overlays;
    Unreadables unreadable;
    std::string nameless;  // of the last one whose name cannot be read either; empty: none
    std::string version;
    std::size_t bytes{0};

    // store_write.cpp
    void tell_overlaid(const Objects& before,
                       std::string_view rv,
                       bool reset,
                       std::vector<Event>& removals,
                       std::vector<Event>& others) const;
    void settle_overlays(std::string_view rv, std::vector<Event>& events);
    bool take_unreadable(kube::Unreadable one);
    ObjectPtr taken(ObjectPtr object,
                    std::string_view rv,
                    bool reset,
                    std::vector<Event>& removals,
                    std::vector<Event>& others) const;
    // It is there, cannot be read, and is no namesake of what is stored.
    bool stays(const ObjectPtr& old, const Unreadables& now) const {
        const auto found = now.find(view_of(old));
        return found != now.end() &&
               (found->second.head->uid().empty() || found->second.head->uid() == old->uid());
    }

    ObjectPtr find(const KeyView& key) const {
        const auto found = objects.find(key);
        return found == objects.end() ? nullptr : *found;
    }
    void insert(const ObjectPtr& object) {
        objects.insert(object);
        put(indexes, object);
        bytes += object->memory();
    }
    void erase(const ObjectPtr& object) {
        take_out(indexes, object);
        bytes -= object->memory();
        objects.erase(object);
    }
    void advance(std::string_view to) {
        if (order(to, version, 1) > 0 && !to.empty()) {
            version = to;
        }
    }
    // Requires the lock. Puts what overlays hide or add into a sorted result.
    template <class Belongs>
    void lay_over(std::vector<ObjectPtr>& found, std::string_view ns, Belongs belongs) const {
        const MonotonicTime now = clock.now();
        for (const auto& [key, overlay] : overlays) {
            if (overlay.expires <= now || (!ns.empty() && key.ns != ns)) {
                continue;
            }
            ObjectPtr visible = shown(find(view_of(key)), overlay);
            const auto at = std::lower_bound(found.begin(), found.end(), key, ByKey{});
            const bool there = at != found.end() && view_of(*at) == view_of(key);
            const bool wanted = visible && belongs(*visible);
            if (there && wanted) {
                *at = std::move(visible);
            } else if (there) {
                found.erase(at);
            } else if (wanted) {
                found.insert(at, std::move(visible));
            }
        }
    }
    // Drops an overlay; true when it showed exactly `version`.
    bool drop_overlay(const Overlays::iterator& at, std::string_view seen) {
        const bool exact = at->second.object && at->second.object->resource_version() == seen;
        overlays.erase(at);
        return exact;
    }
    // Expired ones are not shown, but tell_overlaid() may still need them.
    void make_room() {
        if (overlays.size() < kOverlaysMax) {
            return;
        }
        const MonotonicTime now = clock.now();
        std::erase_if(overlays, [&](const auto& entry) { return entry.second.expires <= now; });
        if (overlays.size() >= kOverlaysMax) {
            overlays.erase(std::min_element(
                overlays.begin(), overlays.end(), [](const auto& a, const auto& b) {
                    return a.second.expires < b.second.expires;
                }));
        }
    }
};

}  // namespace capstan::cache
