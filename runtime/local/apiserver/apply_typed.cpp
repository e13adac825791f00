#include "runtime/local/apiserver/apply_typed.hpp"

#include "runtime/local/apiserver/apply_shape.hpp"

#include <set>

namespace capstan::local {
namespace {

// A JSON null is treated as absent, as the typed decoders of the real server do.
const json::Value* present(const json::Value* value) {
    return value == nullptr || value->is_null() ? nullptr : value;
}

bool is_empty(const json::Value* value) {
    if (value == nullptr) {
        return true;
    }
    const json::Object* members = value->if_object();
    const json::Array* items = value->if_array();
    return (members != nullptr && members->empty()) || (items != nullptr && items->empty());
}

Result<void> fill_set(const json::Value& value,
                      const SchemaNode* node,
                      bool at_root,
                      FieldSet& set);

Result<void> fill_map(const json::Object& members,
                      const SchemaNode* node,
                      bool at_root,
                      FieldSet& set) {
    for (const json::Member& member : members) {
        FieldSet& child = set.children["f:" + member.key];
        const SchemaNode* schema = member_schema(node, member.key, at_root);
        CAPSTAN_TRY(fill_set(member.value, schema, false, child));
        const json::Object* below = member.value.if_object();
        child.member = child.member || member.value.is_null() ||
                       (below != nullptr && below->empty()) || is_open_member(node, member.key);
        if (child.empty()) {
            set.children.erase("f:" + member.key);  // an empty associative list states nothing
        }
    }
    return ok();
}

Result<void> fill_list(const json::Array& items,
                       const SchemaNode* node,
                       Shape shape,
                       FieldSet& set) {
    for (const json::Value& item : items) {
        auto element = item_element(node, shape, item);
        if (!element) {
            return fail(Code::invalid,
                        "associative list with keys has an element that omits key field \"" +
                            (node->map_keys.empty() ? std::string() : node->map_keys.front()) +
                            "\"");
        }
        const auto [at, added] = set.children.try_emplace(std::move(*element));
        if (!added) {
            return fail(Code::invalid, "duplicate entries for key " + to_text({at->first}));
        }
        at->second.member = true;
        if (shape == Shape::list_map) {
            CAPSTAN_TRY(fill_set(item, node->items.get(), false, at->second));
        }
    }
    return ok();
}

Result<void> fill_set(const json::Value& value,
                      const SchemaNode* node,
                      bool at_root,
                      FieldSet& set) {
    switch (const Shape shape = shape_of(node, value)) {
        case Shape::leaf: set.member = true; return ok();
        case Shape::map: return fill_map(*value.if_object(), node, at_root, set);
        default: return fill_list(*value.if_array(), node, shape, set);
    }
}

// Walks two values at once; equal subtrees are skipped.
class Comparer {
public:
    explicit Comparer(Comparison& out) : out_(out) {}

    void run(const json::Value* left, const json::Value* right, const SchemaNode* node) {
        left = present(left);
        right = present(right);
        if (left == nullptr && right == nullptr) {
            return;
        }
        if (left != nullptr && right != nullptr && *left == *right) {
            return;
        }
        const Shape left_shape = left == nullptr ? Shape::leaf : shape_of(node, *left);
        const Shape right_shape = right == nullptr ? Shape::leaf : shape_of(node, *right);
        if (left != nullptr && right != nullptr && left_shape != right_shape) {
            walk(left, nullptr, node, left_shape);  // the type changed: one goes, another comes
            walk(nullptr, right, node, right_shape);
        } else {
            walk(left, right, node, left == nullptr ? right_shape : left_shape);
        }
        if (left == nullptr) {
            out_.added.insert(path_);
        } else if (right == nullptr) {
            out_.removed.insert(path_);
        }
    }

private:
    void walk(const json::Value* left,
              const json::Value* right,
              const SchemaNode* node,
              Shape shape) {
        if (shape == Shape::leaf || (is_empty(left) && is_empty(right))) {
            leaf(left, right);
        } else if (shape == Shape::map) {
            maps(left == nullptr ? nullptr : left->if_object(),
                 right == nullptr ? nullptr : right->if_object(),
                 left,
                 right,
                 node);
        } else {
            lists(left, right, node, shape);
        }
    }
    void leaf(const json::Value* left, const json::Value* right) {
        if (left == nullptr) {
            out_.added.insert(path_);
        } else if (right == nullptr) {
            out_.removed.insert(path_);
        } else {
            out_.modified.insert(path_);
        }
    }
    void maps(const json::Object* left_members,
              const json::Object* right_members,
              const json::Value* left,
              const json::Value* right,
              const SchemaNode* node) {
        const bool at_root = path_.empty();
        const auto descend =
            [&](const std::string& key, const json::Value* a, const json::Value* b) {
                path_.push_back("f:" + key);
                run(a, b, member_schema(node, key, at_root));
                path_.pop_back();
            };
        if (left_members != nullptr) {
            for (const json::Member& member : *left_members) {
                descend(member.key,
                        &member.value,
                        right == nullptr ? nullptr : right->find(member.key));
            }
        }
        if (right_members != nullptr) {
            for (const json::Member& member : *right_members) {
                if (left == nullptr || left->find(member.key) == nullptr) {
                    descend(member.key, nullptr, &member.value);
                }
            }
        }
    }
    void lists(const json::Value* left,
               const json::Value* right,
               const SchemaNode* node,
               Shape shape) {
        const ItemIndex left_items =
            left == nullptr ? ItemIndex{} : index_items(node, shape, *left);
        const ItemIndex right_items =
            right == nullptr ? ItemIndex{} : index_items(node, shape, *right);
        const auto descend =
            [&](const std::string& element, const json::Value* a, const json::Value* b) {
                path_.push_back(element);
                run(a, b, node->items.get());
                path_.pop_back();
            };
        for (const auto& [element, item] : left_items) {
            const auto other = right_items.find(element);
            descend(element, item, other == right_items.end() ? nullptr : other->second);
        }
        for (const auto& [element, item] : right_items) {
            if (!left_items.contains(element)) {
                descend(element, nullptr, item);
            }
        }
    }

    Comparison& out_;
    FieldPath path_;
};

json::Value merge_value(const json::Value& live,
                        const json::Value& config,
                        const SchemaNode* node,
                        bool at_root);

json::Value merge_map(const json::Value& live,
                      const json::Value& config,
                      const SchemaNode* node,
                      bool at_root) {
    json::Object out;
    for (const json::Member& member : *live.if_object()) {
        const json::Value* other = config.find(member.key);
        out.emplace_back(
            member.key,
            other == nullptr
                ? member.value
                : merge_value(
                      member.value, *other, member_schema(node, member.key, at_root), false));
    }
    for (const json::Member& member : *config.if_object()) {
        if (live.find(member.key) == nullptr) {
            out.push_back(member);
        }
    }
    return json::Value(std::move(out));
}

// Items keep the order of `config`; those only in `live` stay where they stood
// among their neighbours.
json::Value merge_list(const json::Array& live,
                       const json::Array& config,
                       const SchemaNode* node,
                       Shape shape) {
    std::vector<std::string> live_elements;
    std::vector<std::string> config_elements;
    for (const json::Value& item : live) {
        live_elements.push_back(item_element(node, shape, item).value_or("i:live"));
    }
    for (const json::Value& item : config) {
        config_elements.push_back(item_element(node, shape, item).value_or("i:config"));
    }
    const std::set<std::string_view> in_config(config_elements.begin(), config_elements.end());
    const auto merge_with_live = [&](std::size_t at) {
        for (std::size_t i = 0; i < live.size(); ++i) {
            if (live_elements[i] == config_elements[at]) {
                return merge_value(live[i], config[at], node->items.get(), false);
            }
        }
        return config[at];
    };
    json::Array out;
    std::size_t next_config = 0;
    for (std::size_t i = 0; i < live.size(); ++i) {
        if (!in_config.contains(live_elements[i])) {
            out.push_back(live[i]);
            continue;
        }
        // A shared item: emit config up to and including it, unless an earlier step already has.
        std::size_t position = next_config;
        while (position < config.size() && config_elements[position] != live_elements[i]) {
            ++position;
        }
        if (position == config.size()) {
            continue;
        }
        for (; next_config <= position; ++next_config) {
            out.push_back(merge_with_live(next_config));
        }
    }
    for (; next_config < config.size(); ++next_config) {
        out.push_back(merge_with_live(next_config));
    }
    return json::Value(std::move(out));
}

json::Value merge_value(const json::Value& live,
                        const json::Value& config,
                        const SchemaNode* node,
                        bool at_root) {
    if (config.is_null()) {
        return config;
    }
    const Shape shape = shape_of(node, config);
    if (shape == Shape::leaf || shape != shape_of(node, live)) {
        return config;
    }
    if (shape == Shape::map) {
        return merge_map(live, config, node, at_root);
    }
    return merge_list(*live.if_array(), *config.if_array(), node, shape);
}

std::optional<json::Value> without(const json::Value& value,
                                   const FieldSet& fields,
                                   const SchemaNode* node,
                                   bool at_root) {
    const Shape shape = shape_of(node, value);
    if (shape == Shape::map) {
        json::Object out;
        for (const json::Member& member : *value.if_object()) {
            const FieldSet* below = fields.child("f:" + member.key);
            if (below == nullptr) {
                out.push_back(member);
            } else if (!below->member) {
                if (auto kept = without(
                        member.value, *below, member_schema(node, member.key, at_root), false)) {
                    out.emplace_back(member.key, std::move(*kept));
                }
            }
        }
        return out.empty() ? std::nullopt : std::optional(json::Value(std::move(out)));
    }
    if (shape == Shape::leaf) {
        return value;
    }
    json::Array out;
    for (const json::Value& item : *value.if_array()) {
        const auto element = item_element(node, shape, item);
        const FieldSet* below = element ? fields.child(*element) : nullptr;
        if (below == nullptr) {
            out.push_back(item);
        } else if (!below->member) {
            if (auto kept = without(item, *below, node->items.get(), false)) {
                out.push_back(std::move(*kept));
            }
        }
    }
    return out.empty() ? std::nullopt : std::optional(json::Value(std::move(out)));
}

}  // namespace

Result<FieldSet> to_field_set(const json::Value& object, const ObjectSchema& schema) {
    FieldSet set;
    CAPSTAN_TRY(fill_set(object, schema.root, true, set));
    set.member = false;
    return set;
}

Comparison compare(const json::Value& left, const json::Value& right, const ObjectSchema& schema) {
    Comparison out;
    Comparer(out).run(&left, &right, schema.root);
    return out;
}

json::Value merge_typed(const json::Value& live,
                        const json::Value& config,
                        const ObjectSchema& schema) {
    return merge_value(live, config, schema.root, true);
}

json::Value remove_fields(const json::Value& object,
                          const FieldSet& fields,
                          const ObjectSchema& schema) {
    return without(object, fields, schema.root, true).value_or(json::object());
}

}  // namespace capstan::local
