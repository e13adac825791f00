#include "runtime/cache/store.hpp"

#include "runtime/cache/store_state.hpp"

#include <iterator>

namespace capstan::cache {

Store::Store(const Clock& clock) : state_(std::make_unique<State>(clock)) {}
Store::~Store() = default;

ObjectPtr Store::get(const ObjectKey& key) const {
    const std::shared_lock lock(state_->mutex);
    ObjectPtr stored = state_->find(view_of(key));
    const auto overlay = state_->overlays.find(key);
    if (overlay != state_->overlays.end() && overlay->second.expires > state_->clock.now()) {
        return shown(stored, overlay->second);
    }
    return stored;
}

std::vector<ObjectPtr> Store::list(const ListQuery& query) const {
    std::vector<ObjectPtr> found;
    {
        const std::shared_lock lock(state_->mutex);
        auto at = query.ns.empty() ? state_->objects.begin()
                                   : state_->objects.lower_bound(KeyView{query.ns, ""});
        found.reserve(query.ns.empty() ? state_->objects.size() : 0);
        for (; at != state_->objects.end() && (query.ns.empty() || (*at)->ns() == query.ns); ++at) {
            found.push_back(*at);
        }
        state_->lay_over(found, query.ns, [](const Object&) { return true; });
    }
    if (query.selector != nullptr && !query.selector->empty()) {
        std::erase_if(found,
                      [&](const ObjectPtr& object) { return !query.selector->matches(*object); });
    }
    return found;
}

std::vector<ObjectPtr> Store::by_index(const IndexSpec& index,
                                       std::string_view value,
                                       std::string_view ns) const {
    std::vector<ObjectPtr> found;
    {
        const std::shared_lock lock(state_->mutex);
        if (const auto known = state_->indexes.find(index); known != state_->indexes.end()) {
            if (const auto entry = known->second.find(value); entry != known->second.end()) {
                std::copy_if(
                    entry->second.begin(),
                    entry->second.end(),
                    std::back_inserter(found),
                    [&](const ObjectPtr& object) { return ns.empty() || object->ns() == ns; });
            }
            state_->lay_over(
                found, ns, [&](const Object& object) { return has_value(index, object, value); });
            return found;
        }
    }
    found = list({std::string(ns), nullptr});
    std::erase_if(found,
                  [&](const ObjectPtr& object) { return !has_value(index, *object, value); });
    return found;
}

std::vector<ObjectPtr> Store::by_controller(std::string_view uid) const {
    return by_index({IndexSpec::Kind::controller, ""}, uid);
}

std::size_t Store::size() const {
    const std::shared_lock lock(state_->mutex);
    return state_->objects.size();
}

std::size_t Store::bytes() const {
    const std::shared_lock lock(state_->mutex);
    return state_->bytes;
}

std::string Store::resource_version() const {
    const std::shared_lock lock(state_->mutex);
    return state_->version;
}

bool Store::reached(const ObjectKey& key, std::string_view rv) const {
    const std::shared_lock lock(state_->mutex);
    const ObjectPtr stored = state_->find(view_of(key));
    return order(state_->version, rv, -1) >= 0 ||
           (stored && order(stored->resource_version(), rv, -1) >= 0);
}

std::vector<ObjectPtr> Store::watched() const {
    const std::shared_lock lock(state_->mutex);
    return {state_->objects.begin(), state_->objects.end()};
}

ObjectPtr Store::watched(const ObjectKey& key) const {
    const std::shared_lock lock(state_->mutex);
    return state_->find(view_of(key));
}

std::string Store::why_unreadable(const ObjectKey& key) const {
    const std::shared_lock lock(state_->mutex);
    const auto found = state_->unreadable.find(key);
    return found == state_->unreadable.end() ? "" : found->second.text();
}

std::string Store::why_not_whole(const ListQuery& query) const {
    const std::shared_lock lock(state_->mutex);
    for (const auto& [key, one] : state_->unreadable) {
        const bool wanted = (query.ns.empty() || key.ns == query.ns) &&
                            (query.selector == nullptr || query.selector->matches(*one.head));
        if (wanted && !state_->objects.contains(key)) {
            return one.text();
        }
    }
    return state_->nameless;
}

std::string Store::unreadable_text() const {
    const std::shared_lock lock(state_->mutex);
    const std::size_t count = state_->unreadable.size() + (state_->nameless.empty() ? 0 : 1);
    if (count == 0) {
        return "";
    }
    return (count == 1 ? "an object" : std::to_string(count) + " objects") + " cannot be read: " +
           (state_->unreadable.empty() ? state_->nameless
                                       : state_->unreadable.begin()->second.text());
}

Result<void> Store::add_index(const IndexSpec& index) {
    if (state_->indexes.contains(index)) {
        return ok();
    }
    if (state_->indexes.size() >= kIndexesMax) {
        return fail(Code::too_large,
                    "more than " + std::to_string(kIndexesMax) + " indexes on one watch");
    }
    Indexes built;
    built.emplace(index, Index{});
    for (const ObjectPtr& object : state_->objects) {
        put(built, object);
    }
    const std::unique_lock lock(state_->mutex);
    state_->indexes.merge(built);
    return ok();
}

}  // namespace capstan::cache
