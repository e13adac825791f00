#include "runtime/cache/store_state.hpp"

#include <iterator>

namespace capstan::cache {
namespace {

// An event of `object` says what became of one that could not be read, unless it is from the past.
void forget_unreadable(Unreadables& unreadable, const ObjectPtr& object) {
    const auto known = unreadable.find(view_of(object));
    if (known != unreadable.end() &&
        order(object->resource_version(), known->second.resource_version, 1) >= 0) {
        unreadable.erase(known);
    }
}

}  // namespace

// What readers saw of our own writes and nobody would be told of: an object that came and went
// between two lists, so that neither shows it; and, when the data was set back, a write that was
// undone over an object that is as before it. Requires the lock, the present content replaced.
void Store::State::tell_overlaid(const Objects& before,
                                 std::string_view rv,
                                 bool reset,
                                 std::vector<Event>& removals,
                                 std::vector<Event>& others) const {
    for (const auto& [key, overlay] : overlays) {
        const ObjectPtr& written = overlay.object ? overlay.object : overlay.hidden;
        const bool past = reset || (written && order(rv, written->resource_version(), -1) >= 0);
        const auto old = before.find(key);
        const ObjectPtr stored = find(view_of(key));
        if (past && written && old == before.end() && !stored) {
            removals.push_back(
                {.type = EventType::remove, .old_object = written, .final_state_unknown = true});
        } else if (reset && stored && old != before.end() && *old == stored) {
            if (overlay.object && overlay.object->uid() == stored->uid()) {
                others.push_back({EventType::update, overlay.object, stored});
            } else {
                others.push_back({EventType::create, nullptr, stored});
            }
        }
    }
}

// After a replacement at `rv`: which events are our own writes, and what overlays are still needed.
// Requires the lock.
void Store::State::settle_overlays(std::string_view rv, std::vector<Event>& events) {
    for (Event& event : events) {
        event.relisted = true;
        const auto overlay = overlays.find(view_of(event.new_object));
        event.own_write =
            overlay != overlays.end() && overlay->second.object &&
            overlay->second.object->resource_version() == event.new_object->resource_version();
    }
    std::erase_if(overlays, [&](const auto& entry) {
        if (entry.second.object) {
            return order(rv, entry.second.object->resource_version(), -1) >= 0;
        }
        const ObjectPtr stored = find(view_of(entry.first));
        const ObjectPtr& hidden = entry.second.hidden;
        return stored ? stored->uid() != entry.second.uid
                      : !hidden || order(rv, hidden->resource_version(), -1) >= 0;
    });
}

// Requires the lock.
bool Store::State::take_unreadable(kube::Unreadable one) {
    if (!one.head) {
        const bool news = nameless.empty();
        nameless = one.text();
        return news;
    }
    const auto known = unreadable.find(view_of(one.head));
    const bool news = known == unreadable.end() || known->second.why != one.why;
    unreadable.insert_or_assign(one.head->key(), std::move(one));
    return news;
}

bool Store::note_unreadable(kube::Unreadable one) {
    const std::unique_lock lock(state_->mutex);
    return state_->take_unreadable(std::move(one));
}

// What a state of all at `rv` leaves of an object it shows, with the events of that.
ObjectPtr Store::State::taken(ObjectPtr object,
                              std::string_view rv,
                              bool reset,
                              std::vector<Event>& removals,
                              std::vector<Event>& others) const {
    const ObjectPtr old = find(view_of(object));
    if (!old) {
        others.push_back({EventType::create, nullptr, object});
        return object;
    }
    const int moved = order(object->resource_version(), old->resource_version(), 1);
    // A state later than `old` that shows an older one: the data was set back meanwhile.
    const bool keep = moved < 0 && !reset && order(rv, old->resource_version(), -1) < 0;
    // Histories that parted may have used a version twice.
    const bool same =
        moved == 0 && (reset ? old->bytes() == object->bytes() : old->uid() == object->uid());
    if (same || keep) {
        return old;
    }
    if (old->uid() == object->uid()) {
        others.push_back({EventType::update, old, object});
    } else {
        removals.push_back(
            {.type = EventType::remove, .old_object = old, .final_state_unknown = true});
        others.push_back({EventType::create, nullptr, object});
    }
    return object;
}

std::vector<Event> Store::replace(Shadow shadow,
                                  std::string_view rv,
                                  bool reset,
                                  std::vector<kube::Unreadable> unreadable) {
    // Everything is built beside the present content; readers wait for the swap alone.
    const auto newer_last = [](const ObjectPtr& a, const ObjectPtr& b) {
        const KeyView left = view_of(a);
        const KeyView right = view_of(b);
        return left != right ? left < right
                             : order(a->resource_version(), b->resource_version(), 0) < 0;
    };
    std::stable_sort(shadow.begin(), shadow.end(), newer_last);
    std::vector<Event> removals;
    std::vector<Event> others;
    Objects objects;
    Indexes indexes;
    for (const auto& [spec, index] : state_->indexes) {
        indexes.emplace(spec, Index{});
    }
    std::size_t bytes = 0;
    for (std::size_t i = 0; i < shadow.size(); ++i) {
        if (i + 1 < shadow.size() && view_of(shadow[i]) == view_of(shadow[i + 1])) {
            continue;  // the same key again, newer
        }
        ObjectPtr object = std::move(shadow[i]);
        object = state_->taken(std::move(object), rv, reset, removals, others);
        bytes += object->memory();
        put(indexes, object);
        objects.insert(objects.end(), std::move(object));
    }
    Unreadables there;
    for (const kube::Unreadable& one : unreadable) {
        if (one.head) {
            there.emplace(one.head->key(), one);
        }
    }
    for (const ObjectPtr& old : state_->objects) {
        if (objects.contains(old)) {
            continue;
        }
        if (state_->stays(old, there)) {
            bytes += old->memory();
            put(indexes, old);
            objects.insert(old);
        } else {
            removals.push_back(
                {.type = EventType::remove, .old_object = old, .final_state_unknown = true});
        }
    }
    const std::unique_lock lock(state_->mutex);
    std::swap(state_->objects, objects);
    std::swap(state_->indexes, indexes);
    state_->bytes = bytes;
    state_->unreadable.clear();
    state_->nameless.clear();
    for (kube::Unreadable& one : unreadable) {
        state_->take_unreadable(std::move(one));
    }
    state_->tell_overlaid(objects, rv, reset, removals, others);
    if (reset) {
        state_->version = rv;
        state_->overlays.clear();
    }
    state_->advance(rv);
    state_->settle_overlays(rv, others);
    removals.insert(removals.end(),
                    std::make_move_iterator(others.begin()),
                    std::make_move_iterator(others.end()));
    return removals;
}

std::vector<Event> Store::apply_upsert(ObjectPtr object) {
    const std::string_view rv = object->resource_version();
    const ObjectPtr old = state_->find(view_of(object));
    // What is not there and older than the store was deleted before: an event from the past. Not
    // what is of the store's own version: objects written together share one.
    const bool stale = old ? order(rv, old->resource_version(), 1) <= 0
                           : !state_->version.empty() && order(rv, state_->version, 1) < 0;
    if (stale) {
        return {};
    }
    std::vector<Event> events;
    const std::unique_lock lock(state_->mutex);
    forget_unreadable(state_->unreadable, object);
    bool own = false;
    if (const auto overlay = state_->overlays.find(view_of(object));
        overlay != state_->overlays.end()) {
        const bool caught_up = overlay->second.object
                                   ? order(rv, overlay->second.object->resource_version(), -1) >= 0
                                   : overlay->second.uid != object->uid();
        own = caught_up && state_->drop_overlay(overlay, rv);
    }
    if (!old) {
        events.push_back({.type = EventType::create, .new_object = object, .own_write = own});
    } else {
        state_->erase(old);
        if (old->uid() == object->uid()) {
            events.push_back({.type = EventType::update,
                              .old_object = old,
                              .new_object = object,
                              .own_write = own});
        } else {
            events.push_back(
                {.type = EventType::remove, .old_object = old, .final_state_unknown = true});
            events.push_back({.type = EventType::create, .new_object = object, .own_write = own});
        }
    }
    state_->insert(object);
    state_->advance(rv);
    return events;
}

std::vector<Event> Store::apply_remove(ObjectPtr object) {
    const std::string_view rv = object->resource_version();
    const ObjectPtr old = state_->find(view_of(object));
    const std::unique_lock lock(state_->mutex);
    forget_unreadable(state_->unreadable, object);
    state_->advance(rv);
    if (const auto overlay = state_->overlays.find(view_of(object));
        overlay != state_->overlays.end()) {
        const bool over = !overlay->second.object ||
                          overlay->second.object->uid() == object->uid() ||
                          order(rv, overlay->second.object->resource_version(), -1) > 0;
        if (over) {
            state_->overlays.erase(overlay);
        }
    }
    // Older than what is stored, or of a namesake before it: from the past.
    if (!old || old->uid() != object->uid() || order(rv, old->resource_version(), 1) < 0) {
        return {};
    }
    state_->erase(old);
    std::vector<Event> events;
    events.push_back({.type = EventType::remove, .old_object = std::move(object)});
    return events;
}

void Store::advance(std::string_view rv) {
    const std::unique_lock lock(state_->mutex);
    state_->advance(rv);
    std::erase_if(state_->overlays, [&](const auto& entry) {
        return entry.second.object && order(rv, entry.second.object->resource_version(), -1) >= 0;
    });
}

void Store::overlay(ObjectPtr written) {
    const std::unique_lock lock(state_->mutex);
    const std::string_view rv = written->resource_version();
    const ObjectPtr stored = state_->find(view_of(written));
    const bool seen = order(state_->version, rv, -1) >= 0 ||
                      (stored && order(stored->resource_version(), rv, -1) >= 0);
    if (rv.empty() || seen) {
        return;
    }
    const auto known = state_->overlays.find(view_of(written));
    if (known != state_->overlays.end()) {
        const bool newer_there =
            known->second.object && order(known->second.object->resource_version(), rv, -1) >= 0;
        const bool gone = !known->second.object && known->second.uid == written->uid();
        if (newer_there || gone) {
            return;
        }
    } else {
        state_->make_room();
    }
    Overlay entry{std::move(written), nullptr, "", state_->clock.now() + kOverlayTtl};
    entry.uid = entry.object->uid();
    state_->overlays.insert_or_assign(entry.object->key(), std::move(entry));
}

void Store::overlay_removed(const ObjectKey& key, std::string_view uid) {
    const std::unique_lock lock(state_->mutex);
    ObjectPtr hidden;
    if (const auto known = state_->overlays.find(key); known == state_->overlays.end()) {
        const ObjectPtr stored = state_->find(view_of(key));
        if (!stored || (!uid.empty() && stored->uid() != uid)) {
            return;  // nothing to hide
        }
        state_->make_room();
    } else {
        hidden = known->second.object ? known->second.object : known->second.hidden;
    }
    state_->overlays.insert_or_assign(
        key,
        Overlay{nullptr, std::move(hidden), std::string(uid), state_->clock.now() + kOverlayTtl});
}

}  // namespace capstan::cache
