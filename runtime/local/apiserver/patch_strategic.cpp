#include "runtime/local/apiserver/patch_strategic.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace capstan::local {
namespace {

constexpr std::string_view kPatch = "$patch";
constexpr std::string_view kOrder = "$setElementOrder/";
constexpr std::string_view kDeleteFrom = "$deleteFromPrimitiveList/";
constexpr std::string_view kRetainKeys = "$retainKeys";

// Merge keys where the schema names none (patchMergeKey tags of k8s.io/api).
constexpr std::array<std::pair<std::string_view, std::string_view>, 16> kMergeKeys{{
    {"containers", "name"},
    {"initContainers", "name"},
    {"ephemeralContainers", "name"},
    {"volumes", "name"},
    {"env", "name"},
    {"imagePullSecrets", "name"},
    {"secrets", "name"},
    {"volumeMounts", "mountPath"},
    {"volumeDevices", "devicePath"},
    {"hostAliases", "ip"},
    {"topologySpreadConstraints", "topologyKey"},
    {"ownerReferences", "uid"},
    {"conditions", "type"},
    {"podIPs", "ip"},
    {"hostIPs", "ip"},
    {"addresses", "type"},
}};

struct ListRule {
    std::string key;  // merge key; empty: none
    bool primitive_set{false};
};

ListRule rule_of(std::string_view name, const SchemaNode* list, std::string_view parent) {
    if (name == "finalizers" && parent == "metadata") {
        return {{}, true};
    }
    if (name == "ports") {
        return {parent == "spec" && list != nullptr && !list->map_keys.empty()
                    ? list->map_keys.front()
                    : std::string("containerPort"),
                false};
    }
    for (const auto& [field, key] : kMergeKeys) {
        if (field == name) {
            return {std::string(key), false};
        }
    }
    if (list != nullptr && list->list_type == ListType::map && !list->map_keys.empty()) {
        return {list->map_keys.front(), false};
    }
    return {{}, list != nullptr && list->list_type == ListType::set};
}

const SchemaNode* below(const SchemaNode* node, std::string_view name) {
    return node == nullptr ? nullptr : node->child(name);
}

const SchemaNode* items_of(const SchemaNode* node) {
    return node == nullptr ? nullptr : node->items.get();
}

class Merger {
public:
    Answer<void> map(json::Value& target,
                     const json::Value& patch,
                     const SchemaNode* node,
                     std::string_view name) {
        if (const json::Value* directive = patch.find(kPatch)) {
            const std::string* text = directive->if_string();
            if (text == nullptr || (*text != "replace" && *text != "delete" && *text != "merge")) {
                return refuse(
                    bad_request("unknown patch type found in a map: " + json::dump(*directive)));
            }
            if (*text == "delete") {
                target = json::object();
                return success();
            }
            if (*text == "replace") {
                target = patch;
                target.erase(kPatch);
                return success();
            }
        }
        if (!target.is_object()) {
            target = json::object();
        }
        CAPSTAN_TRY(retain_keys(target, patch));
        for (const json::Member& member : *patch.if_object()) {
            if (member.key == kPatch || member.key == kRetainKeys ||
                member.key.starts_with(kOrder)) {
                continue;
            }
            if (member.key.starts_with(kDeleteFrom)) {
                delete_primitives(target, member);
            } else if (member.value.is_null()) {
                target.erase(member.key);
            } else {
                CAPSTAN_TRY(this->member(target, member, node, name));
            }
        }
        return order_lists(target, patch, node, name);
    }

private:
    static Answer<void> success() { return boost::outcome_v2::success(); }

    Answer<void> member(json::Value& target,
                        const json::Member& member,
                        const SchemaNode* node,
                        std::string_view parent) {
        const SchemaNode* schema = below(node, member.key);
        if (member.value.is_object()) {
            json::Value* found = target.find(member.key);
            if (found == nullptr && !has_directives(member.value)) {
                target.set(member.key, member.value);
                return success();
            }
            return map(target[member.key], member.value, schema, member.key);
        }
        if (const json::Array* items = member.value.if_array()) {
            const ListRule rule = rule_of(member.key, schema, parent);
            const bool merges = rule.primitive_set || (!rule.key.empty() && all_objects(*items));
            if (merges) {
                return list(target[member.key], *items, schema, rule);
            }
        }
        target.set(member.key, member.value);
        return success();
    }

    static bool all_objects(const json::Array& items) {
        return std::all_of(
            items.begin(), items.end(), [](const json::Value& item) { return item.is_object(); });
    }
    static bool has_directives(const json::Value& value) {
        if (const json::Object* members = value.if_object()) {
            return std::any_of(members->begin(), members->end(), [](const json::Member& member) {
                return member.key.starts_with('$') || member.value.is_null() ||
                       has_directives(member.value);
            });
        }
        if (const json::Array* items = value.if_array()) {
            return std::any_of(items->begin(), items->end(), has_directives);
        }
        return false;
    }

    Answer<void> list(json::Value& target,
                      const json::Array& patch,
                      const SchemaNode* schema,
                      const ListRule& rule) {
        if (!target.is_array()) {
            target = json::list();
        }
        json::Array& items = *target.if_array();
        if (rule.primitive_set) {
            for (const json::Value& item : patch) {
                if (std::find(items.begin(), items.end(), item) == items.end()) {
                    items.push_back(item);
                }
            }
            return success();
        }
        const bool replace = std::any_of(patch.begin(), patch.end(), [](const json::Value& item) {
            return json::View(item)[kPatch].string_or("") == "replace" &&
                   item.if_object()->size() == 1;
        });
        if (replace) {
            items.clear();
        }
        for (const json::Value& item : patch) {
            const std::string_view directive = json::View(item)[kPatch].string_or("");
            if (directive == "replace" && item.if_object()->size() == 1) {
                continue;
            }
            const json::Value* key = item.find(rule.key);
            if (key == nullptr) {
                return refuse(bad_request("map: " + json::dump(item).substr(0, 256) +
                                          " does not contain declared merge key: " + rule.key));
            }
            const auto same_key = [&](const json::Value& other) {
                const json::Value* found = other.find(rule.key);
                return found != nullptr && *found == *key;
            };
            if (directive == "delete") {
                std::erase_if(items, same_key);
                continue;
            }
            auto found = std::find_if(items.begin(), items.end(), same_key);
            if (found == items.end()) {
                items.push_back(json::object());
                found = items.end() - 1;
            }
            CAPSTAN_TRY(map(*found, item, items_of(schema), {}));
        }
        return success();
    }

    static void delete_primitives(json::Value& target, const json::Member& directive) {
        json::Value* found =
            target.find(std::string_view(directive.key).substr(kDeleteFrom.size()));
        json::Array* items = found == nullptr ? nullptr : found->if_array();
        const json::Array* gone = directive.value.if_array();
        if (items != nullptr && gone != nullptr) {
            std::erase_if(*items, [&](const json::Value& item) {
                return std::find(gone->begin(), gone->end(), item) != gone->end();
            });
        }
    }

    static Answer<void> retain_keys(json::Value& target, const json::Value& patch) {
        const json::Value* directive = patch.find(kRetainKeys);
        if (directive == nullptr) {
            return success();
        }
        const json::Array* keep = directive->if_array();
        if (keep == nullptr) {
            return refuse(bad_request("$retainKeys is not a list"));
        }
        std::erase_if(*target.if_object(), [&](const json::Member& member) {
            return std::find(keep->begin(), keep->end(), json::Value(member.key)) == keep->end();
        });
        return success();
    }

    // Items named in $setElementOrder take that order; the others keep their place behind
    // what stood before them.
    Answer<void> order_lists(json::Value& target,
                             const json::Value& patch,
                             const SchemaNode* node,
                             std::string_view parent) {
        for (const json::Member& member : *patch.if_object()) {
            if (!member.key.starts_with(kOrder)) {
                continue;
            }
            const std::string_view field = std::string_view(member.key).substr(kOrder.size());
            json::Value* found = target.find(field);
            json::Array* items = found == nullptr ? nullptr : found->if_array();
            const json::Array* order = member.value.if_array();
            if (order == nullptr) {
                return refuse(bad_request(member.key + " is not a list"));
            }
            if (items == nullptr) {
                continue;
            }
            const ListRule rule = rule_of(field, below(node, field), parent);
            sort_by_order(*items, *order, rule.key);
        }
        return success();
    }
    static void sort_by_order(json::Array& items,
                              const json::Array& order,
                              const std::string& key) {
        const auto key_of = [&](const json::Value& item) -> const json::Value* {
            return key.empty() || !item.is_object() ? &item : item.find(key);
        };
        const auto rank = [&](const json::Value& item) -> std::optional<std::size_t> {
            const json::Value* mine = key_of(item);
            for (std::size_t i = 0; i < order.size(); ++i) {
                const json::Value* theirs = key_of(order[i]);
                if (mine != nullptr && theirs != nullptr && *mine == *theirs) {
                    return i;
                }
            }
            return std::nullopt;
        };
        std::vector<std::size_t> slots;
        std::vector<std::pair<std::size_t, json::Value>> ranked;
        for (std::size_t i = 0; i < items.size(); ++i) {
            if (const auto at = rank(items[i])) {
                slots.push_back(i);
                ranked.emplace_back(*at, std::move(items[i]));
            }
        }
        std::stable_sort(ranked.begin(), ranked.end(), [](const auto& a, const auto& b) {
            return a.first < b.first;
        });
        for (std::size_t i = 0; i < slots.size(); ++i) {
            items[slots[i]] = std::move(ranked[i].second);
        }
    }
};

}  // namespace

Answer<json::Value> apply_strategic_patch(const json::Value& object,
                                          const json::Value& patch,
                                          const SchemaNode* schema) {
    if (!patch.is_object()) {
        return refuse(bad_request("error decoding patch: a strategic merge patch is an object"));
    }
    json::Value result = object;
    CAPSTAN_TRY(Merger().map(result, patch, schema, {}));
    return result;
}

}  // namespace capstan::local
