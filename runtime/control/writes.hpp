// What this process has written: to leave out writes that would change nothing, and to
// let the cache catch up.
#pragma once

#include "capstan/clock.hpp"
#include "capstan/json.hpp"
#include "capstan/object_ref.hpp"
#include "runtime/kube/object.hpp"

#include <cstddef>
#include <cstdint>
#include <list>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

namespace capstan::control {

// ~300 bytes each; beyond it the oldest is forgotten
inline constexpr std::size_t kIntentsMax = 50'000;
// per key of a controller; beyond it the oldest is not waited for
inline constexpr std::size_t kOwnWritesMax = 256;

// Server-side apply without effect is not sent.
//
// Kept per (kind, object, subresource, manager): digests of the last intent that succeeded and of
// what the server made of exactly those fields (defaults and normalised quantities included), and
// the object's uid and version in that answer. A later intent is left out when it is the same and
// the cached object is that object and either still has that version or still has those fields so.
// Hence: the first apply of an object after a start is always sent (the cache keeps no
// managedFields, so ownership is not known); a field that somebody else changes or removes is seen;
// an intent that stops naming a field differs and is sent. Thread: any.
class IntentBook {
public:
    struct Id {
        GroupVersionKind gvk;
        ObjectKey key;
        std::string subresource, manager;
        std::string text() const;
    };
    // `cached` may be nullptr: then false.
    bool would_change_nothing(const Id& id,
                              const json::Value& intent,
                              const kube::ObjectPtr& cached) const;
    void remember(const Id& id, const json::Value& intent, const kube::ObjectPtr& answer);
    void forget(const Id& id);
    std::size_t size() const;

private:
    struct Entry {
        std::string intent, fields;  // digests
        std::string uid, resource_version;
        std::list<std::string>::iterator age;
    };
    mutable std::mutex mutex_;  // guards both
    std::unordered_map<std::string, Entry> entries_;
    std::list<std::string> ages_;  // oldest first
};

// The parts of `object` that `intent` names: members of objects by name, arrays element by element
// when both have the same length, else the whole array. Absent parts are null.
json::Value project(const json::Value& object, const json::Value& intent);

// One write of ours whose echo the cache has not shown yet.
struct OwnWrite {
    GroupVersionKind gvk;
    ObjectKey key;
    std::string resource_version;
};

}  // namespace capstan::control
