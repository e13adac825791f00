// What predicates look at in objects: differences, owners, conditions. Internal to predicates.
// Pure; null counts as absent, and absent is nullptr. Thread: any.
#pragma once

#include "runtime/plugin/predicate_program.hpp"

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace capstan::plugin {

using Tokens = std::span<const PointerToken>;
using TokenLists = std::vector<Tokens>;

const json::Value* member(const json::Value* value, std::string_view key) noexcept;
const json::Value* metadata(const json::Value* object, std::string_view key) noexcept;
bool is_deleting(const json::Value* object) noexcept;
bool is_text(const json::Value* value, std::string_view text) noexcept;
bool differs(const json::Value* a, const json::Value* b) noexcept;
// As differs, but what lies at `ignored` (below a and b; never empty lists) does not count.
bool differs_except(const json::Value* a, const json::Value* b, const TokenLists& ignored);
// Two string maps; `keys` empty: any key. An empty map is an absent one.
bool map_changed(const json::Value* before,
                 const json::Value* after,
                 std::span<const std::string> keys);
const json::Value* find_owner(const json::Value* object, const OwnerMatch& match) noexcept;
const json::Value* condition_status(const json::Value* object, std::string_view type) noexcept;
// Items of an array or object, bytes of a string; nullopt for other kinds.
std::optional<std::size_t> length_of(const json::Value& value) noexcept;

}  // namespace capstan::plugin
