// Reads one JSON object strictly: every member is asked for, wrong kinds and leftovers become
// problems. Internal to the manifest reader. Borrows the value. Thread: one.
#pragma once

#include "capstan/json.hpp"
#include "runtime/plugin/gates.hpp"

#include <chrono>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace capstan::plugin {

enum class Need : std::uint8_t { optional, required };

class StrictObject {
public:
    // Not an object: reported, and everything is absent.
    StrictObject(const json::Value& value, std::string path, Problems& problems);

    const json::Value* take(std::string_view key);  // nullptr: absent; null counts as absent
    std::string text(std::string_view key,
                     Need need = Need::optional,
                     std::string_view fallback = "");
    std::string one_of(std::string_view key,
                       std::initializer_list<std::string_view> allowed,
                       std::string_view fallback);
    bool flag(std::string_view key, bool fallback);
    std::uint32_t number(std::string_view key,
                         std::uint32_t fallback,
                         std::uint32_t min,
                         std::uint32_t max);
    std::optional<std::chrono::nanoseconds> duration(std::string_view key,
                                                     std::chrono::nanoseconds min,
                                                     std::chrono::nanoseconds max);
    std::vector<std::string> texts(std::string_view key, Need need = Need::optional);
    // Items of a list; empty when absent.
    const json::Array& list(std::string_view key, Need need = Need::optional);
    // reports members nobody asked for; "x-…" are kept when allowed
    void finish(bool extensions_allowed = false);

    std::string at(std::string_view key) const;  // the path of a member
    void problem(std::string_view key, std::string_view what) { problems_.add(at(key), what); }

private:
    const json::Value* take(std::string_view key, Need need);
    const json::Value& value_;
    std::string path_;
    Problems& problems_;
    std::vector<std::string> asked_;
};

// The entry of `known` closest to `word`, or "" when none is near. For "did you mean".
std::string nearest(std::string_view word, const std::vector<std::string>& known);

// Names: lower-case letters, digits and '-', at most 63; a subdomain is names
// joined by '.', at most 253.
bool is_dns_label(std::string_view text) noexcept;
bool is_dns_subdomain(std::string_view text) noexcept;

}  // namespace capstan::plugin
