// The objects of one watched selection, with indexes and our own fresh writes laid over them.
//
// One writer (the loop), any number of readers. Readers get shared immutable objects; a list is a
// consistent snapshot. The lock is held for pointer copies only: selectors run outside it. Never
// moves an object back to an older version, unless a later state of all shows it so. An object that
// cannot be read stays as it was read last.
#pragma once

#include "capstan/clock.hpp"
#include "capstan/error.hpp"
#include "capstan/object_ref.hpp"
#include "runtime/kube/object.hpp"
#include "runtime/kube/selector.hpp"
#include "runtime/kube/unreadable.hpp"

#include <chrono>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace capstan::cache {

using kube::Object;
using kube::ObjectPtr;

// a write the watch never shows is dropped after this
inline constexpr std::chrono::seconds kOverlayTtl{30};
inline constexpr std::size_t kOverlaysMax = 10'000;  // beyond it the oldest goes
inline constexpr std::size_t kIndexesMax = 32;

// `label`: by value of a label key; `field`: by the strings a pointer reaches ("*" steps allowed);
// `controller`: by uid of the controlling owner.
struct IndexSpec {
    enum class Kind : std::uint8_t { controller, label, field };
    Kind kind{Kind::controller};
    std::string argument;  // label key or pointer; empty for controller
    auto operator<=>(const IndexSpec&) const = default;
};

enum class EventType : std::uint8_t { create, update, remove, resync };

struct Event {
    EventType type{EventType::create};
    ObjectPtr old_object;  // update, remove: never null there
    ObjectPtr new_object;  // create, update, resync
    // remove: missing from a list; old_object is the last known state, maybe a write never told
    bool final_state_unknown{false};
    bool initial{false};    // part of a first list, or replayed to a late subscriber
    bool own_write{false};  // shows exactly the version a write of ours returned
    // From a list: between old_object and new_object there may have been others.
    bool relisted{false};
};

// A complete first state being collected, in any order; of equal keys the newest counts.
using Shadow = std::vector<ObjectPtr>;

struct ListQuery {
    std::string ns;  // empty: all
    const kube::LabelSelector* selector{nullptr};
};

class Store {
public:
    explicit Store(const Clock& clock);  // borrowed; outlives *this
    ~Store();
    Store(const Store&) = delete;
    Store& operator=(const Store&) = delete;

    // Reads. [any]
    ObjectPtr get(const ObjectKey& key) const;                       // nullptr: not there
    std::vector<ObjectPtr> list(const ListQuery& query = {}) const;  // sorted by namespace, name
    // An index that was not added costs a scan. Sorted as list().
    std::vector<ObjectPtr> by_index(const IndexSpec& index,
                                    std::string_view value,
                                    std::string_view ns = {}) const;
    std::vector<ObjectPtr> by_controller(std::string_view uid) const;
    std::size_t size() const;
    std::size_t bytes() const;  // of the objects
    std::string resource_version() const;
    // True when the store shows version `rv` of `key` or a newer one (or is past it). False when
    // not comparable and not equal. Overlays do not count.
    bool reached(const ObjectKey& key, std::string_view rv) const;
    // Why `key` cannot be read; empty: nothing is wrong with it.
    std::string why_unreadable(const ObjectKey& key) const;
    // The same of the first one a list would have to hold and of which nothing is stored: then the
    // list is not whole.
    std::string why_not_whole(const ListQuery& query = {}) const;
    // "2 objects cannot be read: default/a: JSON is nested deeper than 128"; empty: none.
    std::string unreadable_text() const;

    // Writes. [io] The events are in the order they are to be delivered: removals first.
    // `unreadable`: they are there; what is stored of them stays.
    std::vector<Event> replace(Shadow shadow,
                               std::string_view rv,
                               bool reset,
                               std::vector<kube::Unreadable> unreadable = {});
    // True: that was not known. Until the object can be read, is removed or a list lacks it.
    bool note_unreadable(kube::Unreadable one);
    std::vector<Event> apply_upsert(ObjectPtr object);
    std::vector<Event> apply_remove(ObjectPtr object);
    void advance(std::string_view rv);  // bookmark
    // Errors: too_large (kIndexesMax).
    Result<void> add_index(const IndexSpec& index);
    // without overlays, sorted: for replay to a late subscriber
    std::vector<ObjectPtr> watched() const;
    ObjectPtr watched(const ObjectKey& key) const;  // nullptr: not there

    // Our own writes. [any] The written object is shown until the watch has caught up or
    // kOverlayTtl has passed.
    void overlay(ObjectPtr written);
    // `uid` was deleted by us; hides that object until the watch shows it gone.
    void overlay_removed(const ObjectKey& key, std::string_view uid);

private:
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace capstan::cache
