// Base64 as RFC 4648 has it: the standard alphabet with padding.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace capstan::steward {

// Value of a character, or 0xff; "=" is none.
extern const std::array<std::uint8_t, 256> kBase64Values;

void append_base64(std::string& out, std::string_view bytes);
std::string to_base64(std::string_view bytes);
// nullopt: not canonical padded base64.
std::optional<std::string> from_base64(std::string_view text);

// Whole groups of four, padding only at the end; nothing is also base64.
bool is_base64(std::string_view text) noexcept;

}  // namespace capstan::steward
