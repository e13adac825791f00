// Walks JSON text without building a tree: the bytes of our own objects, and the outline of a
// foreign document whose pieces are then parsed by json::parse. Bounds are kept, but malformed text
// gives "absent", not an error. Thread: any.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace capstan::kube::raw {

// Length of the JSON value at the start of `text`; 0 when it is cut off.
std::size_t value_length(std::string_view text) noexcept;
// Raw text of a member's value; nullopt when absent or no object. `key` is unescaped.
std::optional<std::string_view> member(std::string_view object, std::string_view key) noexcept;
// Calls with each element (arrays: empty key) or each member (raw key, still escaped). Stop by
// returning false.
void each(std::string_view container,
          const std::function<bool(std::string_view, std::string_view)>& visit);
// RFC 6901.
std::optional<std::string_view> pointer(std::string_view document, std::string_view path) noexcept;
// One RFC 6901 token unescaped; nullopt when malformed.
std::optional<std::string> unescape_token(std::string_view token);
// Unescapes a raw JSON string; nullopt when `text` is no string.
std::optional<std::string> to_text(std::string_view text);

}  // namespace capstan::kube::raw
