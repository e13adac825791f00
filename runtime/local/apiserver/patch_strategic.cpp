#include "runtime/local/apiserver/patch_strategic.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

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

// Tells the end of what a list had: the patch's items replace them.
bool is_replacement(const json::Value& item) {
    return json::View(item)[kPatch].string_or("") == "replace" && item.if_object()->size() == 1;
}

// Whether the member `name` of an item is that of `with`.
auto same_member(const std::string& name, const json::Value& with) {
    return [&name, key = with.find(name)](const json::Value& item) {
        const json::Value* found = item.find(name);
        return found != nullptr && key != nullptr && *found == *key;
    };
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
        const json::Value before = ordered_lists(target, patch);
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
        return order_lists(target, patch, before, node, name);
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
            const json::Array before = items;
            for (const json::Value& item : patch) {
                if (std::find(items.begin(), items.end(), item) == items.end()) {
                    items.push_back(item);
                }
            }
            arrange(items, patch, before, {});
            return success();
        }
        const bool replace = std::any_of(patch.begin(), patch.end(), is_replacement);
        if (replace) {
            items.clear();
        }
        for (const json::Value& item : patch) {
            if (is_replacement(item)) {
                continue;
            }
            if (item.find(rule.key) == nullptr) {
                return refuse(bad_request("map: " + json::dump(item).substr(0, 256) +
                                          " does not contain declared merge key: " + rule.key));
            }
            if (json::View(item)[kPatch].string_or("") == "delete") {
                std::erase_if(items, same_member(rule.key, item));
            }
        }
        const json::Array before = items;
        for (const json::Value& item : patch) {
            if (is_replacement(item) || json::View(item)[kPatch].string_or("") == "delete") {
                continue;
            }
            auto found = std::find_if(items.begin(), items.end(), same_member(rule.key, item));
            if (found == items.end()) {
                items.push_back(json::object());
                found = items.end() - 1;
            }
            CAPSTAN_TRY(map(*found, item, items_of(schema), {}));
        }
        if (!replace) {
            arrange(items, patch, before, rule.key);
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

    // The lists that have a $setElementOrder, as they are before the patch.
    static json::Value ordered_lists(const json::Value& target, const json::Value& patch) {
        json::Value lists = json::object();
        for (const json::Member& member : *patch.if_object()) {
            if (member.key.starts_with(kOrder)) {
                const std::string_view field = std::string_view(member.key).substr(kOrder.size());
                const json::Value* list = target.find(field);
                lists.set(std::string(field),
                          list != nullptr && list->is_array() ? *list : json::list());
            }
        }
        return lists;
    }

    Answer<void> order_lists(json::Value& target,
                             const json::Value& patch,
                             const json::Value& before,
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
            arrange(*items, *order, *before.find(field)->if_array(), rule.key);
        }
        return success();
    }

    // Items named by `order` take its order, the others that of `before`. Between the two, what
    // stood in front of the other before the patch still does; else what `order` names comes first.
    static void arrange(json::Array& items,
                        const json::Array& order,
                        const json::Array& before,
                        const std::string& key) {
        const auto key_of = [&](const json::Value& item) -> const json::Value* {
            return key.empty() || !item.is_object() ? &item : item.find(key);
        };
        const auto rank = [&](const json::Array& list, const json::Value& item) {
            const json::Value* mine = key_of(item);
            const auto found =
                std::find_if(list.begin(), list.end(), [&](const json::Value& other) {
                    const json::Value* theirs = key_of(other);
                    return mine != nullptr && theirs != nullptr && *mine == *theirs;
                });
            return static_cast<std::size_t>(found - list.begin());
        };
        struct Placed {
            std::size_t rank;   // in the list that decides
            std::size_t place;  // in `before`; its size: not there
            json::Value item;
        };
        std::vector<Placed> named, others;
        for (json::Value& item : items) {
            const std::size_t in_order = rank(order, item), place = rank(before, item);
            if (in_order < order.size()) {
                named.push_back({in_order, place, std::move(item)});
            } else {
                others.push_back({place, place, std::move(item)});
            }
        }
        const auto less = [](const Placed& a, const Placed& b) { return a.rank < b.rank; };
        std::stable_sort(named.begin(), named.end(), less);
        std::stable_sort(others.begin(), others.end(), less);
        items.clear();
        auto next = named.begin();
        for (Placed& other : others) {
            while (next != named.end() &&
                   (next->place == before.size() || next->place < other.place)) {
                items.push_back(std::move(next++->item));
            }
            items.push_back(std::move(other.item));
        }
        for (; next != named.end(); ++next) {
            items.push_back(std::move(next->item));
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
