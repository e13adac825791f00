// What the generated types of api/ are made of: metadata, quantities, and reading
// and writing of fields.
//
// Errors of every decode(): invalid, "<path>: missing" or "<path>: expected …,
// found …". Thread: values.
#pragma once

#include "capstan/error.hpp"
#include "capstan/json.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace capstan::api {

inline constexpr std::string_view kGroup = "druid.gardener.cloud";
inline constexpr std::string_view kApiVersion = "druid.gardener.cloud/v1alpha1";

using StringMap = std::map<std::string, std::string>;

// A value that manifests write as a number or as text (quantities, ports). Kept as it was written.
struct IntOrString {
    std::string text;  // decimal digits when `integer`
    bool integer{false};
    bool operator==(const IntOrString&) const = default;
};

// The quantity in whole units (bytes), rounded up as Kubernetes does. Errors: invalid (not a
// quantity, or beyond int64).
Result<std::int64_t> quantity(const IntOrString& value);

struct OwnerReference {
    std::string api_version;
    std::string kind;
    std::string name;
    std::string uid;
    bool controller{false};
    bool block_owner_deletion{false};
};

// The part of metav1.ObjectMeta that we read.
struct ObjectMeta {
    std::string name;
    std::string ns;
    std::string uid;
    std::string resource_version;
    std::int64_t generation{0};
    std::optional<std::string> creation_timestamp;  // RFC 3339
    std::optional<std::string> deletion_timestamp;
    StringMap labels;
    StringMap annotations;
    std::vector<std::string> finalizers;
    std::vector<OwnerReference> owner_references;

    bool deleting() const noexcept { return deletion_timestamp.has_value(); }
    bool has_finalizer(std::string_view finalizer) const noexcept;
    // The controller owner's uid, or "".
    std::string_view controller_uid() const noexcept;
};

Result<void> decode(const json::View& view, std::string& out);
Result<void> decode(const json::View& view, bool& out);
Result<void> decode(const json::View& view, double& out);
Result<void> decode(const json::View& view, std::int64_t& out);
Result<void> decode(const json::View& view, std::int32_t& out);
Result<void> decode(const json::View& view, IntOrString& out);
Result<void> decode(const json::View& view, json::Value& out);
Result<void> decode(const json::View& view, StringMap& out);
Result<void> decode(const json::View& view, OwnerReference& out);
Result<void> decode(const json::View& view, ObjectMeta& out);  // an absent block is an error
// The position of the text in `names`. Errors: invalid, with the accepted values.
Result<std::size_t> decode_enum(const json::View& view, std::span<const std::string_view> names);

inline json::Value encode(const std::string& in) {
    return in;
}
inline json::Value encode(bool in) {
    return in;
}
inline json::Value encode(double in) {
    return in;
}
inline json::Value encode(std::int64_t in) {
    return in;
}
inline json::Value encode(std::int32_t in) {
    return in;
}
inline json::Value encode(const json::Value& in) {
    return in;
}
json::Value encode(const IntOrString& in);
json::Value encode(const StringMap& in);
json::Value encode(const OwnerReference& in);
json::Value encode(const ObjectMeta& in);

template <class T>
Result<void> decode(const json::View& view, std::vector<T>& out) {
    CAPSTAN_TRY(const json::Array* items, view.as_array());
    out.clear();
    out.reserve(items->size());
    for (std::size_t i = 0; i < items->size(); ++i) {
        T item{};
        CAPSTAN_TRY(decode(view[i], item));
        out.push_back(std::move(item));
    }
    return ok();
}

template <class T>
Result<void> decode(const json::View& view, std::optional<T>& out) {
    out.reset();
    if (!view.present()) {
        return ok();
    }
    T value{};
    CAPSTAN_TRY(decode(view, value));
    out = std::move(value);
    return ok();
}

// For collections: absent and empty are the same.
template <class T>
Result<void> decode_optional(const json::View& view, T& out) {
    out.clear();
    if (!view.present()) {
        return ok();
    }
    return decode(view, out);
}

template <class T>
json::Value encode(const std::vector<T>& in) {
    json::Value out = json::list();
    for (const T& item : in) {
        out.push_back(encode(item));
    }
    return out;
}

template <class T>
void put(json::Value& object, std::string_view key, const T& value) {
    object.set(key, encode(value));
}

template <class T>
void put_present(json::Value& object, std::string_view key, const std::optional<T>& value) {
    if (value) {
        put(object, key, *value);
    }
}
template <class T>
void put_present(json::Value& object, std::string_view key, const std::vector<T>& value) {
    if (!value.empty()) {
        put(object, key, value);
    }
}
inline void put_present(json::Value& object, std::string_view key, const StringMap& value) {
    if (!value.empty()) {
        put(object, key, value);
    }
}

}  // namespace capstan::api
