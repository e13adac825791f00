// Small readings and changes of API objects that several parts of the node need. Pure.
#pragma once

#include "capstan/json.hpp"
#include "capstan/object_ref.hpp"

#include <optional>
#include <string>
#include <string_view>

namespace capstan::local {

inline const GroupVersionKind kPodKind{"", "v1", "Pod"};
inline const GroupVersionKind kServiceKind{"", "v1", "Service"};
inline const GroupVersionKind kConfigMapKind{"", "v1", "ConfigMap"};
inline const GroupVersionKind kSecretKind{"", "v1", "Secret"};
inline const GroupVersionKind kClaimKind{"", "v1", "PersistentVolumeClaim"};
inline const GroupVersionKind kStatefulSetKind{"apps", "v1", "StatefulSet"};
inline const GroupVersionKind kJobKind{"batch", "v1", "Job"};

ObjectKey key_of(const json::Value& object);
std::string uid_of(const json::Value& object);
bool is_deleting(const json::Value& object);
// `a` is an earlier state than `b`, by their resourceVersions.
bool is_older(const json::Value& a, const json::Value& b);
std::string_view phase_of(const json::Value& pod);  // status.phase
// condition Ready is True and it is not being deleted
bool is_pod_ready(const json::Value& pod);
// of the owner with controller: true; empty: none
std::string controller_uid(const json::Value& object);
json::Value controller_reference(const GroupVersionKind& kind, const json::Value& owner);
// Value of a label; "" when absent.
std::string_view label_of(const json::Value& object, std::string_view key);
// True when `labels` has every pair of `selector` (a plain map, as in a Service); an empty
// selector matches nothing.
bool matches(const json::Value* labels, const json::Value* selector);

// RFC 7386 patch that turns `from` into `to`; nullopt: they are equal. Arrays are replaced whole.
std::optional<json::Value> merge_patch_between(const json::Value& from, const json::Value& to);

// 64-bit FNV-1a as text that is safe in a name: letters without vowels and digits.
// Equal values, equal text.
std::string short_digest(std::string_view bytes);

}  // namespace capstan::local
