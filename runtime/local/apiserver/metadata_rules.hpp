// What metadata may hold: names, labels, annotations, finalizers, owner references
// (apimachinery validation).
#pragma once

#include "runtime/local/apiserver/schema_error.hpp"

#include "capstan/json.hpp"

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace capstan::local {

inline constexpr std::size_t kNameBytesMax = 253;
inline constexpr std::size_t kAnnotationBytesMax = 256u * 1024;  // of all together

bool is_dns_label(std::string_view text) noexcept;      // 63 characters
bool is_dns_subdomain(std::string_view text) noexcept;  // 253 characters
// Names of RBAC kinds may hold anything that is one path segment.
enum class NameRule : std::uint8_t { subdomain, label, path_segment };

// Drops what an object's metadata does not say: nulls, empty texts, maps and lists.
void drop_empty_metadata(json::Value& object);

std::vector<FieldError> validate_metadata(const json::Value& object, NameRule rule, bool builtin);
// Rules between two versions: finalizers of a deleted object may only go.
std::vector<FieldError> validate_metadata_update(const json::Value& old_object,
                                                 const json::Value& new_object);

}  // namespace capstan::local
