#include "runtime/plugin/strict_object.hpp"

#include "capstan/clock.hpp"
#include "runtime/plugin/manifest.hpp"

#include <algorithm>
#include <numeric>

namespace capstan::plugin {

namespace {

const json::Array kNoItems;

std::size_t edit_distance(std::string_view a, std::string_view b) {
    std::vector<std::size_t> row(b.size() + 1);
    std::iota(row.begin(), row.end(), std::size_t{0});
    for (std::size_t i = 1; i <= a.size(); ++i) {
        std::size_t diagonal = std::exchange(row[0], i);
        for (std::size_t j = 1; j <= b.size(); ++j) {
            const std::size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
            diagonal = std::exchange(row[j], std::min({replaced, row[j] + 1, row[j - 1] + 1}));
        }
    }
    return row.back();
}

}  // namespace

std::string nearest(std::string_view word, const std::vector<std::string>& known) {
    std::string best;
    std::size_t best_distance = std::min<std::size_t>(3, word.size() / 2 + 1);
    if (word.size() > 64) {
        return best;
    }
    for (const std::string& name : known) {
        const std::size_t distance = edit_distance(word, name);
        if (distance < best_distance) {
            best = name;
            best_distance = distance;
        }
    }
    return best;
}

bool is_dns_label(std::string_view text) noexcept {
    const auto plain = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); };
    return !text.empty() && text.size() <= 63 && plain(text.front()) && plain(text.back()) &&
           std::all_of(text.begin(), text.end(), [&](char c) { return plain(c) || c == '-'; });
}

bool is_dns_subdomain(std::string_view text) noexcept {
    if (text.size() > 253) {
        return false;
    }
    for (;;) {
        const std::string_view label = text.substr(0, text.find('.'));
        if (!is_dns_label(label)) {
            return false;
        }
        if (label.size() == text.size()) {
            return true;
        }
        text.remove_prefix(label.size() + 1);
    }
}

StrictObject::StrictObject(const json::Value& value, std::string path, Problems& problems)
    : value_(value), path_(std::move(path)), problems_(problems) {
    if (!value.is_object()) {
        problems_.add(path_, "expected an object");
    }
}

std::string StrictObject::at(std::string_view key) const {
    return path_ + "/" + json::escape_pointer_token(key);
}

const json::Value* StrictObject::take(std::string_view key) {
    return take(key, Need::optional);
}

const json::Value* StrictObject::take(std::string_view key, Need need) {
    asked_.emplace_back(key);
    const json::Value* found = value_.find(key);
    if (found != nullptr && found->is_null()) {
        found = nullptr;
    }
    if (found == nullptr && need == Need::required && value_.is_object()) {
        problem(key, "missing");
    }
    return found;
}

std::string StrictObject::text(std::string_view key, Need need, std::string_view fallback) {
    const json::Value* value = take(key, need);
    if (value == nullptr) {
        return std::string(fallback);
    }
    const std::string* found = value->if_string();
    if (found == nullptr || found->empty() || found->size() > kManifestTextBytesMax) {
        problem(key, "expected a string of 1 to 1024 bytes");
        return std::string(fallback);
    }
    return *found;
}

std::string StrictObject::one_of(std::string_view key,
                                 std::initializer_list<std::string_view> allowed,
                                 std::string_view fallback) {
    const std::string found = text(key, Need::optional, fallback);
    if (std::find(allowed.begin(), allowed.end(), found) != allowed.end()) {
        return found;
    }
    std::string names;
    for (const std::string_view name : allowed) {
        names += (names.empty() ? "\"" : ", \"") + std::string(name) + "\"";
    }
    problem(key, "\"" + found + "\" is none of " + names);
    return std::string(fallback);
}

bool StrictObject::flag(std::string_view key, bool fallback) {
    const json::Value* value = take(key);
    if (value == nullptr) {
        return fallback;
    }
    if (value->if_bool() == nullptr) {
        problem(key, "expected true or false");
        return fallback;
    }
    return *value->if_bool();
}

std::uint32_t StrictObject::number(std::string_view key,
                                   std::uint32_t fallback,
                                   std::uint32_t min,
                                   std::uint32_t max) {
    const json::Value* value = take(key);
    if (value == nullptr) {
        return fallback;
    }
    const std::int64_t* found = value->if_int();
    if (found == nullptr || *found < min || *found > max) {
        problem(key,
                "expected an integer from " + std::to_string(min) + " to " + std::to_string(max));
        return fallback;
    }
    return static_cast<std::uint32_t>(*found);
}

std::optional<std::chrono::nanoseconds> StrictObject::duration(std::string_view key,
                                                               std::chrono::nanoseconds min,
                                                               std::chrono::nanoseconds max) {
    const json::Value* value = take(key);
    if (value == nullptr) {
        return std::nullopt;
    }
    const auto found = value->is_string() ? parse_duration(*value->if_string()) : std::nullopt;
    if (!found || *found < min || *found > max) {
        const auto seconds = [](std::chrono::nanoseconds d) {
            return std::to_string(std::chrono::duration_cast<std::chrono::seconds>(d).count()) +
                   "s";
        };
        problem(key,
                "expected a duration like \"30s\" or \"5m\", from " + seconds(min) + " to " +
                    seconds(max));
        return std::nullopt;
    }
    return found;
}

const json::Array& StrictObject::list(std::string_view key, Need need) {
    const json::Value* value = take(key, need);
    if (value == nullptr) {
        return kNoItems;
    }
    if (!value->is_array() || value->if_array()->size() > kManifestItemsMax) {
        problem(key, "expected a list of at most 256 items");
        return kNoItems;
    }
    return *value->if_array();
}

std::vector<std::string> StrictObject::texts(std::string_view key, Need need) {
    std::vector<std::string> result;
    for (const json::Value& item : list(key, need)) {
        if (!item.is_string() || item.if_string()->size() > kManifestTextBytesMax) {
            problem(key, "expected a list of strings");
            return {};
        }
        result.push_back(*item.if_string());
    }
    if (need == Need::required && result.empty() && value_.find(key) != nullptr) {
        problem(key, "must not be empty");
    }
    return result;
}

void StrictObject::finish(bool extensions_allowed) {
    for (const json::Member& member : json::View(value_).object()) {
        if (std::find(asked_.begin(), asked_.end(), member.key) != asked_.end() ||
            (extensions_allowed && member.key.starts_with("x-"))) {
            continue;
        }
        const std::string meant = nearest(member.key, asked_);
        problem(
            member.key,
            meant.empty() ? "unknown member" : "unknown member; did you mean \"" + meant + "\"?");
    }
}

}  // namespace capstan::plugin
