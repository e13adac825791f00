// Names of things in the API: kinds and keys. Values; thread: any.
#pragma once

#include "capstan/error.hpp"

#include <compare>
#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

namespace capstan {

// Of the name of a field manager: the API server's own limit.
inline constexpr std::size_t kFieldManagerBytesMax = 128;

// "apps/v1/StatefulSet", "v1/Pod": the form manifests and the C ABI use.
struct GroupVersionKind {
    std::string group;  // "" for the core group
    std::string version;
    std::string kind;

    std::string to_string() const;
    std::string api_version() const;  // "apps/v1", "v1"
    std::string group_kind() const;   // "apps/StatefulSet", "Pod": the form of capstan.cache/1
    static Result<GroupVersionKind> parse(std::string_view text);
    static GroupVersionKind from_api_version(std::string_view api_version, std::string_view kind);
    auto operator<=>(const GroupVersionKind&) const = default;
};

// What a queue holds and a reconcile gets. `ns` is empty for cluster-scoped kinds.
struct ObjectKey {
    std::string ns;
    std::string name;

    std::string to_string() const;  // "ns/name", or "name"
    auto operator<=>(const ObjectKey&) const = default;
};

}  // namespace capstan

template <>
struct std::hash<capstan::ObjectKey> {
    std::size_t operator()(const capstan::ObjectKey& key) const noexcept {
        return std::hash<std::string_view>{}(key.name) * 31 + std::hash<std::string_view>{}(key.ns);
    }
};

template <>
struct std::hash<capstan::GroupVersionKind> {
    std::size_t operator()(const capstan::GroupVersionKind& gvk) const noexcept {
        return (std::hash<std::string_view>{}(gvk.kind) * 31 +
                std::hash<std::string_view>{}(gvk.group)) *
                   31 +
               std::hash<std::string_view>{}(gvk.version);
    }
};
