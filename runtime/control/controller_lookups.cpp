// How map rules see a controller's primaries.
#include "runtime/control/controller.hpp"

#include "runtime/control/controller_parts.hpp"

#include <utility>

namespace capstan::control {

// For a rule that asks for nothing nothing is made ready: most events come that way.
plugin::MapLookups Controller::lookups(plugin::MapRule::Kind kind) const {
    plugin::MapLookups result;
    result.primary_cluster_scoped = primary_cluster_scoped_;
    if (kind != plugin::MapRule::Kind::refers_from && kind != plugin::MapRule::Kind::all) {
        return result;
    }
    const auto keys_of = [](const std::vector<cache::ObjectPtr>& objects) {
        std::vector<ObjectKey> keys;
        keys.reserve(objects.size());
        for (const cache::ObjectPtr& object : objects) {
            keys.push_back(object->key());
        }
        return keys;
    };
    const auto stores = primary_stores();
    result.by_field = [stores, keys_of](const GroupVersionKind&,
                                        std::string_view field,
                                        std::string_view value,
                                        std::string_view ns) {
        std::vector<ObjectKey> keys;
        for (const auto& store : stores) {
            for (ObjectKey& key : keys_of(store->by_index(
                     {cache::IndexSpec::Kind::field, std::string(field)}, value, ns))) {
                keys.push_back(std::move(key));
            }
        }
        return keys;
    };
    result.all = [stores, keys_of](const GroupVersionKind&, std::string_view ns) {
        std::vector<ObjectKey> keys;
        for (const auto& store : stores) {
            for (ObjectKey& key : keys_of(store->list({std::string(ns), nullptr}))) {
                keys.push_back(std::move(key));
            }
        }
        return keys;
    };
    return result;
}

std::vector<std::shared_ptr<const cache::Store>> Controller::primary_stores() const {
    std::vector<std::shared_ptr<const cache::Store>> stores;
    for (const auto& state : watches_) {
        if (state->watch == watches_.front()->watch && state->handle != nullptr) {
            stores.push_back(state->handle->store());
        }
    }
    return stores;
}

}  // namespace capstan::control
