// Map rules: which keys of a controller an object of one of its watches belongs to. Pure; looks
// into the cache only through MapLookups. Thread: any (values).
#pragma once

#include "capstan/error.hpp"
#include "capstan/json.hpp"
#include "capstan/object_ref.hpp"
#include "runtime/plugin/gates.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace capstan::plugin {

inline constexpr std::size_t kMappedKeysMax = 10'000;  // per event

struct MapRule {
    enum class Kind : std::uint8_t {
        identity,  // role "for": the object is the key
        owner,     // role "owns": the controller owner reference leads to the key
        // primaries whose `field` holds the object's name; same namespace, or any for
        // cluster-scoped ones
        refers_from,
        label,  // the value of label `key` is the primary's name
        name,   // the object's name without `prefix` and `suffix` is the primary's name
        // every primary in the object's namespace; for cluster-scoped objects every primary
        all,
    };
    Kind kind{Kind::identity};
    GroupVersionKind primary;  // the kind of the controller's "for" watch
    std::string field;         // refers_from: JSON pointer into the primary
    std::string key;           // label
    std::string prefix, suffix;

    // `tree`: the manifest's "map" of a watch with role "maps".
    static MapRule parse(const json::Value& tree,
                         const GroupVersionKind& primary,
                         std::string_view path,
                         Problems& problems);
};
std::string_view to_string(MapRule::Kind kind) noexcept;  // "for", "owns", "refersFrom", …

// How a rule sees the cached primaries. `ns` empty: all namespaces. Results may be
// unsorted and hold duplicates.
struct MapLookups {
    std::function<std::vector<ObjectKey>(const GroupVersionKind& gvk,
                                         std::string_view field,
                                         std::string_view value,
                                         std::string_view ns)>
        by_field;
    std::function<std::vector<ObjectKey>(const GroupVersionKind& gvk, std::string_view ns)> all;
    // The primaries have no namespace: whatever leads to one by name leads out of the object's.
    bool primary_cluster_scoped{false};
};

struct MappedKeys {
    std::vector<ObjectKey> keys;  // sorted, unique
    // more than kMappedKeysMax: the caller counts it and relies on the resync
    bool truncated{false};
};

// Keys for the old and the new state of an object (either may be nullptr), so that an object which
// changed its owner wakes both.
MappedKeys map_keys(const MapRule& rule,
                    const json::Value* old_object,
                    const json::Value* new_object,
                    const MapLookups& lookups);

// What map_keys() may look at, as Predicate::looks_at().
std::vector<std::string> looks_at(const MapRule& rule);

}  // namespace capstan::plugin
