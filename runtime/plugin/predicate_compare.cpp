// What predicates look at in objects: differences, owners, conditions.
#include "runtime/plugin/predicate_compare.hpp"

#include <algorithm>

namespace capstan::plugin {

const json::Value* resolve(std::span<const PointerToken> tokens, const json::Value* root) noexcept {
    for (const PointerToken& token : tokens) {
        if (root == nullptr) {
            return nullptr;
        }
        if (const json::Array* array = root->if_array()) {
            root = token.index && *token.index < array->size() ? &(*array)[*token.index] : nullptr;
        } else {
            root = root->find(token.key);
        }
    }
    return root != nullptr && !root->is_null() ? root : nullptr;
}

const json::Value* member(const json::Value* value, std::string_view key) noexcept {
    const json::Value* found = value != nullptr ? value->find(key) : nullptr;
    return found != nullptr && !found->is_null() ? found : nullptr;
}

const json::Value* metadata(const json::Value* object, std::string_view key) noexcept {
    return member(member(object, "metadata"), key);
}

bool is_deleting(const json::Value* object) noexcept {
    return metadata(object, "deletionTimestamp") != nullptr;
}

bool is_text(const json::Value* value, std::string_view text) noexcept {
    return value != nullptr && value->if_string() != nullptr && *value->if_string() == text;
}

bool differs(const json::Value* a, const json::Value* b) noexcept {
    return a == nullptr || b == nullptr ? a != b : !(*a == *b);
}

namespace {

// What of `ignored` lies below `key`; nullopt: `key` itself is ignored.
std::optional<TokenLists> below(const TokenLists& ignored, std::string_view key) {
    TokenLists result;
    for (const Tokens& tokens : ignored) {
        if (tokens.front().key == key) {
            if (tokens.size() == 1) {
                return std::nullopt;
            }
            result.push_back(tokens.subspan(1));
        }
    }
    return result;
}

bool object_differs(const json::Object& a,
                    const json::Value& b,
                    const TokenLists& ignored,
                    bool only_absence) {
    for (const json::Member& entry : a) {
        const auto rest = below(ignored, entry.key);
        if (!rest) {
            continue;
        }
        const json::Value* other = b.find(entry.key);
        if (other == nullptr || (!only_absence && differs_except(&entry.value, other, *rest))) {
            return true;
        }
    }
    return false;
}

}  // namespace

// Recursion is bounded by json::kDepthMax.
bool differs_except(const json::Value* a, const json::Value* b, const TokenLists& ignored) {
    if (a == nullptr || b == nullptr || ignored.empty()) {
        return differs(a, b);
    }
    if (a->is_object() && b->is_object()) {
        return object_differs(*a->if_object(), *b, ignored, false) ||
               object_differs(*b->if_object(), *a, ignored, true);
    }
    if (a->is_array() && b->is_array() && a->if_array()->size() == b->if_array()->size()) {
        for (std::size_t i = 0; i < a->if_array()->size(); ++i) {
            const auto rest = below(ignored, std::to_string(i));
            if (rest && differs_except(&(*a->if_array())[i], &(*b->if_array())[i], *rest)) {
                return true;
            }
        }
        return false;
    }
    return differs(a, b);
}

bool map_changed(const json::Value* before,
                 const json::Value* after,
                 std::span<const std::string> keys) {
    if (!keys.empty()) {
        return std::any_of(keys.begin(), keys.end(), [&](const std::string& key) {
            return differs(member(before, key), member(after, key));
        });
    }
    const bool nothing_before = before == nullptr || json::View(*before).object().empty();
    const bool nothing_after = after == nullptr || json::View(*after).object().empty();
    return nothing_before || nothing_after ? nothing_before != nothing_after
                                           : differs(before, after);
}

const json::Value* find_owner(const json::Value* object, const OwnerMatch& match) noexcept {
    const json::Value* owners = metadata(object, "ownerReferences");
    if (owners == nullptr || owners->if_array() == nullptr) {
        return nullptr;
    }
    for (const json::Value& owner : *owners->if_array()) {
        const json::Value* controller = owner.find("controller");
        const bool controls =
            controller != nullptr && controller->if_bool() != nullptr && *controller->if_bool();
        if ((match.kind.empty() || is_text(owner.find("kind"), match.kind)) &&
            (match.api_version.empty() || is_text(owner.find("apiVersion"), match.api_version)) &&
            (!match.controller || *match.controller == controls)) {
            return &owner;
        }
    }
    return nullptr;
}

const json::Value* condition_status(const json::Value* object, std::string_view type) noexcept {
    const json::Value* conditions = member(member(object, "status"), "conditions");
    if (conditions == nullptr || conditions->if_array() == nullptr) {
        return nullptr;
    }
    for (const json::Value& condition : *conditions->if_array()) {
        if (is_text(condition.find("type"), type)) {
            return condition.find("status");
        }
    }
    return nullptr;
}

std::optional<std::size_t> length_of(const json::Value& value) noexcept {
    if (const auto* array = value.if_array()) {
        return array->size();
    }
    if (const auto* object = value.if_object()) {
        return object->size();
    }
    if (const auto* text = value.if_string()) {
        return text->size();
    }
    return std::nullopt;
}

}  // namespace capstan::plugin
